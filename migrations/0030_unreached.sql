ALTER TABLE "usage_totals" ADD COLUMN "unreached" numeric;--> statement-breakpoint
ALTER TABLE "usage_totals" ADD COLUMN "unreached_terms" bigint;