CREATE TABLE "memberships" (
	"org_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"role" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "memberships_org_id_user_id_pk" PRIMARY KEY("org_id","user_id"),
	CONSTRAINT "memberships_role" CHECK ("memberships"."role" in ('owner', 'admin', 'member', 'billing'))
);
--> statement-breakpoint
CREATE TABLE "organizations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"slug" text NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "organizations_slug_unique" UNIQUE("slug")
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" uuid PRIMARY KEY NOT NULL,
	"email" text NOT NULL,
	"name" text NOT NULL,
	"password_hash" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "users_email_unique" UNIQUE("email")
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"current_org_id" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"last_seen_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"ip" text NOT NULL,
	"user_agent" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "entitlements" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"starts_at" timestamp (6) with time zone NOT NULL,
	"ends_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "entitlements_org_id_product_id_pk" PRIMARY KEY("org_id","product_id"),
	CONSTRAINT "entitlements_kind" CHECK ("entitlements"."kind" in ('live', 'read_only')),
	CONSTRAINT "entitlements_range" CHECK ("entitlements"."ends_at" > "entitlements"."starts_at")
);
--> statement-breakpoint
CREATE TABLE "products" (
	"id" uuid PRIMARY KEY NOT NULL,
	"slug" text NOT NULL,
	"name" text NOT NULL,
	"usage_metric" text NOT NULL,
	"unit_cap" numeric,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "products_slug_unique" UNIQUE("slug"),
	CONSTRAINT "products_unit_cap" CHECK ("products"."unit_cap" >= 0)
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"name" text NOT NULL,
	"prefix" text NOT NULL,
	"hashed_secret" text NOT NULL,
	"scopes" text[] NOT NULL,
	"livemode" boolean NOT NULL,
	"last_used_at" timestamp (6) with time zone,
	"expires_at" timestamp (6) with time zone,
	"revoked_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid,
	"rotated_from_id" uuid,
	CONSTRAINT "api_keys_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "api_keys_hashed_secret" UNIQUE("hashed_secret","org_id"),
	CONSTRAINT "api_keys_rotated_from" UNIQUE("org_id","rotated_from_id"),
	CONSTRAINT "api_keys_scopes" CHECK (cardinality("api_keys"."scopes") > 0)
);
--> statement-breakpoint
CREATE TABLE "usage_events" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"received_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	CONSTRAINT "usage_events_org_id_idempotency_key_pk" PRIMARY KEY("org_id","idempotency_key"),
	CONSTRAINT "usage_events_quantity" CHECK ("usage_events"."quantity" >= 0)
);
--> statement-breakpoint
CREATE TABLE "usage_hours" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"metric" text NOT NULL,
	"api_key_id" uuid NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "usage_hours_org_id_product_id_livemode_hour_metric_api_key_id_pk" PRIMARY KEY("org_id","product_id","livemode","hour","metric","api_key_id")
);
--> statement-breakpoint
CREATE TABLE "usage_totals" (
	"org_id" uuid NOT NULL,
	"period" date NOT NULL,
	"livemode" boolean NOT NULL,
	"product_id" uuid NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "usage_totals_org_id_period_livemode_product_id_metric_pk" PRIMARY KEY("org_id","period","livemode","product_id","metric")
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"action" text NOT NULL,
	"actor" text NOT NULL,
	"target" text NOT NULL,
	"details" jsonb NOT NULL,
	"ip" text,
	"request_id" text,
	CONSTRAINT "audit_log_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "operator_log" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"action" text NOT NULL,
	"actor" text NOT NULL,
	"target" text NOT NULL,
	"details" jsonb NOT NULL,
	"ip" text,
	"request_id" text
);
--> statement-breakpoint
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_current_org_id_organizations_id_fk" FOREIGN KEY ("current_org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "entitlements" ADD CONSTRAINT "entitlements_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "entitlements" ADD CONSTRAINT "entitlements_product_id_products_id_fk" FOREIGN KEY ("product_id") REFERENCES "public"."products"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "audit_log" ADD CONSTRAINT "audit_log_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "memberships_user" ON "memberships" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sessions_user" ON "sessions" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sessions_expiry" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "api_keys_created" ON "api_keys" USING btree ("org_id","created_at");--> statement-breakpoint
CREATE INDEX "usage_events_time" ON "usage_events" USING btree ("org_id","product_id","occurred_at");