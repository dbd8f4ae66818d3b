CREATE TABLE "invitations" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"hashed_token" text NOT NULL,
	"email" text NOT NULL,
	"role" text NOT NULL,
	"created_by" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"accepted_at" timestamp (6) with time zone,
	"accepted_by" uuid,
	"revoked_at" timestamp (6) with time zone,
	CONSTRAINT "invitations_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "invitations_hashed_token" UNIQUE("org_id","hashed_token"),
	CONSTRAINT "invitations_role" CHECK ("invitations"."role" in ('owner', 'admin', 'member', 'billing'))
);
--> statement-breakpoint
CREATE TABLE "recovery_codes" (
	"user_id" uuid NOT NULL,
	"hashed_code" text NOT NULL,
	"used_at" timestamp (6) with time zone,
	CONSTRAINT "recovery_codes_user_id_hashed_code_pk" PRIMARY KEY("user_id","hashed_code")
);
--> statement-breakpoint
CREATE TABLE "second_factors" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"secret" text NOT NULL,
	"confirmed_at" timestamp (6) with time zone,
	"last_step" bigint,
	"setup_session" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sign_in_challenges" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"attempts" integer NOT NULL
);
--> statement-breakpoint
CREATE TABLE "api_key_calls" (
	"org_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"minute" timestamp (6) with time zone NOT NULL,
	"calls" bigint NOT NULL,
	CONSTRAINT "api_key_calls_org_id_api_key_id_minute_pk" PRIMARY KEY("org_id","api_key_id","minute")
);
--> statement-breakpoint
CREATE TABLE "api_key_scope_use" (
	"org_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"scope" text NOT NULL,
	"calls" bigint NOT NULL,
	"last_used_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "api_key_scope_use_org_id_api_key_id_scope_pk" PRIMARY KEY("org_id","api_key_id","scope")
);
--> statement-breakpoint
CREATE TABLE "api_key_use_receipts" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit_chains" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"seq" bigint NOT NULL,
	"hash" text NOT NULL
);
--> statement-breakpoint
DROP INDEX "usage_events_time";--> statement-breakpoint
ALTER TABLE "sessions" ADD COLUMN "id" uuid DEFAULT gen_random_uuid() NOT NULL;--> statement-breakpoint
ALTER TABLE "audit_log" ADD COLUMN "seq" bigint;--> statement-breakpoint
ALTER TABLE "audit_log" ADD COLUMN "hash" text;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_accepted_by_users_id_fk" FOREIGN KEY ("accepted_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "recovery_codes" ADD CONSTRAINT "recovery_codes_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "second_factors" ADD CONSTRAINT "second_factors_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sign_in_challenges" ADD CONSTRAINT "sign_in_challenges_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "audit_chains" ADD CONSTRAINT "audit_chains_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "invitations_unclosed" ON "invitations" USING btree ("org_id","email") WHERE "invitations"."accepted_at" is null and "invitations"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "invitations_created_by" ON "invitations" USING btree ("created_by");--> statement-breakpoint
CREATE INDEX "invitations_accepted_by" ON "invitations" USING btree ("accepted_by");--> statement-breakpoint
CREATE INDEX "sign_in_challenges_user" ON "sign_in_challenges" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sign_in_challenges_expiry" ON "sign_in_challenges" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "api_key_calls_minute" ON "api_key_calls" USING btree ("minute");--> statement-breakpoint
CREATE INDEX "api_keys_expiry" ON "api_keys" USING btree ("org_id","expires_at") WHERE "api_keys"."expires_at" is not null and "api_keys"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "audit_log_action" ON "audit_log" USING btree ("org_id","action","id");--> statement-breakpoint
CREATE INDEX "audit_log_actor" ON "audit_log" USING btree ("org_id","actor","id");--> statement-breakpoint
CREATE INDEX "usage_events_time" ON "usage_events" USING btree ("org_id","product_id","livemode","occurred_at");--> statement-breakpoint
ALTER TABLE "audit_log" ADD CONSTRAINT "audit_log_seq" UNIQUE("org_id","seq");--> statement-breakpoint
ALTER TABLE "audit_log" ADD CONSTRAINT "audit_log_chained" CHECK (("audit_log"."seq" is null) = ("audit_log"."hash" is null));