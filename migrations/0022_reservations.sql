CREATE TABLE "usage_gates" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	"seq" bigint NOT NULL,
	CONSTRAINT "usage_gates_org_id_product_id_livemode_metric_pk" PRIMARY KEY("org_id","product_id","livemode","metric")
);
--> statement-breakpoint
CREATE TABLE "usage_reservations" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"released_at" timestamp (6) with time zone,
	"settled_at" timestamp (6) with time zone,
	"settle_occurred_at" timestamp (6) with time zone,
	"livemode" boolean NOT NULL,
	"is_counted" boolean,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"settled_quantity" numeric,
	CONSTRAINT "usage_reservations_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "usage_reservations_quantity" CHECK ("usage_reservations"."quantity" >= 0 and "usage_reservations"."settled_quantity" >= 0)
);
--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "limits" jsonb;--> statement-breakpoint
CREATE UNIQUE INDEX "usage_reservations_key" ON "usage_reservations" USING btree ("org_id","idempotency_key");--> statement-breakpoint
CREATE INDEX "usage_reservations_held" ON "usage_reservations" USING btree ("org_id","product_id","livemode","metric","expires_at","quantity") WHERE settled_at is null and released_at is null;--> statement-breakpoint
CREATE INDEX "usage_reservations_open" ON "usage_reservations" USING btree ("org_id","livemode","id") WHERE settled_at is null and released_at is null;--> statement-breakpoint
CREATE INDEX "usage_reservations_released" ON "usage_reservations" USING btree ("org_id","livemode","id") WHERE settled_at is null and released_at is not null;