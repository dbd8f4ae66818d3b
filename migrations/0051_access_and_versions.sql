-- Databases from before the baseline have these constraints with the casts of earlier column types.
ALTER TABLE "risk_limits" DROP CONSTRAINT "risk_limits_sign";--> statement-breakpoint
ALTER TABLE "risk_limits" ADD CONSTRAINT "risk_limits_sign" CHECK (least("risk_limits"."max_order_contracts", "risk_limits"."max_order_cost", "risk_limits"."max_position_contracts", "risk_limits"."max_event_loss", "risk_limits"."max_daily_loss", "risk_limits"."max_open_orders", "risk_limits"."price_collar") >= 0);--> statement-breakpoint
ALTER TABLE "trading_orders" DROP CONSTRAINT "trading_orders_filled";--> statement-breakpoint
ALTER TABLE "trading_orders" ADD CONSTRAINT "trading_orders_filled" CHECK ("trading_orders"."filled_contracts" >= 0 and "trading_orders"."filled_contracts" <= "trading_orders"."contracts");
--> statement-breakpoint
CREATE TABLE "schema_requirement" (
	"migration" integer NOT NULL,
	"since" timestamp (6) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
INSERT INTO "schema_requirement" ("migration") VALUES (50);
