CREATE TABLE "usage_combinations" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"period" date NOT NULL,
	"number" integer NOT NULL,
	"dimensions" text collate "C" NOT NULL,
	CONSTRAINT "usage_combinations_pk" PRIMARY KEY("org_id","product_id","livemode","period","dimensions")
);
--> statement-breakpoint
CREATE TABLE "usage_subjects" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"subject" text collate "C" NOT NULL,
	"slot" timestamp (6) with time zone NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "usage_subjects_pk" PRIMARY KEY("org_id","product_id","livemode","subject","slot","metric")
);
--> statement-breakpoint
ALTER TABLE "usage_hours" ADD COLUMN "dimensions" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_hours" DROP CONSTRAINT "usage_hours_org_id_product_id_livemode_hour_metric_api_key_id_pk";--> statement-breakpoint
ALTER TABLE "usage_hours" ADD CONSTRAINT "usage_hours_pk" PRIMARY KEY("org_id","product_id","livemode","hour","metric","api_key_id","dimensions");--> statement-breakpoint
ALTER TABLE "usage_backfill_events" ADD COLUMN "subject" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_backfill_events" ADD COLUMN "dimensions" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "dimensions" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "subjects_since" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "usage_corrections" ADD COLUMN "subject" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_corrections" ADD COLUMN "dimensions" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_events" ADD COLUMN "subject" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_events" ADD COLUMN "dimensions" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_reservations" ADD COLUMN "subject" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "usage_reservations" ADD COLUMN "dimensions" text collate "C" DEFAULT '' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "usage_combinations_number" ON "usage_combinations" USING btree ("org_id","product_id","livemode","period","number");--> statement-breakpoint
CREATE INDEX "usage_subjects_slot" ON "usage_subjects" USING btree ("org_id","product_id","livemode","slot");--> statement-breakpoint
CREATE INDEX "usage_reservations_held_subject" ON "usage_reservations" USING btree ("org_id","product_id","livemode","metric","subject","expires_at","quantity") WHERE settled_at is null and released_at is null and subject <> '';--> statement-breakpoint
ALTER TABLE "products" ADD CONSTRAINT "products_dimensions" CHECK (cardinality("products"."dimensions") <= 4);