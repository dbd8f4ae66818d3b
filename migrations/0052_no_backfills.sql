-- Applied backfills are recorded as events. An unfinished one has events that are nowhere else.
DO $$
BEGIN
  IF to_regclass('usage_backfills') IS NOT NULL THEN
    IF EXISTS (SELECT FROM usage_backfills WHERE state IN ('open', 'applying', 'reverting', 'discarding')) THEN
      RAISE EXCEPTION 'A backfill is unfinished: apply or discard it with the version that ran before, and migrate again.';
    END IF;
  END IF;
END $$;
--> statement-breakpoint
DROP TABLE IF EXISTS "usage_backfill_events", "usage_backfill_sums", "usage_backfills";
--> statement-breakpoint
ALTER TABLE "forecast_records" DROP COLUMN "pit_low";--> statement-breakpoint
ALTER TABLE "forecast_records" DROP COLUMN "pit_high";
