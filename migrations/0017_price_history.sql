CREATE TABLE "price_history" (
	"market_source" text NOT NULL,
	"event_ticker" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"prices" jsonb NOT NULL,
	CONSTRAINT "price_history_pk" PRIMARY KEY("market_source","event_ticker","at")
);
--> statement-breakpoint
CREATE INDEX "price_history_age" ON "price_history" USING btree ("at");