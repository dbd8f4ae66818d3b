CREATE TABLE "usage_corrections" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"corrected_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"number" integer NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"correction_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"previous_quantity" numeric NOT NULL,
	"quantity" numeric NOT NULL,
	"actor" text NOT NULL,
	"reason" text NOT NULL,
	CONSTRAINT "usage_corrections_org_id_correction_key_pk" PRIMARY KEY("org_id","correction_key"),
	CONSTRAINT "usage_corrections_quantity" CHECK ("usage_corrections"."quantity" >= 0 and "usage_corrections"."previous_quantity" >= 0)
);
--> statement-breakpoint
CREATE TABLE "usage_backfill_events" (
	"org_id" uuid NOT NULL,
	"backfill_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"is_mismatch" boolean NOT NULL,
	CONSTRAINT "usage_backfill_events_pk" PRIMARY KEY("org_id","backfill_id","idempotency_key")
);
--> statement-breakpoint
CREATE TABLE "usage_backfill_sums" (
	"org_id" uuid NOT NULL,
	"backfill_id" uuid NOT NULL,
	"period" date NOT NULL,
	"product_id" uuid NOT NULL,
	"metric" text NOT NULL,
	"events" bigint DEFAULT 0 NOT NULL,
	"quantity" numeric DEFAULT '0' NOT NULL,
	"repeats" bigint DEFAULT 0 NOT NULL,
	"mismatches" bigint DEFAULT 0 NOT NULL,
	"counted_events" bigint DEFAULT 0 NOT NULL,
	"counted_quantity" numeric DEFAULT '0' NOT NULL,
	"archived_events" bigint DEFAULT 0 NOT NULL,
	"reverted_events" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_backfill_sums_pk" PRIMARY KEY("org_id","backfill_id","period","product_id","metric")
);
--> statement-breakpoint
CREATE TABLE "usage_backfills" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"from_time" timestamp (6) with time zone NOT NULL,
	"to_time" timestamp (6) with time zone NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"changed_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"state" text NOT NULL,
	"reason" text NOT NULL,
	"actor" text NOT NULL,
	"cursor" text collate "C" DEFAULT '' NOT NULL,
	"done" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_backfills_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
ALTER TABLE "usage_totals" ADD COLUMN "lowered" numeric DEFAULT '0' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "usage_corrections_event" ON "usage_corrections" USING btree ("org_id","idempotency_key","occurred_at","number");--> statement-breakpoint
CREATE INDEX "usage_corrections_time" ON "usage_corrections" USING btree ("org_id","product_id","livemode","occurred_at");--> statement-breakpoint
CREATE INDEX "usage_backfill_events_mismatch" ON "usage_backfill_events" USING btree ("org_id","backfill_id","idempotency_key") WHERE "usage_backfill_events"."is_mismatch";--> statement-breakpoint
CREATE INDEX "usage_backfills_unfinished" ON "usage_backfills" USING btree ("org_id","id") WHERE "usage_backfills"."state" in ('applying', 'reverting', 'discarding');