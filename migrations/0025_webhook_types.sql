CREATE TABLE "usage_checks" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"latest_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	CONSTRAINT "usage_checks_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "usage_told" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	"window" text NOT NULL,
	"quantity" numeric NOT NULL,
	"threshold" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "usage_told_pk" PRIMARY KEY("org_id","product_id","livemode","metric","window","quantity","threshold")
);
--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "thresholds" integer[];--> statement-breakpoint
CREATE INDEX "usage_checks_at" ON "usage_checks" USING btree ("at");