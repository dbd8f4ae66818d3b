CREATE TABLE "paper_books" (
	"org_id" uuid NOT NULL,
	"ticker" text NOT NULL,
	"book_hash" text NOT NULL,
	"taken" jsonb NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "paper_books_org_id_ticker_book_hash_pk" PRIMARY KEY("org_id","ticker","book_hash")
);
--> statement-breakpoint
CREATE TABLE "trading_fills" (
	"org_id" uuid NOT NULL,
	"order_id" uuid NOT NULL,
	"n" integer NOT NULL,
	"price" bigint NOT NULL,
	"contracts" integer NOT NULL,
	"fee" bigint NOT NULL,
	"balance_change" bigint NOT NULL,
	"filled_at" timestamp (6) with time zone NOT NULL,
	"venue_fill_id" text,
	CONSTRAINT "trading_fills_org_id_order_id_n_pk" PRIMARY KEY("org_id","order_id","n"),
	CONSTRAINT "trading_fills_contracts" CHECK ("trading_fills"."contracts" > 0)
);
--> statement-breakpoint
CREATE TABLE "trading_orders" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"mode" text NOT NULL,
	"idempotency_key" text NOT NULL,
	"request_hash" text NOT NULL,
	"client_order_id" text NOT NULL,
	"venue_order_id" text,
	"ticker" text NOT NULL,
	"event_ticker" text NOT NULL,
	"series_ticker" text NOT NULL,
	"label" text NOT NULL,
	"side" text NOT NULL,
	"action" text NOT NULL,
	"contracts" integer NOT NULL,
	"limit_price" bigint NOT NULL,
	"time_in_force" text NOT NULL,
	"status" text NOT NULL,
	"reason" text,
	"filled_contracts" integer DEFAULT 0 NOT NULL,
	"exact" bigint DEFAULT 0 NOT NULL,
	"booked" bigint DEFAULT 0 NOT NULL,
	"fees" bigint DEFAULT 0 NOT NULL,
	"reserved" bigint DEFAULT 0 NOT NULL,
	"fee_rule" jsonb NOT NULL,
	"book_fetched_at" timestamp (6) with time zone NOT NULL,
	"api_key_id" uuid,
	"user_id" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"sent_at" timestamp (6) with time zone,
	"finished_at" timestamp (6) with time zone,
	CONSTRAINT "trading_orders_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "trading_orders_idempotency" UNIQUE("org_id","idempotency_key"),
	CONSTRAINT "trading_orders_client" UNIQUE("org_id","client_order_id"),
	CONSTRAINT "trading_orders_contracts" CHECK ("trading_orders"."contracts" > 0),
	CONSTRAINT "trading_orders_filled" CHECK ("trading_orders"."filled_contracts" >= 0 and "trading_orders"."filled_contracts" <= "trading_orders"."contracts"),
	CONSTRAINT "trading_orders_price" CHECK ("trading_orders"."limit_price" > 0 and "trading_orders"."limit_price" < 1000000),
	CONSTRAINT "trading_orders_reserved" CHECK ("trading_orders"."reserved" >= 0),
	CONSTRAINT "trading_orders_mode" CHECK ("trading_orders"."mode" in ('paper', 'live')),
	CONSTRAINT "trading_orders_status" CHECK ("trading_orders"."status" in ('pending', 'filled', 'partially_filled', 'cancelled', 'rejected')),
	CONSTRAINT "trading_orders_actor" CHECK (("trading_orders"."api_key_id" is null) <> ("trading_orders"."user_id" is null))
);
--> statement-breakpoint
CREATE TABLE "ledger_entries" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"mode" text NOT NULL,
	"kind" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"ticker" text,
	"order_id" uuid,
	"fill_n" integer,
	"settlement_n" integer,
	"cash" bigint NOT NULL,
	"positions" bigint NOT NULL,
	"fees" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"capital" bigint NOT NULL,
	"memo" text,
	CONSTRAINT "ledger_entries_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "ledger_entries_balance" CHECK ("ledger_entries"."cash" + "ledger_entries"."positions" + "ledger_entries"."fees" + "ledger_entries"."realised" + "ledger_entries"."capital" = 0),
	CONSTRAINT "ledger_entries_kind" CHECK ("ledger_entries"."kind" in ('deposit', 'fill', 'settlement', 'correction', 'adjustment'))
);
--> statement-breakpoint
CREATE TABLE "portfolio_history" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"cash" bigint NOT NULL,
	"liquidation" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"unrealised" bigint NOT NULL,
	"fees" bigint NOT NULL,
	CONSTRAINT "portfolio_history_org_id_mode_at_pk" PRIMARY KEY("org_id","mode","at")
);
--> statement-breakpoint
CREATE TABLE "trading_accounts" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"cash" bigint NOT NULL,
	"overdrawn" bigint DEFAULT 0 NOT NULL,
	"opened_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_accounts_org_id_mode_pk" PRIMARY KEY("org_id","mode"),
	CONSTRAINT "trading_accounts_mode" CHECK ("trading_accounts"."mode" in ('paper', 'live')),
	CONSTRAINT "trading_accounts_cash" CHECK ("trading_accounts"."mode" = 'live' or "trading_accounts"."cash" + "trading_accounts"."overdrawn" >= 0),
	CONSTRAINT "trading_accounts_overdrawn" CHECK ("trading_accounts"."overdrawn" >= 0)
);
--> statement-breakpoint
CREATE TABLE "trading_positions" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"ticker" text NOT NULL,
	"event_ticker" text NOT NULL,
	"side" text NOT NULL,
	"contracts" integer NOT NULL,
	"cost" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"fees" bigint NOT NULL,
	"opened_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_positions_org_id_mode_ticker_pk" PRIMARY KEY("org_id","mode","ticker"),
	CONSTRAINT "trading_positions_contracts" CHECK ("trading_positions"."contracts" >= 0),
	CONSTRAINT "trading_positions_cost" CHECK ("trading_positions"."cost" >= 0 and ("trading_positions"."contracts" > 0 or "trading_positions"."cost" = 0))
);
--> statement-breakpoint
CREATE TABLE "trading_settlements" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"ticker" text NOT NULL,
	"n" integer NOT NULL,
	"state" text NOT NULL,
	"value" bigint,
	"temperature" integer,
	"event_ticker" text NOT NULL,
	"side" text NOT NULL,
	"contracts" integer NOT NULL,
	"cost" bigint NOT NULL,
	"cash_change" bigint NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_settlements_org_id_mode_ticker_n_pk" PRIMARY KEY("org_id","mode","ticker","n"),
	CONSTRAINT "trading_settlements_contracts" CHECK ("trading_settlements"."contracts" > 0)
);
--> statement-breakpoint
CREATE TABLE "job_leases" (
	"name" text PRIMARY KEY NOT NULL,
	"holder" uuid NOT NULL,
	"until" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "risk_limits" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"max_order_contracts" integer,
	"max_order_cost" bigint,
	"max_position_contracts" integer,
	"max_event_loss" bigint,
	"max_daily_loss" bigint,
	"max_open_orders" integer,
	"price_collar" bigint,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "risk_limits_sign" CHECK (least("risk_limits"."max_order_contracts", "risk_limits"."max_order_cost", "risk_limits"."max_position_contracts", "risk_limits"."max_event_loss", "risk_limits"."max_daily_loss", "risk_limits"."max_open_orders", "risk_limits"."price_collar") >= 0)
);
--> statement-breakpoint
CREATE TABLE "service_switch" (
	"id" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"reason" text,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "service_switch_one" CHECK ("service_switch"."id"),
	CONSTRAINT "service_switch_state" CHECK ("service_switch"."state" in ('open', 'reduce_only', 'halt'))
);
--> statement-breakpoint
CREATE TABLE "trading_switches" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"own_state" text DEFAULT 'open' NOT NULL,
	"own_reason" text,
	"own_by" uuid,
	"own_at" timestamp (6) with time zone,
	"operator_state" text DEFAULT 'open' NOT NULL,
	"operator_reason" text,
	"operator_at" timestamp (6) with time zone,
	CONSTRAINT "trading_switches_own" CHECK ("trading_switches"."own_state" in ('open', 'reduce_only', 'halt')),
	CONSTRAINT "trading_switches_operator" CHECK ("trading_switches"."operator_state" in ('open', 'reduce_only', 'halt'))
);
--> statement-breakpoint
CREATE TABLE "forecast_records" (
	"station" text NOT NULL,
	"date" date NOT NULL,
	"lead_hours" integer NOT NULL,
	"recorded_at" timestamp (6) with time zone NOT NULL,
	"market_source" text NOT NULL,
	"forecast_source" text NOT NULL,
	"method" text NOT NULL,
	"model_run_at" timestamp (6) with time zone NOT NULL,
	"mean" double precision NOT NULL,
	"deviation" double precision NOT NULL,
	"brackets" jsonb NOT NULL,
	"outcome" integer,
	"settled_at" timestamp (6) with time zone,
	"model_log_score" double precision,
	"model_rps" double precision,
	"market_log_score" double precision,
	"market_rps" double precision,
	CONSTRAINT "forecast_records_market_source_forecast_source_station_date_lead_hours_pk" PRIMARY KEY("market_source","forecast_source","station","date","lead_hours"),
	CONSTRAINT "forecast_records_lead" CHECK ("forecast_records"."lead_hours" >= 0)
);
--> statement-breakpoint
CREATE TABLE "live_accounts" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"foreign_positions" jsonb NOT NULL,
	"accepted" jsonb NOT NULL,
	"problem" text,
	"opened_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE INDEX "paper_books_old" ON "paper_books" USING btree ("updated_at");--> statement-breakpoint
