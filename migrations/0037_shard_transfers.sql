ALTER TABLE "ledger_entries" DROP CONSTRAINT "ledger_entries_kind";--> statement-breakpoint
ALTER TABLE "ledger_entries" ADD COLUMN "transfer_id" text;--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_transfer" ON "ledger_entries" USING btree ("org_id","transfer_id") WHERE "ledger_entries"."transfer_id" is not null;--> statement-breakpoint
ALTER TABLE "ledger_entries" ADD CONSTRAINT "ledger_entries_kind" CHECK ("ledger_entries"."kind" in ('deposit', 'fill', 'settlement', 'correction', 'adjustment', 'transfer'));