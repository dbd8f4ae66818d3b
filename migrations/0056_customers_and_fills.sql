ALTER TABLE "portal_sessions" ADD COLUMN "operator_id" uuid;--> statement-breakpoint
ALTER TABLE "trading_fills" ADD COLUMN "near_extreme" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "portal_sessions" ADD CONSTRAINT "portal_sessions_operator_id_users_id_fk" FOREIGN KEY ("operator_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_keys_prefix" ON "api_keys" USING btree ("prefix" text_pattern_ops);--> statement-breakpoint
CREATE INDEX "organizations_name" ON "organizations" USING btree (lower("name") collate "C","slug");--> statement-breakpoint
CREATE INDEX "portal_sessions_operator" ON "portal_sessions" USING btree ("operator_id");