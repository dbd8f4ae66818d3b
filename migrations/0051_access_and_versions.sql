-- Databases from before the baseline have these constraints with the casts of earlier column types.
ALTER TABLE "risk_limits" DROP CONSTRAINT "risk_limits_sign";--> statement-breakpoint
ALTER TABLE "risk_limits" ADD CONSTRAINT "risk_limits_sign" CHECK (least("risk_limits"."max_order_contracts", "risk_limits"."max_order_cost", "risk_limits"."max_position_contracts", "risk_limits"."max_event_loss", "risk_limits"."max_daily_loss", "risk_limits"."max_open_orders", "risk_limits"."price_collar") >= 0);--> statement-breakpoint
ALTER TABLE "trading_orders" DROP CONSTRAINT "trading_orders_filled";--> statement-breakpoint
ALTER TABLE "trading_orders" ADD CONSTRAINT "trading_orders_filled" CHECK ("trading_orders"."filled_contracts" >= 0 and "trading_orders"."filled_contracts" <= "trading_orders"."contracts");
--> statement-breakpoint
CREATE TABLE "schema_requirement" (
	"migration" integer NOT NULL,
	"since" timestamp (6) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
-- An older version would send sealed mails as they are stored.
INSERT INTO "schema_requirement" ("migration") VALUES (51);
--> statement-breakpoint
ALTER TABLE "sign_in_challenges" ADD COLUMN "confirmed" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "sign_in_challenges" ADD COLUMN "roles" json;--> statement-breakpoint
ALTER TABLE "sign_in_challenges" ADD COLUMN "current_org_id" uuid;--> statement-breakpoint
ALTER TABLE "invitations" ADD COLUMN "mailed" boolean DEFAULT false NOT NULL;--> statement-breakpoint
ALTER TABLE "users" ADD COLUMN "proven_at" timestamp (6) with time zone;--> statement-breakpoint
-- Proven: operators, accounts that an operator, the set-up or single sign-on created, those of people whom an operator
-- invited, and those whose password was chosen with a one-time link. An account that began with another person's
-- invitation is not. One row at a time, because a sharded database updates no reference table from another table.
DO $$
DECLARE person uuid;
BEGIN
  FOR person IN
    SELECT user_id FROM operators
    UNION SELECT u.id FROM users u JOIN operator_log l ON l.target = u.email AND l.at >= u.created_at
      WHERE l.action = 'user.password_reset' OR l.action = 'user.created' AND l.details->>'invitedTo' IS NULL
  LOOP
    UPDATE users SET proven_at = created_at WHERE id = person;
  END LOOP;
  FOR person IN
    SELECT DISTINCT i.accepted_by FROM invitations i JOIN operators o ON o.user_id = i.created_by
      JOIN users u ON u.id = i.accepted_by AND u.email = i.email
  LOOP
    UPDATE users SET proven_at = created_at WHERE id = person;
  END LOOP;
END $$;
--> statement-breakpoint
ALTER TABLE "organizations" ADD COLUMN "may_correct" boolean DEFAULT false NOT NULL;--> statement-breakpoint
CREATE INDEX "organizations_stripe_customer" ON "organizations" USING btree ("stripe_customer_id") WHERE "organizations"."stripe_customer_id" is not null;--> statement-breakpoint
-- Organizations whose own people or keys have corrected usage keep the right. One row at a time, as above.
DO $$
DECLARE corrector uuid;
BEGIN
  FOR corrector IN
    SELECT DISTINCT org_id FROM usage_corrections WHERE actor <> 'system' AND actor NOT LIKE 'operator%'
  LOOP
    UPDATE organizations SET "may_correct" = true WHERE id = corrector;
  END LOOP;
END $$;
