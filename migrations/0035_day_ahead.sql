ALTER TABLE "forecast_fits" ALTER COLUMN "a" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ALTER COLUMN "b" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ALTER COLUMN "c" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ALTER COLUMN "d" DROP NOT NULL;--> statement-breakpoint
ALTER TABLE "forecast_fits" ADD COLUMN "coefficients" jsonb;