CREATE TABLE "execution_marks" (
	"org_id" uuid NOT NULL,
	"order_id" uuid NOT NULL,
	"n" integer NOT NULL,
	"mode" text NOT NULL,
	"ticker" text NOT NULL,
	"side" text NOT NULL,
	"action" text NOT NULL,
	"contracts" numeric(12, 2) NOT NULL,
	"value" bigint NOT NULL,
	"fees" bigint NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"marked_at" timestamp (6) with time zone,
	"missed" boolean,
	"after_15" bigint,
	"after_30" bigint,
	"after_60" bigint,
	CONSTRAINT "execution_marks_org_id_order_id_n_pk" PRIMARY KEY("org_id","order_id","n"),
	CONSTRAINT "execution_marks_contracts" CHECK ("execution_marks"."contracts" >= 0 and ("execution_marks"."n" = 0 or "execution_marks"."contracts" > 0))
);
--> statement-breakpoint
CREATE INDEX "execution_marks_list" ON "execution_marks" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE INDEX "execution_marks_waiting" ON "execution_marks" USING btree ("at") WHERE "execution_marks"."marked_at" is null;--> statement-breakpoint
CREATE INDEX "trading_fills_time" ON "trading_fills" USING btree ("filled_at");