CREATE TABLE "api_key_directory" (
	"hashed_secret" text PRIMARY KEY NOT NULL,
	"org_id" uuid NOT NULL
);
--> statement-breakpoint
INSERT INTO "api_key_directory" ("hashed_secret", "org_id") SELECT "hashed_secret", "org_id" FROM "api_keys";--> statement-breakpoint
DELETE FROM "api_key_use_receipts";--> statement-breakpoint
ALTER TABLE "api_key_use_receipts" DROP CONSTRAINT "api_key_use_receipts_pkey";--> statement-breakpoint
ALTER TABLE "api_key_use_receipts" ADD COLUMN "org_id" uuid NOT NULL;--> statement-breakpoint
ALTER TABLE "api_key_use_receipts" ADD CONSTRAINT "api_key_use_receipts_org_id_id_pk" PRIMARY KEY("org_id","id");
