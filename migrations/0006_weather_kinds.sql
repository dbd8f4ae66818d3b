DROP INDEX "forecast_records_recent";--> statement-breakpoint
ALTER TABLE "climate_reports" DROP CONSTRAINT "climate_reports_market_source_station_date_known_at_pk";--> statement-breakpoint
ALTER TABLE "ensemble_runs" DROP CONSTRAINT "ensemble_runs_forecast_source_station_date_model_run_at_pk";--> statement-breakpoint
ALTER TABLE "forecast_records" DROP CONSTRAINT "forecast_records_market_source_forecast_source_station_date_lead_hours_pk";--> statement-breakpoint
ALTER TABLE "climate_reports" ALTER COLUMN "temperature" SET DATA TYPE double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ALTER COLUMN "outcome" SET DATA TYPE double precision;--> statement-breakpoint
ALTER TABLE "climate_reports" ADD CONSTRAINT "climate_reports_pk" PRIMARY KEY("market_source","kind","station","date","hour","known_at");--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD CONSTRAINT "ensemble_runs_pk" PRIMARY KEY("forecast_source","kind","station","date","hour","model_run_at");--> statement-breakpoint
ALTER TABLE "forecast_records" ADD CONSTRAINT "forecast_records_pk" PRIMARY KEY("market_source","forecast_source","kind","station","date","hour","lead_hours");--> statement-breakpoint
ALTER TABLE "climate_reports" ADD COLUMN "kind" text DEFAULT 'daily_maximum' NOT NULL;--> statement-breakpoint
ALTER TABLE "climate_reports" ADD COLUMN "hour" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD COLUMN "kind" text DEFAULT 'daily_maximum' NOT NULL;--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD COLUMN "hour" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ADD COLUMN "kind" text DEFAULT 'daily_maximum' NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ADD COLUMN "hour_bias" jsonb;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "kind" text DEFAULT 'daily_maximum' NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "hour" smallint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "at_most" integer;--> statement-breakpoint
CREATE INDEX "forecast_records_recent" ON "forecast_records" USING btree ("market_source","forecast_source","kind","date");--> statement-breakpoint
ALTER TABLE "climate_reports" ADD CONSTRAINT "climate_reports_hour" CHECK ("climate_reports"."hour" between 0 and 23 and ("climate_reports"."kind" = 'hourly' or "climate_reports"."hour" = 0));--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD CONSTRAINT "ensemble_runs_hour" CHECK ("ensemble_runs"."hour" between 0 and 23 and ("ensemble_runs"."kind" = 'hourly' or "ensemble_runs"."hour" = 0));--> statement-breakpoint
ALTER TABLE "forecast_records" ADD CONSTRAINT "forecast_records_hour" CHECK ("forecast_records"."hour" between 0 and 23 and ("forecast_records"."kind" = 'hourly' or "forecast_records"."hour" = 0));