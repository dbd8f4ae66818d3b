ALTER TABLE "trading_orders" DROP CONSTRAINT "trading_orders_status";--> statement-breakpoint
DROP INDEX "trading_orders_pending";--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "expires_at" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "post_only" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "cancel_on" text[] DEFAULT '{}' NOT NULL;--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "cancel_requested_at" timestamp (6) with time zone;--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "cancel_reason" text;--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "queue_ahead" numeric(12, 2);--> statement-breakpoint
ALTER TABLE "trading_orders" ADD COLUMN "prints_seen" jsonb;--> statement-breakpoint
CREATE INDEX "trading_orders_open" ON "trading_orders" USING btree ("org_id","mode") WHERE "trading_orders"."status" in ('pending', 'resting');--> statement-breakpoint
CREATE INDEX "trading_orders_resting" ON "trading_orders" USING btree ("mode","ticker","org_id") WHERE "trading_orders"."status" = 'resting';--> statement-breakpoint
ALTER TABLE "trading_orders" ADD CONSTRAINT "trading_orders_rest" CHECK (("trading_orders"."time_in_force" = 'good_till_time') = ("trading_orders"."expires_at" is not null) and "trading_orders"."queue_ahead" >= 0);--> statement-breakpoint
ALTER TABLE "trading_orders" ADD CONSTRAINT "trading_orders_status" CHECK ("trading_orders"."status" in ('pending', 'resting', 'filled', 'partially_filled', 'cancelled', 'rejected'));