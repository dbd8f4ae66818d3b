ALTER TABLE "ensemble_runs" ADD COLUMN "version" text;--> statement-breakpoint
ALTER TABLE "ensemble_runs" ADD COLUMN "near_midnight" boolean DEFAULT false NOT NULL;