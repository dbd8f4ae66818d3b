DROP INDEX "usage_reservations_key";--> statement-breakpoint
CREATE UNIQUE INDEX "usage_reservations_key" ON "usage_reservations" USING btree ("idempotency_key","org_id");