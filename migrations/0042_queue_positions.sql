CREATE TABLE "queue_positions" (
	"org_id" uuid NOT NULL,
	"order_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"venue_ahead" numeric(12, 2),
	"paper_ahead" numeric(12, 2),
	"prints_seen" jsonb NOT NULL,
	CONSTRAINT "queue_positions_org_id_order_id_at_pk" PRIMARY KEY("org_id","order_id","at")
);
--> statement-breakpoint
CREATE INDEX "queue_positions_list" ON "queue_positions" USING btree ("org_id","at");--> statement-breakpoint
CREATE INDEX "queue_positions_old" ON "queue_positions" USING btree ("at");