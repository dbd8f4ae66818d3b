CREATE TABLE "usage_alerts" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"level" integer NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "usage_alerts_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "usage_alerts_level" UNIQUE("org_id","product_id","level"),
	CONSTRAINT "usage_alerts_level_range" CHECK ("usage_alerts"."level" > 0)
);
--> statement-breakpoint
ALTER TABLE "cap_notices" DROP CONSTRAINT "cap_notices_level";