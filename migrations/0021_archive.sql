CREATE TABLE "usage_archived_totals" (
	"org_id" uuid NOT NULL,
	"period" date NOT NULL,
	"livemode" boolean NOT NULL,
	"product_id" uuid NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	"deleted_quantity" numeric NOT NULL,
	"deleted_events" bigint NOT NULL,
	CONSTRAINT "usage_archived_totals_pk" PRIMARY KEY("org_id","period","livemode","product_id","metric"),
	CONSTRAINT "usage_archived_totals_deleted" CHECK ("usage_archived_totals"."deleted_events" between 0 and "usage_archived_totals"."events" and "usage_archived_totals"."deleted_quantity" between 0 and "usage_archived_totals"."quantity")
);
--> statement-breakpoint
CREATE TABLE "usage_archives" (
	"org_id" uuid NOT NULL,
	"period" date NOT NULL,
	"livemode" boolean NOT NULL,
	"state" text NOT NULL,
	"file" text NOT NULL,
	"sha256" text NOT NULL,
	"events" bigint NOT NULL,
	"written_at" timestamp (6) with time zone NOT NULL,
	"archived_at" timestamp (6) with time zone,
	CONSTRAINT "usage_archives_org_id_period_livemode_pk" PRIMARY KEY("org_id","period","livemode"),
	CONSTRAINT "usage_archives_state" CHECK (("usage_archives"."state" = 'archived') = ("usage_archives"."archived_at" is not null))
);
