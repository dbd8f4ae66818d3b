ALTER TABLE "trading_fills" ALTER COLUMN "contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "trading_orders" ALTER COLUMN "contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "trading_orders" ALTER COLUMN "filled_contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "trading_positions" ALTER COLUMN "contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "trading_settlements" ALTER COLUMN "contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "risk_limits" ALTER COLUMN "max_order_contracts" SET DATA TYPE numeric(12, 2);--> statement-breakpoint
ALTER TABLE "risk_limits" ALTER COLUMN "max_position_contracts" SET DATA TYPE numeric(12, 2);