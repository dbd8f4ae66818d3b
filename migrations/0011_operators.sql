CREATE TABLE "one_time_links" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"user_id" uuid,
	"email" text,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"used_at" timestamp (6) with time zone,
	CONSTRAINT "one_time_links_kind" CHECK ("one_time_links"."kind" in ('setup', 'password_reset', 'second_factor_reset', 'operator_invitation'))
);
--> statement-breakpoint
CREATE TABLE "operators" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid
);
--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "confirmed_at" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "one_time_links" ADD CONSTRAINT "one_time_links_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "one_time_links" ADD CONSTRAINT "one_time_links_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "operators" ADD CONSTRAINT "operators_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "operators" ADD CONSTRAINT "operators_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "one_time_links_unused" ON "one_time_links" USING btree ("kind",coalesce("user_id"::text, "email", '')) WHERE "one_time_links"."used_at" is null;--> statement-breakpoint
CREATE INDEX "one_time_links_user" ON "one_time_links" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "one_time_links_created_by" ON "one_time_links" USING btree ("created_by");--> statement-breakpoint
CREATE INDEX "one_time_links_expiry" ON "one_time_links" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "operators_created_by" ON "operators" USING btree ("created_by");