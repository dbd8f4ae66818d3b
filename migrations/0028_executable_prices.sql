ALTER TABLE "forecast_records" ADD COLUMN "advantage" double precision;--> statement-breakpoint
ALTER TABLE "forecast_records" ADD COLUMN "worst_advantage" double precision;--> statement-breakpoint
-- The past of the invented world follows from its seed: it is made up for again, with what outcomes cost.
DELETE FROM "forecast_records" WHERE "market_source" = 'simulated';
