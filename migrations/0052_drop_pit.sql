ALTER TABLE "forecast_records" DROP COLUMN "pit_low";--> statement-breakpoint
ALTER TABLE "forecast_records" DROP COLUMN "pit_high";