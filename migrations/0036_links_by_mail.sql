ALTER TABLE "one_time_links" DROP CONSTRAINT "one_time_links_created_by_users_id_fk";
--> statement-breakpoint
DROP INDEX "one_time_links_unused";--> statement-breakpoint
ALTER TABLE "one_time_links" ADD COLUMN "mailed" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "one_time_links" ADD CONSTRAINT "one_time_links_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "one_time_links_unused" ON "one_time_links" USING btree ("kind","mailed",coalesce("user_id"::text, "email", '')) WHERE "one_time_links"."used_at" is null;