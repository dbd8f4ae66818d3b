ALTER TABLE "organizations" ADD COLUMN "archived_at" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "archived_at" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "archived_at" timestamp (6) with time zone;--> statement-breakpoint
CREATE INDEX "organizations_slug_prefix" ON "organizations" USING btree ("slug" text_pattern_ops);--> statement-breakpoint
CREATE INDEX "organizations_name_prefix" ON "organizations" USING btree (lower("name") text_pattern_ops);--> statement-breakpoint
CREATE INDEX "users_email_prefix" ON "users" USING btree ("email" text_pattern_ops);--> statement-breakpoint
CREATE INDEX "operator_log_action" ON "operator_log" USING btree ("action","id");