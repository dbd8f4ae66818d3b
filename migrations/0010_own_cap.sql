ALTER TABLE "entitlements" ADD COLUMN "has_own_cap" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "unit_cap" numeric;--> statement-breakpoint
ALTER TABLE "entitlements" ADD CONSTRAINT "entitlements_unit_cap" CHECK ("entitlements"."unit_cap" is null or ("entitlements"."has_own_cap" and "entitlements"."unit_cap" >= 0));