CREATE UNIQUE INDEX "trading_fills_venue" ON "trading_fills" USING btree ("org_id","venue_fill_id") WHERE "trading_fills"."venue_fill_id" is not null;--> statement-breakpoint
CREATE INDEX "trading_orders_list" ON "trading_orders" USING btree ("org_id","mode","id");--> statement-breakpoint
CREATE INDEX "trading_orders_ticker" ON "trading_orders" USING btree ("org_id","mode","ticker","id");--> statement-breakpoint
CREATE INDEX "trading_orders_pending" ON "trading_orders" USING btree ("org_id","mode") WHERE "trading_orders"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "trading_orders_pending_all" ON "trading_orders" USING btree ("created_at") WHERE "trading_orders"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "ledger_entries_list" ON "ledger_entries" USING btree ("org_id","mode","id");--> statement-breakpoint
CREATE INDEX "ledger_entries_capital" ON "ledger_entries" USING btree ("org_id","mode","at") WHERE "ledger_entries"."capital" <> 0;--> statement-breakpoint
CREATE INDEX "ledger_entries_at" ON "ledger_entries" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_fill" ON "ledger_entries" USING btree ("org_id","order_id","fill_n") WHERE "ledger_entries"."order_id" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_settlement" ON "ledger_entries" USING btree ("org_id","mode","ticker","settlement_n") WHERE "ledger_entries"."settlement_n" is not null;--> statement-breakpoint
CREATE INDEX "trading_positions_event" ON "trading_positions" USING btree ("org_id","mode","event_ticker");--> statement-breakpoint
CREATE INDEX "trading_positions_open" ON "trading_positions" USING btree ("org_id","mode","ticker") WHERE "trading_positions"."contracts" > 0;--> statement-breakpoint
CREATE INDEX "trading_positions_to_settle" ON "trading_positions" USING btree ("ticker","org_id","mode") WHERE "trading_positions"."contracts" > 0;--> statement-breakpoint
CREATE INDEX "trading_settlements_at" ON "trading_settlements" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE INDEX "trading_settlements_recent" ON "trading_settlements" USING btree ("at");--> statement-breakpoint
CREATE INDEX "trading_settlements_ticker" ON "trading_settlements" USING btree ("ticker","org_id","mode","n");--> statement-breakpoint
CREATE INDEX "forecast_records_recent" ON "forecast_records" USING btree ("market_source","forecast_source","date");