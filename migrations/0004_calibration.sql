CREATE TABLE "climate_reports" (
	"market_source" text NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"known_at" timestamp (6) with time zone NOT NULL,
	"temperature" integer NOT NULL,
	CONSTRAINT "climate_reports_market_source_station_date_known_at_pk" PRIMARY KEY("market_source","station","date","known_at")
);
--> statement-breakpoint
CREATE TABLE "ensemble_runs" (
	"forecast_source" text NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"model_run_at" timestamp (6) with time zone NOT NULL,
	"fetched_at" timestamp (6) with time zone NOT NULL,
	"members" double precision[] NOT NULL,
	"mean" double precision NOT NULL,
	"variance" double precision NOT NULL,
	CONSTRAINT "ensemble_runs_forecast_source_station_date_model_run_at_pk" PRIMARY KEY("forecast_source","station","date","model_run_at")
);
--> statement-breakpoint
CREATE TABLE "forecast_fits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"station" text,
	"lead_hours" integer NOT NULL,
	"a" double precision NOT NULL,
	"b" double precision NOT NULL,
	"c" double precision NOT NULL,
	"d" double precision NOT NULL,
	"station_bias" jsonb,
	"n" integer NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"lowest_mean" double precision NOT NULL,
	"highest_mean" double precision NOT NULL,
	"training_crps" double precision NOT NULL,
	"raw_crps" double precision NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL,
	"training" jsonb NOT NULL,
	CONSTRAINT "forecast_fits_variance" CHECK ("forecast_fits"."c" >= 0 and "forecast_fits"."d" >= 0)
);
--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "fit_id" uuid;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "at_least" integer;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "members" double precision[];--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "climate_mean" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "climate_deviation" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "model_crps" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "raw_crps" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "climate_crps" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "market_crps" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "pit_low" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "pit_high" double precision;--> statement-breakpoint
CREATE INDEX "climate_reports_age" ON "climate_reports" USING btree ("date");--> statement-breakpoint
CREATE INDEX "ensemble_runs_age" ON "ensemble_runs" USING btree ("date");--> statement-breakpoint
CREATE INDEX "forecast_fits_newest" ON "forecast_fits" USING btree ("forecast_source","market_source","trained_at");