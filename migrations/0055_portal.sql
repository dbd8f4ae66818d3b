CREATE TABLE "portal_sessions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"organization_id" uuid NOT NULL,
	"hashed_link" text NOT NULL,
	"hashed_token" text,
	"service_key_id" uuid,
	"created_by" text NOT NULL,
	"member_id" uuid,
	"pages" text[] NOT NULL,
	"livemode" boolean,
	"subject" text,
	"return_url" text,
	"accent" text,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "portal_sessions_hashed_link" UNIQUE("hashed_link"),
	CONSTRAINT "portal_sessions_hashed_token" UNIQUE("hashed_token")
);
--> statement-breakpoint
ALTER TABLE "portal_sessions" ADD CONSTRAINT "portal_sessions_organization_id_organizations_id_fk" FOREIGN KEY ("organization_id") REFERENCES "public"."organizations"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "portal_sessions" ADD CONSTRAINT "portal_sessions_member_id_users_id_fk" FOREIGN KEY ("member_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "portal_sessions_organization" ON "portal_sessions" USING btree ("organization_id","id");--> statement-breakpoint
CREATE INDEX "portal_sessions_member" ON "portal_sessions" USING btree ("member_id");--> statement-breakpoint
CREATE INDEX "portal_sessions_expiry" ON "portal_sessions" USING btree ("expires_at");