ALTER TABLE "organizations" ADD COLUMN "may_correct" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "organizations_stripe_customer" ON "organizations" USING btree ("stripe_customer_id") WHERE "organizations"."stripe_customer_id" is not null;--> statement-breakpoint
-- Organizations whose own people or keys have corrected usage keep the right.
WITH corrected AS MATERIALIZED (
	SELECT DISTINCT "org_id" FROM "usage_corrections" WHERE "actor" <> 'system' AND "actor" NOT LIKE 'operator%'
)
UPDATE "organizations" SET "may_correct" = true FROM corrected WHERE "id" = corrected."org_id";
