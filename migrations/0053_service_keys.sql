CREATE TABLE "service_keys" (
	"id" uuid PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"prefix" text NOT NULL,
	"hashed_secret" text NOT NULL,
	"scopes" text[] NOT NULL,
	"livemode" boolean NOT NULL,
	"last_used_at" timestamp (6) with time zone,
	"expires_at" timestamp (6) with time zone,
	"revoked_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"rotated_from_id" uuid,
	CONSTRAINT "service_keys_hashed_secret" UNIQUE("hashed_secret"),
	CONSTRAINT "service_keys_rotated_from" UNIQUE("rotated_from_id")
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "service_key_id" uuid;--> statement-breakpoint
CREATE INDEX "api_keys_service_key" ON "api_keys" USING btree ("service_key_id") WHERE "api_keys"."service_key_id" is not null;
