CREATE TABLE "climate_products" (
	"station" text NOT NULL,
	"kind" text NOT NULL,
	"date" date NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	"value" integer NOT NULL,
	"is_first_final" boolean NOT NULL,
	"settled" integer,
	CONSTRAINT "climate_products_station_kind_date_issued_at_pk" PRIMARY KEY("station","kind","date","issued_at"),
	CONSTRAINT "climate_products_kind" CHECK ("climate_products"."kind" in ('daily_maximum', 'daily_minimum')),
	CONSTRAINT "climate_products_settled" CHECK ("climate_products"."settled" is null or "climate_products"."is_first_final")
);
--> statement-breakpoint
ALTER TABLE "trading_settlements" ALTER COLUMN "temperature" SET DATA TYPE double precision;--> statement-breakpoint
CREATE UNIQUE INDEX "climate_products_first" ON "climate_products" USING btree ("station","kind","date") WHERE "climate_products"."is_first_final";--> statement-breakpoint
CREATE INDEX "climate_products_date" ON "climate_products" USING btree ("date");