CREATE TABLE "mails" (
	"id" uuid PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"to_address" text NOT NULL,
	"subject" text NOT NULL,
	"text" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"next_attempt_at" timestamp (6) with time zone NOT NULL,
	"give_up_at" timestamp (6) with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"sent_at" timestamp (6) with time zone,
	"failed_at" timestamp (6) with time zone,
	"last_error" text,
	CONSTRAINT "mails_kind" CHECK ("mails"."kind" in ('invitation', 'password_reset', 'account_notice', 'cap_notice', 'key_notice'))
);
--> statement-breakpoint
CREATE TABLE "password_requests" (
	"id" uuid PRIMARY KEY NOT NULL,
	"email" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"ip" text,
	"request_id" text
);
--> statement-breakpoint
CREATE TABLE "cap_notices" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"period" date NOT NULL,
	"level" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "cap_notices_org_id_product_id_period_level_pk" PRIMARY KEY("org_id","product_id","period","level"),
	CONSTRAINT "cap_notices_level" CHECK ("cap_notices"."level" in (80, 100))
);
--> statement-breakpoint
CREATE TABLE "key_notices" (
	"org_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "key_notices_org_id_api_key_id_pk" PRIMARY KEY("org_id","api_key_id")
);
--> statement-breakpoint
ALTER TABLE "memberships" ADD COLUMN "mail_notices" boolean DEFAULT true NOT NULL;--> statement-breakpoint
CREATE INDEX "mails_due" ON "mails" USING btree ("next_attempt_at") WHERE "mails"."sent_at" is null and "mails"."failed_at" is null;--> statement-breakpoint
CREATE INDEX "mails_to" ON "mails" USING btree ("to_address","kind","created_at");--> statement-breakpoint
CREATE INDEX "mails_end" ON "mails" USING btree (coalesce("sent_at", "failed_at", "created_at"));--> statement-breakpoint
CREATE INDEX "cap_notices_period" ON "cap_notices" USING btree ("period");