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
ALTER TABLE "usage_totals" ADD COLUMN "lowered" numeric DEFAULT '0' NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "usage_corrections_event" ON "usage_corrections" USING btree ("org_id","idempotency_key","occurred_at","number");--> statement-breakpoint
CREATE INDEX "usage_corrections_time" ON "usage_corrections" USING btree ("org_id","product_id","livemode","occurred_at");