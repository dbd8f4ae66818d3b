CREATE TABLE "organization_plans" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"plan" text collate "C" NOT NULL,
	"version" integer NOT NULL,
	"starts_at" timestamp (6) with time zone NOT NULL,
	"anchor" timestamp (6) with time zone NOT NULL,
	"trial_ends_at" timestamp (6) with time zone,
	"is_trial_over" boolean DEFAULT false NOT NULL,
	"tried" text[] DEFAULT '{}' NOT NULL,
	"granted_until" timestamp (6) with time zone NOT NULL,
	"due_at" timestamp (6) with time zone,
	"ended_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "plan_versions" (
	"plan" text collate "C" NOT NULL,
	"version" integer NOT NULL,
	"definition" jsonb NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "plan_versions_plan_version_pk" PRIMARY KEY("plan","version")
);
--> statement-breakpoint
CREATE TABLE "plans" (
	"slug" text collate "C" PRIMARY KEY NOT NULL,
	"name" text NOT NULL,
	"version" integer NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "features" jsonb;--> statement-breakpoint
ALTER TABLE "entitlements" ADD COLUMN "plan" text;--> statement-breakpoint
ALTER TABLE "products" ADD COLUMN "features" jsonb;--> statement-breakpoint
ALTER TABLE "organization_plans" ADD CONSTRAINT "organization_plans_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "organization_plans" ADD CONSTRAINT "organization_plans_version" FOREIGN KEY ("plan","version") REFERENCES "public"."plan_versions"("plan","version") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "plan_versions" ADD CONSTRAINT "plan_versions_plan_plans_slug_fk" FOREIGN KEY ("plan") REFERENCES "public"."plans"("slug") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "organization_plans_by_version" ON "organization_plans" USING btree ("plan","version","org_id") WHERE "organization_plans"."ended_at" is null;--> statement-breakpoint
CREATE INDEX "organization_plans_due" ON "organization_plans" USING btree ("due_at") WHERE "organization_plans"."due_at" is not null;
