ALTER TABLE "api_key_calls" ADD COLUMN "ended" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "api_key_calls" ADD COLUMN "unscoped" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "api_key_calls" ADD COLUMN "limited" bigint DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "api_keys" ADD COLUMN "watched_until" timestamp (6) with time zone;--> statement-breakpoint
CREATE INDEX "api_keys_watched" ON "api_keys" USING btree ("watched_until") WHERE "api_keys"."watched_until" is not null;