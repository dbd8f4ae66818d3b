CREATE TABLE "observed_hours" (
	"forecast_source" text NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"hour" smallint NOT NULL,
	"observed_at" timestamp (6) with time zone NOT NULL,
	"fetched_at" timestamp (6) with time zone NOT NULL,
	"temperature" double precision NOT NULL,
	"highest" double precision,
	"lowest" double precision,
	CONSTRAINT "observed_hours_pk" PRIMARY KEY("forecast_source","station","date","hour"),
	CONSTRAINT "observed_hours_hour" CHECK ("observed_hours"."hour" between 0 and 23)
);
--> statement-breakpoint
CREATE TABLE "same_day_fits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"kind" text NOT NULL,
	"hour" smallint NOT NULL,
	"coefficients" jsonb NOT NULL,
	"hurdle" jsonb,
	"station_bias" jsonb NOT NULL,
	"n" integer NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"training_crps" double precision NOT NULL,
	"raw_crps" double precision NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL,
	"training" jsonb NOT NULL,
	CONSTRAINT "same_day_fits_hour" CHECK ("same_day_fits"."hour" between 0 and 22)
);
--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD COLUMN "curve" double precision[];--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "stays" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "shape" text;--> statement-breakpoint
ALTER TABLE "climate_products" ADD COLUMN "fetched_at" timestamp with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "climate_products" ADD COLUMN "stage" text DEFAULT 'final' NOT NULL;--> statement-breakpoint
CREATE INDEX "observed_hours_age" ON "observed_hours" USING btree ("date");--> statement-breakpoint
CREATE INDEX "same_day_fits_newest" ON "same_day_fits" USING btree ("forecast_source","market_source","trained_at");