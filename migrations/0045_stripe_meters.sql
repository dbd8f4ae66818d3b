CREATE TABLE "stripe_events" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"planned_at" timestamp (6) with time zone NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"next_attempt_at" timestamp (6) with time zone NOT NULL,
	"unknown_since" timestamp (6) with time zone,
	"sent_at" timestamp (6) with time zone,
	"revision" integer NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"livemode" boolean NOT NULL,
	"state" text DEFAULT 'waiting' NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"customer_id" text NOT NULL,
	"event_name" text NOT NULL,
	"last_error" text,
	CONSTRAINT "stripe_events_org_id_product_id_livemode_hour_revision_pk" PRIMARY KEY("org_id","product_id","livemode","hour","revision"),
	CONSTRAINT "stripe_events_state" CHECK ("stripe_events"."state" in ('waiting', 'sent', 'unknown', 'missing')),
	CONSTRAINT "stripe_events_sent" CHECK (("stripe_events"."state" = 'sent') = ("stripe_events"."sent_at" is not null)),
	CONSTRAINT "stripe_events_quantity" CHECK ("stripe_events"."quantity" <> 0 and "stripe_events"."revision" > 0)
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "stripe_customer_id" text;--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "stripe_since" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "stripe_meter_event" text;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "stripe_since" timestamp (6) with time zone;--> statement-breakpoint
CREATE INDEX "stripe_events_waiting" ON "stripe_events" USING btree ("livemode","next_attempt_at") WHERE "stripe_events"."state" = 'waiting';--> statement-breakpoint
CREATE INDEX "stripe_events_unknown" ON "stripe_events" USING btree ("org_id","hour") WHERE "stripe_events"."state" = 'unknown';--> statement-breakpoint
CREATE INDEX "stripe_events_failed_organization" ON "stripe_events" USING btree ("org_id","planned_at") WHERE "stripe_events"."last_error" is not null;--> statement-breakpoint
CREATE INDEX "stripe_events_failed_product" ON "stripe_events" USING btree ("product_id","planned_at") WHERE "stripe_events"."last_error" is not null;--> statement-breakpoint
CREATE INDEX "organizations_stripe" ON "organizations" USING btree ("id") WHERE "organizations"."stripe_customer_id" is not null;--> statement-breakpoint
CREATE INDEX "products_stripe" ON "products" USING btree ("id") WHERE "products"."stripe_meter_event" is not null;--> statement-breakpoint
ALTER TABLE "organizations" ADD CONSTRAINT "organizations_stripe_since" CHECK (("organizations"."stripe_customer_id" is null) = ("organizations"."stripe_since" is null));--> statement-breakpoint
ALTER TABLE "products" ADD CONSTRAINT "products_stripe_since" CHECK (("products"."stripe_meter_event" is null) = ("products"."stripe_since" is null));