CREATE TABLE "usage_checks" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"latest_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	CONSTRAINT "usage_checks_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "usage_told" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	"window" text NOT NULL,
	"quantity" numeric NOT NULL,
	"threshold" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "usage_told_pk" PRIMARY KEY("org_id","product_id","livemode","metric","window","quantity","threshold")
);
--> statement-breakpoint
CREATE TABLE "signal_gates" (
	"market_source" text NOT NULL,
	"forecast_source" text NOT NULL,
	"kind" text NOT NULL,
	"station" text NOT NULL,
	"lead_hours" integer NOT NULL,
	"is_open" boolean NOT NULL,
	"judged_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "signal_gates_market_source_forecast_source_kind_station_lead_hours_pk" PRIMARY KEY("market_source","forecast_source","kind","station","lead_hours")
);
--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "thresholds" integer[];--> statement-breakpoint
CREATE INDEX "usage_checks_at" ON "usage_checks" USING btree ("at");