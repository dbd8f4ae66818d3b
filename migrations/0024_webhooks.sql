CREATE TABLE "webhook_attempts" (
	"org_id" uuid NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"message_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"duration_ms" integer NOT NULL,
	"status_code" integer,
	"error" text,
	"answer" text,
	CONSTRAINT "webhook_attempts_org_id_endpoint_id_message_id_attempt_pk" PRIMARY KEY("org_id","endpoint_id","message_id","attempt")
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"org_id" uuid NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"message_id" uuid NOT NULL,
	"status" text DEFAULT 'waiting' NOT NULL,
	"next_attempt_at" timestamp (6) with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"failures" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "webhook_deliveries_org_id_endpoint_id_message_id_pk" PRIMARY KEY("org_id","endpoint_id","message_id")
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"url" text NOT NULL,
	"types" text[] NOT NULL,
	"livemode" boolean NOT NULL,
	"is_enabled" boolean DEFAULT true NOT NULL,
	"disabled_reason" text,
	"secret" text NOT NULL,
	"previous_secret" text,
	"previous_secret_ends_at" timestamp (6) with time zone,
	"failing_since" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "webhook_endpoints_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "webhook_endpoints_types" CHECK (cardinality("webhook_endpoints"."types") > 0)
);
--> statement-breakpoint
CREATE TABLE "webhook_messages" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"type" text NOT NULL,
	"livemode" boolean NOT NULL,
	"data" jsonb NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"once_key" text,
	CONSTRAINT "webhook_messages_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "webhook_messages_once" UNIQUE("org_id","once_key")
);
--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "webhook_deliveries_waiting" ON "webhook_deliveries" USING btree ("org_id","endpoint_id","next_attempt_at") WHERE "webhook_deliveries"."status" = 'waiting';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_failed" ON "webhook_deliveries" USING btree ("org_id","endpoint_id","message_id") WHERE "webhook_deliveries"."status" = 'failed';--> statement-breakpoint
CREATE INDEX "webhook_messages_created" ON "webhook_messages" USING btree ("created_at");