CREATE TABLE "forecast_mixes" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"kind" text NOT NULL,
	"lead_hours" integer NOT NULL,
	"skill" jsonb NOT NULL,
	"correlation" jsonb NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD COLUMN "model" text DEFAULT 'main' NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ADD COLUMN "model" text DEFAULT 'main' NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "models" jsonb;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "model_scores" jsonb;--> statement-breakpoint
CREATE INDEX "forecast_mixes_newest" ON "forecast_mixes" USING btree ("forecast_source","market_source","trained_at");--> statement-breakpoint
ALTER TABLE "ensemble_runs" DROP CONSTRAINT "ensemble_runs_pk";
--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD CONSTRAINT "ensemble_runs_pk" PRIMARY KEY("forecast_source","kind","station","date","hour","model_run_at","model");