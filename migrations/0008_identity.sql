CREATE TABLE "operator_chain" (
	"id" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"seq" bigint NOT NULL,
	"hash" text NOT NULL,
	CONSTRAINT "operator_chain_one" CHECK ("operator_chain"."id")
);
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "require_second_factor" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "operator_log" ADD COLUMN "seq" bigint;--> statement-breakpoint
ALTER TABLE "operator_log" ADD COLUMN "hash" text;--> statement-breakpoint
ALTER TABLE "operator_log" ADD CONSTRAINT "operator_log_seq" UNIQUE("seq");--> statement-breakpoint
ALTER TABLE "operator_log" ADD CONSTRAINT "operator_log_chained" CHECK (("operator_log"."seq" is null) = ("operator_log"."hash" is null));