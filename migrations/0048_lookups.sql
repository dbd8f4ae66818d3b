DROP INDEX "usage_combinations_number";--> statement-breakpoint
DROP INDEX "usage_reservations_key";--> statement-breakpoint
CREATE UNIQUE INDEX "usage_combinations_number" ON "usage_combinations" USING btree ("number","org_id","product_id","livemode","period");--> statement-breakpoint
CREATE UNIQUE INDEX "usage_reservations_key" ON "usage_reservations" USING btree ("idempotency_key","org_id");