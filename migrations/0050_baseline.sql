CREATE TABLE "api_key_calls" (
	"org_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"minute" timestamp (6) with time zone NOT NULL,
	"calls" bigint NOT NULL,
	"ended" bigint DEFAULT 0 NOT NULL,
	"unscoped" bigint DEFAULT 0 NOT NULL,
	"limited" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "api_key_calls_org_id_api_key_id_minute_pk" PRIMARY KEY("org_id","api_key_id","minute")
);
--> statement-breakpoint
CREATE TABLE "api_key_directory" (
	"hashed_secret" text PRIMARY KEY NOT NULL,
	"org_id" uuid NOT NULL
);
--> statement-breakpoint
CREATE TABLE "api_key_scope_use" (
	"org_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"scope" text NOT NULL,
	"calls" bigint NOT NULL,
	"last_used_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "api_key_scope_use_org_id_api_key_id_scope_pk" PRIMARY KEY("org_id","api_key_id","scope")
);
--> statement-breakpoint
CREATE TABLE "api_key_use_receipts" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "api_key_use_receipts_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"name" text NOT NULL,
	"prefix" text NOT NULL,
	"hashed_secret" text NOT NULL,
	"scopes" text[] NOT NULL,
	"livemode" boolean NOT NULL,
	"last_used_at" timestamp (6) with time zone,
	"expires_at" timestamp (6) with time zone,
	"revoked_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid,
	"rotated_from_id" uuid,
	"archived_at" timestamp (6) with time zone,
	"watched_until" timestamp (6) with time zone,
	CONSTRAINT "api_keys_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "api_keys_hashed_secret" UNIQUE("hashed_secret","org_id"),
	CONSTRAINT "api_keys_rotated_from" UNIQUE("org_id","rotated_from_id"),
	CONSTRAINT "api_keys_scopes" CHECK (cardinality("api_keys"."scopes") > 0)
);
--> statement-breakpoint
CREATE TABLE "audit_chains" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"seq" bigint NOT NULL,
	"hash" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "audit_log" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"action" text NOT NULL,
	"actor" text NOT NULL,
	"target" text NOT NULL,
	"details" jsonb NOT NULL,
	"ip" text,
	"request_id" text,
	"seq" bigint,
	"hash" text,
	CONSTRAINT "audit_log_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "audit_log_seq" UNIQUE("org_id","seq"),
	CONSTRAINT "audit_log_chained" CHECK (("audit_log"."seq" is null) = ("audit_log"."hash" is null))
);
--> statement-breakpoint
CREATE TABLE "operator_chain" (
	"id" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"seq" bigint NOT NULL,
	"hash" text NOT NULL,
	CONSTRAINT "operator_chain_one" CHECK ("operator_chain"."id")
);
--> statement-breakpoint
CREATE TABLE "operator_log" (
	"id" uuid PRIMARY KEY NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"action" text NOT NULL,
	"actor" text NOT NULL,
	"target" text NOT NULL,
	"details" jsonb NOT NULL,
	"ip" text,
	"request_id" text,
	"seq" bigint,
	"hash" text,
	CONSTRAINT "operator_log_seq" UNIQUE("seq"),
	CONSTRAINT "operator_log_chained" CHECK (("operator_log"."seq" is null) = ("operator_log"."hash" is null))
);
--> statement-breakpoint
CREATE TABLE "failed_sign_ins" (
	"user_id" uuid NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"passwords" integer DEFAULT 0 NOT NULL,
	"codes" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "failed_sign_ins_user_id_hour_pk" PRIMARY KEY("user_id","hour")
);
--> statement-breakpoint
CREATE TABLE "identities" (
	"issuer" text NOT NULL,
	"subject" text NOT NULL,
	"user_id" uuid NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "identities_issuer_subject_pk" PRIMARY KEY("issuer","subject")
);
--> statement-breakpoint
CREATE TABLE "kept_forms" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"hashed_token" text NOT NULL,
	"page" text NOT NULL,
	"values" json NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "one_time_links" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"kind" text NOT NULL,
	"user_id" uuid,
	"email" text,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid,
	"mailed" boolean DEFAULT false NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"used_at" timestamp (6) with time zone,
	CONSTRAINT "one_time_links_kind" CHECK ("one_time_links"."kind" in ('setup', 'password_reset', 'second_factor_reset', 'operator_invitation'))
);
--> statement-breakpoint
CREATE TABLE "operators" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"created_by" uuid
);
--> statement-breakpoint
CREATE TABLE "passkey_challenges" (
	"challenge" text PRIMARY KEY NOT NULL,
	"hashed_token" text,
	"expires_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "passkeys" (
	"credential_id" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"public_key" "bytea" NOT NULL,
	"counter" bigint NOT NULL,
	"transports" text[] NOT NULL,
	"name" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"last_used_at" timestamp (6) with time zone,
	"backed_up" boolean NOT NULL
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
CREATE TABLE "recovery_codes" (
	"user_id" uuid NOT NULL,
	"hashed_code" text NOT NULL,
	"used_at" timestamp (6) with time zone,
	CONSTRAINT "recovery_codes_user_id_hashed_code_pk" PRIMARY KEY("user_id","hashed_code")
);
--> statement-breakpoint
CREATE TABLE "second_factors" (
	"user_id" uuid PRIMARY KEY NOT NULL,
	"secret" text NOT NULL,
	"confirmed_at" timestamp (6) with time zone,
	"last_step" bigint,
	"setup_session" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"id" uuid DEFAULT gen_random_uuid() NOT NULL,
	"user_id" uuid NOT NULL,
	"current_org_id" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"last_seen_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"confirmed_at" timestamp (6) with time zone,
	"single_sign_on_at" timestamp (6) with time zone,
	"single_sign_on_waived_until" timestamp (6) with time zone,
	"ip" text NOT NULL,
	"user_agent" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "sign_in_challenges" (
	"hashed_token" text PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"attempts" integer NOT NULL,
	"single_sign_on" boolean DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE TABLE "single_sign_ons" (
	"hashed_state" text PRIMARY KEY NOT NULL,
	"hashed_browser" text NOT NULL,
	"nonce" text NOT NULL,
	"code_verifier" text NOT NULL,
	"next" text NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
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
CREATE TABLE "invitations" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"hashed_token" text NOT NULL,
	"email" text NOT NULL,
	"role" text NOT NULL,
	"created_by" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"accepted_at" timestamp (6) with time zone,
	"accepted_by" uuid,
	"revoked_at" timestamp (6) with time zone,
	CONSTRAINT "invitations_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "invitations_hashed_token" UNIQUE("org_id","hashed_token"),
	CONSTRAINT "invitations_role" CHECK ("invitations"."role" in ('owner', 'admin', 'member', 'billing'))
);
--> statement-breakpoint
CREATE TABLE "memberships" (
	"org_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"role" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"mail_notices" boolean DEFAULT true NOT NULL,
	CONSTRAINT "memberships_org_id_user_id_pk" PRIMARY KEY("org_id","user_id"),
	CONSTRAINT "memberships_role" CHECK ("memberships"."role" in ('owner', 'admin', 'member', 'billing'))
);
--> statement-breakpoint
CREATE TABLE "organizations" (
	"id" uuid PRIMARY KEY NOT NULL,
	"slug" text NOT NULL,
	"name" text NOT NULL,
	"require_second_factor" boolean DEFAULT false NOT NULL,
	"require_single_sign_on" boolean DEFAULT false NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"archived_at" timestamp (6) with time zone,
	"market_access" text DEFAULT 'trade' NOT NULL,
	"stripe_customer_id" text,
	"stripe_since" timestamp (6) with time zone,
	"credit_thresholds" integer[],
	CONSTRAINT "organizations_slug_unique" UNIQUE("slug"),
	CONSTRAINT "organizations_stripe_since" CHECK (("organizations"."stripe_customer_id" is null) = ("organizations"."stripe_since" is null)),
	CONSTRAINT "organizations_market_access" CHECK ("organizations"."market_access" in ('none', 'read', 'trade'))
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" uuid PRIMARY KEY NOT NULL,
	"email" text NOT NULL,
	"name" text NOT NULL,
	"password_hash" text NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "users_email_unique" UNIQUE("email")
);
--> statement-breakpoint
CREATE TABLE "webhook_attempts" (
	"org_id" uuid NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"message_id" uuid NOT NULL,
	"attempt" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"duration_ms" integer NOT NULL,
	"status_code" integer,
	"error" text,
	"answer" text,
	CONSTRAINT "webhook_attempts_org_id_endpoint_id_message_id_attempt_pk" PRIMARY KEY("org_id","endpoint_id","message_id","attempt")
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"org_id" uuid NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"message_id" uuid NOT NULL,
	"status" text DEFAULT 'waiting' NOT NULL,
	"next_attempt_at" timestamp (6) with time zone NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"failures" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "webhook_deliveries_org_id_endpoint_id_message_id_pk" PRIMARY KEY("org_id","endpoint_id","message_id")
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"format" text DEFAULT 'standard' NOT NULL,
	"url" text NOT NULL,
	"types" text[] NOT NULL,
	"livemode" boolean NOT NULL,
	"is_enabled" boolean DEFAULT true NOT NULL,
	"disabled_reason" text,
	"failing_since" timestamp (6) with time zone,
	"secret" text NOT NULL,
	"previous_secret" text,
	"previous_secret_ends_at" timestamp (6) with time zone,
	"next_post_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "webhook_endpoints_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "webhook_endpoints_format" CHECK ("webhook_endpoints"."format" in ('standard', 'slack', 'discord', 'teams')),
	CONSTRAINT "webhook_endpoints_types" CHECK (cardinality("webhook_endpoints"."types") > 0)
);
--> statement-breakpoint
CREATE TABLE "webhook_messages" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"type" text NOT NULL,
	"livemode" boolean NOT NULL,
	"data" jsonb NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"once_key" text,
	CONSTRAINT "webhook_messages_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "webhook_messages_once" UNIQUE("org_id","once_key")
);
--> statement-breakpoint
CREATE TABLE "climate_products" (
	"station" text NOT NULL,
	"kind" text NOT NULL,
	"date" date NOT NULL,
	"issued_at" timestamp with time zone NOT NULL,
	"fetched_at" timestamp with time zone DEFAULT now() NOT NULL,
	"stage" text DEFAULT 'final' NOT NULL,
	"value" integer NOT NULL,
	"is_first_final" boolean NOT NULL,
	"settled" integer,
	CONSTRAINT "climate_products_station_kind_date_issued_at_pk" PRIMARY KEY("station","kind","date","issued_at"),
	CONSTRAINT "climate_products_kind" CHECK ("climate_products"."kind" in ('daily_maximum', 'daily_minimum')),
	CONSTRAINT "climate_products_settled" CHECK ("climate_products"."settled" is null or "climate_products"."is_first_final")
);
--> statement-breakpoint
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
CREATE TABLE "climate_reports" (
	"market_source" text NOT NULL,
	"kind" text DEFAULT 'daily_maximum' NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"hour" smallint DEFAULT 0 NOT NULL,
	"known_at" timestamp (6) with time zone NOT NULL,
	"temperature" double precision NOT NULL,
	CONSTRAINT "climate_reports_pk" PRIMARY KEY("market_source","kind","station","date","hour","known_at"),
	CONSTRAINT "climate_reports_hour" CHECK ("climate_reports"."hour" between 0 and 23 and ("climate_reports"."kind" = 'hourly' or "climate_reports"."hour" = 0))
);
--> statement-breakpoint
CREATE TABLE "ensemble_runs" (
	"forecast_source" text NOT NULL,
	"model" text DEFAULT 'main' NOT NULL,
	"kind" text DEFAULT 'daily_maximum' NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"hour" smallint DEFAULT 0 NOT NULL,
	"model_run_at" timestamp (6) with time zone NOT NULL,
	"fetched_at" timestamp (6) with time zone NOT NULL,
	"members" double precision[] NOT NULL,
	"mean" double precision NOT NULL,
	"variance" double precision NOT NULL,
	"curve" double precision[],
	"version" text,
	"near_midnight" boolean DEFAULT false NOT NULL,
	CONSTRAINT "ensemble_runs_pk" PRIMARY KEY("forecast_source","kind","station","date","hour","model_run_at","model"),
	CONSTRAINT "ensemble_runs_hour" CHECK ("ensemble_runs"."hour" between 0 and 23 and ("ensemble_runs"."kind" = 'hourly' or "ensemble_runs"."hour" = 0))
);
--> statement-breakpoint
CREATE TABLE "forecast_fits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL,
	"model" text DEFAULT 'main' NOT NULL,
	"kind" text DEFAULT 'daily_maximum' NOT NULL,
	"station" text,
	"lead_hours" integer NOT NULL,
	"coefficients" jsonb,
	"a" double precision,
	"b" double precision,
	"c" double precision,
	"d" double precision,
	"station_bias" jsonb,
	"hour_bias" jsonb,
	"n" integer NOT NULL,
	"lowest_mean" double precision NOT NULL,
	"highest_mean" double precision NOT NULL,
	"training_crps" double precision NOT NULL,
	"raw_crps" double precision NOT NULL,
	"training" jsonb NOT NULL,
	CONSTRAINT "forecast_fits_variance" CHECK ("forecast_fits"."c" >= 0 and "forecast_fits"."d" >= 0)
);
--> statement-breakpoint
CREATE TABLE "forecast_mixes" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL,
	"kind" text NOT NULL,
	"lead_hours" integer NOT NULL,
	"skill" jsonb NOT NULL,
	"correlation" jsonb NOT NULL
);
--> statement-breakpoint
CREATE TABLE "forecast_records" (
	"kind" text DEFAULT 'daily_maximum' NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"hour" smallint DEFAULT 0 NOT NULL,
	"lead_hours" integer NOT NULL,
	"recorded_at" timestamp (6) with time zone NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"method" text NOT NULL,
	"fit_id" uuid,
	"model_run_at" timestamp (6) with time zone NOT NULL,
	"mean" double precision NOT NULL,
	"deviation" double precision NOT NULL,
	"at_least" integer,
	"at_most" integer,
	"stays" double precision,
	"shape" text,
	"members" double precision[],
	"models" jsonb,
	"climate_mean" double precision,
	"climate_deviation" double precision,
	"brackets" jsonb NOT NULL,
	"outcome" double precision,
	"settled_at" timestamp (6) with time zone,
	"model_log_score" double precision,
	"model_rps" double precision,
	"market_log_score" double precision,
	"market_rps" double precision,
	"advantage" double precision,
	"worst_advantage" double precision,
	"model_scores" jsonb,
	"model_crps" double precision,
	"raw_crps" double precision,
	"climate_crps" double precision,
	"market_crps" double precision,
	"pit_low" double precision,
	"pit_high" double precision,
	CONSTRAINT "forecast_records_pk" PRIMARY KEY("market_source","forecast_source","kind","station","date","hour","lead_hours"),
	CONSTRAINT "forecast_records_lead" CHECK ("forecast_records"."lead_hours" >= 0),
	CONSTRAINT "forecast_records_hour" CHECK ("forecast_records"."hour" between 0 and 23 and ("forecast_records"."kind" = 'hourly' or "forecast_records"."hour" = 0))
);
--> statement-breakpoint
CREATE TABLE "observed_hours" (
	"forecast_source" text NOT NULL,
	"station" text NOT NULL,
	"date" date NOT NULL,
	"hour" smallint NOT NULL,
	"observed_at" timestamp (6) with time zone NOT NULL,
	"fetched_at" timestamp (6) with time zone NOT NULL,
	"temperature" double precision NOT NULL,
	"highest" double precision,
	"lowest" double precision,
	CONSTRAINT "observed_hours_pk" PRIMARY KEY("forecast_source","station","date","hour"),
	CONSTRAINT "observed_hours_hour" CHECK ("observed_hours"."hour" between 0 and 23)
);
--> statement-breakpoint
CREATE TABLE "same_day_fits" (
	"id" uuid PRIMARY KEY NOT NULL,
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"first_date" date NOT NULL,
	"last_date" date NOT NULL,
	"known_through" timestamp (6) with time zone NOT NULL,
	"trained_at" timestamp (6) with time zone NOT NULL,
	"kind" text NOT NULL,
	"hour" smallint NOT NULL,
	"coefficients" jsonb NOT NULL,
	"hurdle" jsonb,
	"station_bias" jsonb NOT NULL,
	"station_extreme_bias" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"n" integer NOT NULL,
	"training_crps" double precision NOT NULL,
	"raw_crps" double precision NOT NULL,
	"training" jsonb NOT NULL,
	CONSTRAINT "same_day_fits_hour" CHECK ("same_day_fits"."hour" between 0 and 22)
);
--> statement-breakpoint
CREATE TABLE "signal_gates" (
	"forecast_source" text NOT NULL,
	"market_source" text NOT NULL,
	"kind" text NOT NULL,
	"station" text NOT NULL,
	"lead_hours" integer NOT NULL,
	"is_open" boolean NOT NULL,
	"judged_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "signal_gates_market_source_forecast_source_kind_station_lead_hours_pk" PRIMARY KEY("market_source","forecast_source","kind","station","lead_hours")
);
--> statement-breakpoint
CREATE TABLE "live_accounts" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"foreign_positions" jsonb NOT NULL,
	"accepted" jsonb NOT NULL,
	"problem" text,
	"order_group_id" text,
	"opened_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "paper_books" (
	"org_id" uuid NOT NULL,
	"ticker" text NOT NULL,
	"book_hash" text NOT NULL,
	"taken" jsonb NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "paper_books_org_id_ticker_book_hash_pk" PRIMARY KEY("org_id","ticker","book_hash")
);
--> statement-breakpoint
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
CREATE TABLE "trading_fills" (
	"org_id" uuid NOT NULL,
	"order_id" uuid NOT NULL,
	"n" integer NOT NULL,
	"price" bigint NOT NULL,
	"contracts" numeric(12, 2) NOT NULL,
	"fee" bigint NOT NULL,
	"balance_change" bigint NOT NULL,
	"filled_at" timestamp (6) with time zone NOT NULL,
	"venue_fill_id" text,
	CONSTRAINT "trading_fills_org_id_order_id_n_pk" PRIMARY KEY("org_id","order_id","n"),
	CONSTRAINT "trading_fills_contracts" CHECK ("trading_fills"."contracts" > 0)
);
--> statement-breakpoint
CREATE TABLE "trading_orders" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"mode" text NOT NULL,
	"idempotency_key" text NOT NULL,
	"request_hash" text NOT NULL,
	"client_order_id" text NOT NULL,
	"venue_order_id" text,
	"ticker" text NOT NULL,
	"event_ticker" text NOT NULL,
	"series_ticker" text NOT NULL,
	"label" text NOT NULL,
	"side" text NOT NULL,
	"action" text NOT NULL,
	"contracts" numeric(12, 2) NOT NULL,
	"limit_price" bigint NOT NULL,
	"time_in_force" text NOT NULL,
	"status" text NOT NULL,
	"reason" text,
	"filled_contracts" numeric(12, 2) DEFAULT 0 NOT NULL,
	"exact" bigint DEFAULT 0 NOT NULL,
	"booked" bigint DEFAULT 0 NOT NULL,
	"fees" bigint DEFAULT 0 NOT NULL,
	"reserved" bigint DEFAULT 0 NOT NULL,
	"expires_at" timestamp (6) with time zone,
	"post_only" boolean DEFAULT false NOT NULL,
	"cancel_on" text[] DEFAULT '{}' NOT NULL,
	"cancel_requested_at" timestamp (6) with time zone,
	"cancel_reason" text,
	"unknown_since" timestamp (6) with time zone,
	"queue_ahead" numeric(12, 2),
	"prints_seen" jsonb,
	"fee_rule" jsonb NOT NULL,
	"book_fetched_at" timestamp (6) with time zone NOT NULL,
	"api_key_id" uuid,
	"user_id" uuid,
	"created_at" timestamp (6) with time zone NOT NULL,
	"sent_at" timestamp (6) with time zone,
	"finished_at" timestamp (6) with time zone,
	CONSTRAINT "trading_orders_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "trading_orders_idempotency" UNIQUE("org_id","idempotency_key"),
	CONSTRAINT "trading_orders_client" UNIQUE("org_id","client_order_id"),
	CONSTRAINT "trading_orders_contracts" CHECK ("trading_orders"."contracts" > 0),
	CONSTRAINT "trading_orders_filled" CHECK ("trading_orders"."filled_contracts" >= 0 and "trading_orders"."filled_contracts" <= "trading_orders"."contracts"),
	CONSTRAINT "trading_orders_price" CHECK ("trading_orders"."limit_price" > 0 and "trading_orders"."limit_price" < 1000000),
	CONSTRAINT "trading_orders_reserved" CHECK ("trading_orders"."reserved" >= 0),
	CONSTRAINT "trading_orders_mode" CHECK ("trading_orders"."mode" in ('paper', 'live')),
	CONSTRAINT "trading_orders_status" CHECK ("trading_orders"."status" in ('pending', 'resting', 'filled', 'partially_filled', 'cancelled', 'rejected')),
	CONSTRAINT "trading_orders_rest" CHECK (("trading_orders"."time_in_force" = 'good_till_time') = ("trading_orders"."expires_at" is not null) and "trading_orders"."queue_ahead" >= 0),
	CONSTRAINT "trading_orders_actor" CHECK (("trading_orders"."api_key_id" is null) <> ("trading_orders"."user_id" is null))
);
--> statement-breakpoint
CREATE TABLE "ledger_entries" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"mode" text NOT NULL,
	"kind" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"ticker" text,
	"order_id" uuid,
	"fill_n" integer,
	"settlement_n" integer,
	"transfer_id" text,
	"cash" bigint NOT NULL,
	"positions" bigint NOT NULL,
	"fees" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"capital" bigint NOT NULL,
	"memo" text,
	CONSTRAINT "ledger_entries_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "ledger_entries_balance" CHECK ("ledger_entries"."cash" + "ledger_entries"."positions" + "ledger_entries"."fees" + "ledger_entries"."realised" + "ledger_entries"."capital" = 0),
	CONSTRAINT "ledger_entries_kind" CHECK ("ledger_entries"."kind" in ('deposit', 'fill', 'settlement', 'correction', 'adjustment', 'transfer'))
);
--> statement-breakpoint
CREATE TABLE "portfolio_history" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"cash" bigint NOT NULL,
	"liquidation" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"unrealised" bigint NOT NULL,
	"fees" bigint NOT NULL,
	CONSTRAINT "portfolio_history_org_id_mode_at_pk" PRIMARY KEY("org_id","mode","at")
);
--> statement-breakpoint
CREATE TABLE "trading_accounts" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"cash" bigint NOT NULL,
	"overdrawn" bigint DEFAULT 0 NOT NULL,
	"opened_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_accounts_org_id_mode_pk" PRIMARY KEY("org_id","mode"),
	CONSTRAINT "trading_accounts_mode" CHECK ("trading_accounts"."mode" in ('paper', 'live')),
	CONSTRAINT "trading_accounts_cash" CHECK ("trading_accounts"."mode" = 'live' or "trading_accounts"."cash" + "trading_accounts"."overdrawn" >= 0),
	CONSTRAINT "trading_accounts_overdrawn" CHECK ("trading_accounts"."overdrawn" >= 0)
);
--> statement-breakpoint
CREATE TABLE "trading_positions" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"ticker" text NOT NULL,
	"event_ticker" text NOT NULL,
	"side" text NOT NULL,
	"contracts" numeric(12, 2) NOT NULL,
	"cost" bigint NOT NULL,
	"realised" bigint NOT NULL,
	"fees" bigint NOT NULL,
	"opened_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_positions_org_id_mode_ticker_pk" PRIMARY KEY("org_id","mode","ticker"),
	CONSTRAINT "trading_positions_contracts" CHECK ("trading_positions"."contracts" >= 0),
	CONSTRAINT "trading_positions_cost" CHECK ("trading_positions"."cost" >= 0 and ("trading_positions"."contracts" > 0 or "trading_positions"."cost" = 0))
);
--> statement-breakpoint
CREATE TABLE "trading_settlements" (
	"org_id" uuid NOT NULL,
	"mode" text NOT NULL,
	"ticker" text NOT NULL,
	"n" integer NOT NULL,
	"state" text NOT NULL,
	"value" bigint,
	"temperature" double precision,
	"event_ticker" text NOT NULL,
	"side" text NOT NULL,
	"contracts" numeric(12, 2) NOT NULL,
	"cost" bigint NOT NULL,
	"cash_change" bigint NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "trading_settlements_org_id_mode_ticker_n_pk" PRIMARY KEY("org_id","mode","ticker","n"),
	CONSTRAINT "trading_settlements_contracts" CHECK ("trading_settlements"."contracts" > 0)
);
--> statement-breakpoint
CREATE TABLE "job_leases" (
	"name" text PRIMARY KEY NOT NULL,
	"holder" uuid NOT NULL,
	"until" timestamp (6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "risk_limits" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"max_order_contracts" numeric(12, 2),
	"max_order_cost" bigint,
	"max_position_contracts" numeric(12, 2),
	"max_event_loss" bigint,
	"max_daily_loss" bigint,
	"max_open_orders" integer,
	"price_collar" bigint,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "risk_limits_sign" CHECK (least("risk_limits"."max_order_contracts", "risk_limits"."max_order_cost", "risk_limits"."max_position_contracts", "risk_limits"."max_event_loss", "risk_limits"."max_daily_loss", "risk_limits"."max_open_orders", "risk_limits"."price_collar") >= 0)
);
--> statement-breakpoint
CREATE TABLE "service_switch" (
	"id" boolean PRIMARY KEY DEFAULT true NOT NULL,
	"state" text DEFAULT 'open' NOT NULL,
	"reason" text,
	"updated_at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "service_switch_one" CHECK ("service_switch"."id"),
	CONSTRAINT "service_switch_state" CHECK ("service_switch"."state" in ('open', 'reduce_only', 'halt'))
);
--> statement-breakpoint
CREATE TABLE "trading_switches" (
	"org_id" uuid PRIMARY KEY NOT NULL,
	"own_state" text DEFAULT 'open' NOT NULL,
	"own_reason" text,
	"own_by" uuid,
	"own_at" timestamp (6) with time zone,
	"operator_state" text DEFAULT 'open' NOT NULL,
	"operator_reason" text,
	"operator_at" timestamp (6) with time zone,
	CONSTRAINT "trading_switches_own" CHECK ("trading_switches"."own_state" in ('open', 'reduce_only', 'halt')),
	CONSTRAINT "trading_switches_operator" CHECK ("trading_switches"."operator_state" in ('open', 'reduce_only', 'halt'))
);
--> statement-breakpoint
CREATE TABLE "price_history" (
	"market_source" text NOT NULL,
	"event_ticker" text NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"prices" jsonb NOT NULL,
	CONSTRAINT "price_history_pk" PRIMARY KEY("market_source","event_ticker","at")
);
--> statement-breakpoint
CREATE TABLE "usage_backfill_events" (
	"org_id" uuid NOT NULL,
	"backfill_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"is_mismatch" boolean NOT NULL,
	"subject" text collate "C" DEFAULT '' NOT NULL,
	"dimensions" text collate "C" DEFAULT '' NOT NULL,
	CONSTRAINT "usage_backfill_events_pk" PRIMARY KEY("org_id","backfill_id","idempotency_key")
);
--> statement-breakpoint
CREATE TABLE "usage_backfill_sums" (
	"org_id" uuid NOT NULL,
	"backfill_id" uuid NOT NULL,
	"period" date NOT NULL,
	"product_id" uuid NOT NULL,
	"metric" text NOT NULL,
	"events" bigint DEFAULT 0 NOT NULL,
	"quantity" numeric DEFAULT '0' NOT NULL,
	"repeats" bigint DEFAULT 0 NOT NULL,
	"mismatches" bigint DEFAULT 0 NOT NULL,
	"counted_events" bigint DEFAULT 0 NOT NULL,
	"counted_quantity" numeric DEFAULT '0' NOT NULL,
	"archived_events" bigint DEFAULT 0 NOT NULL,
	"reverted_events" bigint DEFAULT 0 NOT NULL,
	CONSTRAINT "usage_backfill_sums_pk" PRIMARY KEY("org_id","backfill_id","period","product_id","metric")
);
--> statement-breakpoint
CREATE TABLE "usage_backfills" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"from_time" timestamp (6) with time zone NOT NULL,
	"to_time" timestamp (6) with time zone NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"changed_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"state" text NOT NULL,
	"reason" text NOT NULL,
	"actor" text NOT NULL,
	"cursor" text collate "C" DEFAULT '' NOT NULL,
	"done" bigint DEFAULT 0 NOT NULL,
	"burns_credits" boolean DEFAULT true NOT NULL,
	CONSTRAINT "usage_backfills_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "credit_accounts" (
	"org_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"reached" integer,
	"reached_at" timestamp (6) with time zone,
	"grants" uuid[] DEFAULT '{}' NOT NULL,
	"rests" numeric[] DEFAULT '{}' NOT NULL,
	"starts" timestamp (6) with time zone[] DEFAULT '{}' NOT NULL,
	"ends" timestamp (6) with time zone[] DEFAULT '{}' NOT NULL,
	"scopes" text[] DEFAULT '{}' NOT NULL,
	"priorities" integer[] DEFAULT '{}' NOT NULL,
	"roll_percents" integer[] DEFAULT '{}' NOT NULL,
	"roll_days" integer[] DEFAULT '{}' NOT NULL,
	"debtors" uuid[] DEFAULT '{}' NOT NULL,
	"debts" numeric[] DEFAULT '{}' NOT NULL,
	"asked" uuid[],
	"hours" timestamp (6) with time zone[],
	"costs" numeric[],
	"took_kinds" text[],
	"took_from" uuid[],
	"took_for" uuid[],
	"took_hours" timestamp (6) with time zone[],
	"took" numeric[],
	CONSTRAINT "credit_accounts_org_id_livemode_pk" PRIMARY KEY("org_id","livemode")
);
--> statement-breakpoint
CREATE TABLE "credit_entries" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"grant_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"kind" text NOT NULL,
	"amount" numeric NOT NULL,
	CONSTRAINT "credit_entries_pk" PRIMARY KEY("org_id","livemode","product_id","at","hour","grant_id","kind")
);
--> statement-breakpoint
CREATE TABLE "credit_grants" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"starts_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"voided_at" timestamp (6) with time zone,
	"livemode" boolean NOT NULL,
	"priority" integer NOT NULL,
	"rollover_percent" integer,
	"rollover_days" integer,
	"grant_key" text collate "C" NOT NULL,
	"amount" numeric NOT NULL,
	"product_ids" uuid[],
	"reason" text NOT NULL,
	"actor" text NOT NULL,
	"void_reason" text,
	"request" jsonb NOT NULL,
	CONSTRAINT "credit_grants_org_id_livemode_id_pk" PRIMARY KEY("org_id","livemode","id"),
	CONSTRAINT "credit_grants_amount" CHECK ("credit_grants"."amount" > 0),
	CONSTRAINT "credit_grants_priority" CHECK ("credit_grants"."priority" between 0 and 100),
	CONSTRAINT "credit_grants_range" CHECK ("credit_grants"."expires_at" > "credit_grants"."starts_at"),
	CONSTRAINT "credit_grants_rollover" CHECK (("credit_grants"."rollover_percent" is null) = ("credit_grants"."rollover_days" is null) and "credit_grants"."rollover_percent" between 1 and 100
        and "credit_grants"."rollover_days" between 1 and 366 and ("credit_grants"."rollover_percent" is null or "credit_grants"."expires_at" is not null))
);
--> statement-breakpoint
CREATE TABLE "entitlements" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"kind" text NOT NULL,
	"starts_at" timestamp (6) with time zone NOT NULL,
	"ends_at" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	"has_own_cap" boolean DEFAULT false NOT NULL,
	"unit_cap" numeric,
	"limits" jsonb,
	"thresholds" integer[],
	CONSTRAINT "entitlements_org_id_product_id_pk" PRIMARY KEY("org_id","product_id"),
	CONSTRAINT "entitlements_kind" CHECK ("entitlements"."kind" in ('live', 'read_only')),
	CONSTRAINT "entitlements_range" CHECK ("entitlements"."ends_at" > "entitlements"."starts_at"),
	CONSTRAINT "entitlements_unit_cap" CHECK ("entitlements"."unit_cap" is null or ("entitlements"."has_own_cap" and "entitlements"."unit_cap" >= 0))
);
--> statement-breakpoint
CREATE TABLE "products" (
	"id" uuid PRIMARY KEY NOT NULL,
	"slug" text NOT NULL,
	"name" text NOT NULL,
	"usage_metric" text NOT NULL,
	"unit_cap" numeric,
	"max_quantity" numeric DEFAULT '1000000000000000' NOT NULL,
	"dimensions" text[] DEFAULT '{}' NOT NULL,
	"subjects_since" timestamp (6) with time zone,
	"created_at" timestamp (6) with time zone NOT NULL,
	"updated_at" timestamp (6) with time zone NOT NULL,
	"archived_at" timestamp (6) with time zone,
	"stripe_meter_event" text,
	"stripe_since" timestamp (6) with time zone,
	"credit_price" numeric,
	"credit_dimension" text,
	"credit_prices" jsonb,
	"credit_enforcement" text,
	CONSTRAINT "products_slug_unique" UNIQUE("slug"),
	CONSTRAINT "products_stripe_since" CHECK (("products"."stripe_meter_event" is null) = ("products"."stripe_since" is null)),
	CONSTRAINT "products_unit_cap" CHECK ("products"."unit_cap" >= 0),
	CONSTRAINT "products_max_quantity" CHECK ("products"."max_quantity" > 0),
	CONSTRAINT "products_credits" CHECK ("products"."credit_price" >= 0 and ("products"."credit_price" is null) = ("products"."credit_enforcement" is null)
        and ("products"."credit_dimension" is null) = ("products"."credit_prices" is null)
        and ("products"."credit_dimension" is null or "products"."credit_price" is not null)),
	CONSTRAINT "products_dimensions" CHECK (cardinality("products"."dimensions") <= 4)
);
--> statement-breakpoint
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
	"deleted_credits" numeric DEFAULT '0' NOT NULL,
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
--> statement-breakpoint
CREATE TABLE "usage_checks" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	"latest_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	CONSTRAINT "usage_checks_org_id_id_pk" PRIMARY KEY("org_id","id")
);
--> statement-breakpoint
CREATE TABLE "usage_combinations" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"period" date NOT NULL,
	"number" integer NOT NULL,
	"dimensions" text collate "C" NOT NULL,
	CONSTRAINT "usage_combinations_pk" PRIMARY KEY("org_id","product_id","livemode","period","dimensions")
);
--> statement-breakpoint
CREATE TABLE "usage_corrections" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"corrected_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"number" integer NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"correction_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"previous_quantity" numeric NOT NULL,
	"quantity" numeric NOT NULL,
	"actor" text NOT NULL,
	"reason" text NOT NULL,
	"subject" text collate "C" DEFAULT '' NOT NULL,
	"dimensions" text collate "C" DEFAULT '' NOT NULL,
	"credit_price" numeric DEFAULT '0' NOT NULL,
	CONSTRAINT "usage_corrections_org_id_correction_key_pk" PRIMARY KEY("org_id","correction_key"),
	CONSTRAINT "usage_corrections_quantity" CHECK ("usage_corrections"."quantity" >= 0 and "usage_corrections"."previous_quantity" >= 0)
);
--> statement-breakpoint
CREATE TABLE "usage_events" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"occurred_at" timestamp (6) with time zone NOT NULL,
	"received_at" timestamp (6) with time zone NOT NULL,
	"livemode" boolean NOT NULL,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"subject" text collate "C" DEFAULT '' NOT NULL,
	"dimensions" text collate "C" DEFAULT '' NOT NULL,
	"credit_price" numeric DEFAULT '0' NOT NULL,
	CONSTRAINT "usage_events_org_id_idempotency_key_pk" PRIMARY KEY("org_id","idempotency_key"),
	CONSTRAINT "usage_events_quantity" CHECK ("usage_events"."quantity" >= 0)
);
--> statement-breakpoint
CREATE TABLE "usage_gates" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	"seq" bigint NOT NULL,
	CONSTRAINT "usage_gates_org_id_product_id_livemode_metric_pk" PRIMARY KEY("org_id","product_id","livemode","metric")
);
--> statement-breakpoint
CREATE TABLE "usage_hours" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"metric" text NOT NULL,
	"api_key_id" uuid NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	"dimensions" text collate "C" DEFAULT '' NOT NULL,
	CONSTRAINT "usage_hours_pk" PRIMARY KEY("org_id","product_id","livemode","hour","metric","api_key_id","dimensions")
);
--> statement-breakpoint
CREATE TABLE "usage_reservations" (
	"org_id" uuid NOT NULL,
	"id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"api_key_id" uuid NOT NULL,
	"created_at" timestamp (6) with time zone NOT NULL,
	"expires_at" timestamp (6) with time zone NOT NULL,
	"released_at" timestamp (6) with time zone,
	"settled_at" timestamp (6) with time zone,
	"settle_occurred_at" timestamp (6) with time zone,
	"livemode" boolean NOT NULL,
	"is_counted" boolean,
	"idempotency_key" text collate "C" NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"settled_quantity" numeric,
	"subject" text collate "C" DEFAULT '' NOT NULL,
	"dimensions" text collate "C" DEFAULT '' NOT NULL,
	"credit_price" numeric DEFAULT '0' NOT NULL,
	CONSTRAINT "usage_reservations_org_id_id_pk" PRIMARY KEY("org_id","id"),
	CONSTRAINT "usage_reservations_quantity" CHECK ("usage_reservations"."quantity" >= 0 and "usage_reservations"."settled_quantity" >= 0)
);
--> statement-breakpoint
CREATE TABLE "usage_subjects" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"subject" text collate "C" NOT NULL,
	"slot" timestamp (6) with time zone NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	CONSTRAINT "usage_subjects_pk" PRIMARY KEY("org_id","product_id","livemode","subject","slot","metric")
);
--> statement-breakpoint
CREATE TABLE "usage_told" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"livemode" boolean NOT NULL,
	"metric" text NOT NULL,
	"window" text NOT NULL,
	"quantity" numeric NOT NULL,
	"threshold" integer NOT NULL,
	"at" timestamp (6) with time zone NOT NULL,
	CONSTRAINT "usage_told_pk" PRIMARY KEY("org_id","product_id","livemode","metric","window","quantity","threshold")
);
--> statement-breakpoint
CREATE TABLE "usage_totals" (
	"org_id" uuid NOT NULL,
	"period" date NOT NULL,
	"livemode" boolean NOT NULL,
	"product_id" uuid NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"events" bigint NOT NULL,
	"lowered" numeric DEFAULT '0' NOT NULL,
	"unreached" numeric,
	"unreached_terms" bigint,
	CONSTRAINT "usage_totals_org_id_period_livemode_product_id_metric_pk" PRIMARY KEY("org_id","period","livemode","product_id","metric")
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
CREATE TABLE "stripe_events" (
	"org_id" uuid NOT NULL,
	"product_id" uuid NOT NULL,
	"planned_at" timestamp (6) with time zone NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"next_attempt_at" timestamp (6) with time zone NOT NULL,
	"unknown_since" timestamp (6) with time zone,
	"sent_at" timestamp (6) with time zone,
	"revision" integer NOT NULL,
	"attempts" integer DEFAULT 0 NOT NULL,
	"livemode" boolean NOT NULL,
	"state" text DEFAULT 'waiting' NOT NULL,
	"metric" text NOT NULL,
	"quantity" numeric NOT NULL,
	"customer_id" text NOT NULL,
	"event_name" text NOT NULL,
	"last_error" text,
	CONSTRAINT "stripe_events_org_id_product_id_livemode_hour_revision_pk" PRIMARY KEY("org_id","product_id","livemode","hour","revision"),
	CONSTRAINT "stripe_events_state" CHECK ("stripe_events"."state" in ('waiting', 'sent', 'unknown', 'missing')),
	CONSTRAINT "stripe_events_sent" CHECK (("stripe_events"."state" = 'sent') = ("stripe_events"."sent_at" is not null)),
	CONSTRAINT "stripe_events_quantity" CHECK ("stripe_events"."quantity" <> 0 and "stripe_events"."revision" > 0)
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "audit_chains" ADD CONSTRAINT "audit_chains_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "audit_log" ADD CONSTRAINT "audit_log_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "failed_sign_ins" ADD CONSTRAINT "failed_sign_ins_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "identities" ADD CONSTRAINT "identities_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "kept_forms" ADD CONSTRAINT "kept_forms_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "one_time_links" ADD CONSTRAINT "one_time_links_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "one_time_links" ADD CONSTRAINT "one_time_links_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "operators" ADD CONSTRAINT "operators_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "operators" ADD CONSTRAINT "operators_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "passkeys" ADD CONSTRAINT "passkeys_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "recovery_codes" ADD CONSTRAINT "recovery_codes_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "second_factors" ADD CONSTRAINT "second_factors_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_current_org_id_organizations_id_fk" FOREIGN KEY ("current_org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sign_in_challenges" ADD CONSTRAINT "sign_in_challenges_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_created_by_users_id_fk" FOREIGN KEY ("created_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "invitations" ADD CONSTRAINT "invitations_accepted_by_users_id_fk" FOREIGN KEY ("accepted_by") REFERENCES "public"."users"("id") ON DELETE set null ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "memberships" ADD CONSTRAINT "memberships_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "entitlements" ADD CONSTRAINT "entitlements_org_id_organizations_id_fk" FOREIGN KEY ("org_id") REFERENCES "public"."organizations"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "entitlements" ADD CONSTRAINT "entitlements_product_id_products_id_fk" FOREIGN KEY ("product_id") REFERENCES "public"."products"("id") ON DELETE no action ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "api_key_calls_minute" ON "api_key_calls" USING btree ("minute");--> statement-breakpoint
CREATE INDEX "api_keys_created" ON "api_keys" USING btree ("org_id","created_at");--> statement-breakpoint
CREATE INDEX "api_keys_expiry" ON "api_keys" USING btree ("org_id","expires_at") WHERE "api_keys"."expires_at" is not null and "api_keys"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "api_keys_expiry_anywhere" ON "api_keys" USING btree ("expires_at") WHERE "api_keys"."expires_at" is not null and "api_keys"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "api_keys_watched" ON "api_keys" USING btree ("watched_until") WHERE "api_keys"."watched_until" is not null;--> statement-breakpoint
CREATE INDEX "audit_log_action" ON "audit_log" USING btree ("org_id","action","id");--> statement-breakpoint
CREATE INDEX "audit_log_actor" ON "audit_log" USING btree ("org_id","actor","id");--> statement-breakpoint
CREATE INDEX "operator_log_action" ON "operator_log" USING btree ("action","id");--> statement-breakpoint
CREATE INDEX "failed_sign_ins_hour" ON "failed_sign_ins" USING btree ("hour");--> statement-breakpoint
CREATE UNIQUE INDEX "identities_user" ON "identities" USING btree ("user_id","issuer");--> statement-breakpoint
CREATE INDEX "kept_forms_expiry" ON "kept_forms" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "one_time_links_unused" ON "one_time_links" USING btree ("kind","mailed",coalesce("user_id"::text, "email", '')) WHERE "one_time_links"."used_at" is null;--> statement-breakpoint
CREATE INDEX "one_time_links_user" ON "one_time_links" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "one_time_links_created_by" ON "one_time_links" USING btree ("created_by");--> statement-breakpoint
CREATE INDEX "one_time_links_expiry" ON "one_time_links" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "operators_created_by" ON "operators" USING btree ("created_by");--> statement-breakpoint
CREATE INDEX "passkey_challenges_token" ON "passkey_challenges" USING btree ("hashed_token");--> statement-breakpoint
CREATE INDEX "passkey_challenges_expiry" ON "passkey_challenges" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "passkeys_user" ON "passkeys" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sessions_user" ON "sessions" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sessions_expiry" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "sign_in_challenges_user" ON "sign_in_challenges" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "sign_in_challenges_expiry" ON "sign_in_challenges" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "single_sign_ons_expiry" ON "single_sign_ons" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "mails_due" ON "mails" USING btree ("next_attempt_at") WHERE "mails"."sent_at" is null and "mails"."failed_at" is null;--> statement-breakpoint
CREATE INDEX "mails_to" ON "mails" USING btree ("to_address","kind","created_at");--> statement-breakpoint
CREATE INDEX "mails_end" ON "mails" USING btree (coalesce("sent_at", "failed_at", "created_at"));--> statement-breakpoint
CREATE UNIQUE INDEX "invitations_unclosed" ON "invitations" USING btree ("org_id","email") WHERE "invitations"."accepted_at" is null and "invitations"."revoked_at" is null;--> statement-breakpoint
CREATE INDEX "invitations_created" ON "invitations" USING btree ("org_id","created_at");--> statement-breakpoint
CREATE INDEX "invitations_created_by" ON "invitations" USING btree ("created_by");--> statement-breakpoint
CREATE INDEX "invitations_accepted_by" ON "invitations" USING btree ("accepted_by");--> statement-breakpoint
CREATE INDEX "memberships_user" ON "memberships" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "organizations_stripe" ON "organizations" USING btree ("id") WHERE "organizations"."stripe_customer_id" is not null;--> statement-breakpoint
CREATE INDEX "organizations_slug_prefix" ON "organizations" USING btree ("slug" text_pattern_ops);--> statement-breakpoint
CREATE INDEX "users_email_prefix" ON "users" USING btree ("email" text_pattern_ops);--> statement-breakpoint
CREATE INDEX "webhook_deliveries_waiting" ON "webhook_deliveries" USING btree ("org_id","endpoint_id","next_attempt_at") WHERE "webhook_deliveries"."status" = 'waiting';--> statement-breakpoint
CREATE INDEX "webhook_deliveries_failed" ON "webhook_deliveries" USING btree ("org_id","endpoint_id","message_id") WHERE "webhook_deliveries"."status" = 'failed';--> statement-breakpoint
CREATE INDEX "webhook_messages_created" ON "webhook_messages" USING btree ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "climate_products_first" ON "climate_products" USING btree ("station","kind","date") WHERE "climate_products"."is_first_final";--> statement-breakpoint
CREATE INDEX "climate_products_date" ON "climate_products" USING btree ("date");--> statement-breakpoint
CREATE INDEX "execution_marks_list" ON "execution_marks" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE INDEX "execution_marks_waiting" ON "execution_marks" USING btree ("at") WHERE "execution_marks"."marked_at" is null;--> statement-breakpoint
CREATE INDEX "climate_reports_age" ON "climate_reports" USING btree ("date");--> statement-breakpoint
CREATE INDEX "ensemble_runs_age" ON "ensemble_runs" USING btree ("date");--> statement-breakpoint
CREATE INDEX "forecast_fits_newest" ON "forecast_fits" USING btree ("forecast_source","market_source","trained_at");--> statement-breakpoint
CREATE INDEX "forecast_mixes_newest" ON "forecast_mixes" USING btree ("forecast_source","market_source","trained_at");--> statement-breakpoint
CREATE INDEX "forecast_records_recent" ON "forecast_records" USING btree ("market_source","forecast_source","kind","date");--> statement-breakpoint
CREATE INDEX "observed_hours_age" ON "observed_hours" USING btree ("date");--> statement-breakpoint
CREATE INDEX "same_day_fits_newest" ON "same_day_fits" USING btree ("forecast_source","market_source","trained_at");--> statement-breakpoint
CREATE INDEX "paper_books_old" ON "paper_books" USING btree ("updated_at");--> statement-breakpoint
CREATE INDEX "queue_positions_list" ON "queue_positions" USING btree ("org_id","at");--> statement-breakpoint
CREATE INDEX "queue_positions_old" ON "queue_positions" USING btree ("at");--> statement-breakpoint
CREATE UNIQUE INDEX "trading_fills_venue" ON "trading_fills" USING btree ("org_id","venue_fill_id") WHERE "trading_fills"."venue_fill_id" is not null;--> statement-breakpoint
CREATE INDEX "trading_fills_time" ON "trading_fills" USING btree ("filled_at");--> statement-breakpoint
CREATE INDEX "trading_orders_list" ON "trading_orders" USING btree ("org_id","mode","id");--> statement-breakpoint
CREATE INDEX "trading_orders_status" ON "trading_orders" USING btree ("org_id","mode","status","id");--> statement-breakpoint
CREATE INDEX "trading_orders_series" ON "trading_orders" USING btree ("org_id","mode","series_ticker","id");--> statement-breakpoint
CREATE INDEX "trading_orders_ticker" ON "trading_orders" USING btree ("org_id","mode","ticker","id");--> statement-breakpoint
CREATE INDEX "trading_orders_open" ON "trading_orders" USING btree ("org_id","mode") WHERE "trading_orders"."status" in ('pending', 'resting');--> statement-breakpoint
CREATE INDEX "trading_orders_resting" ON "trading_orders" USING btree ("mode","ticker","org_id") WHERE "trading_orders"."status" = 'resting';--> statement-breakpoint
CREATE INDEX "trading_orders_pending_all" ON "trading_orders" USING btree ("created_at") WHERE "trading_orders"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "ledger_entries_list" ON "ledger_entries" USING btree ("org_id","mode","id");--> statement-breakpoint
CREATE INDEX "ledger_entries_capital" ON "ledger_entries" USING btree ("org_id","mode","at") WHERE "ledger_entries"."capital" <> 0;--> statement-breakpoint
CREATE INDEX "ledger_entries_at" ON "ledger_entries" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_fill" ON "ledger_entries" USING btree ("org_id","order_id","fill_n") WHERE "ledger_entries"."order_id" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_settlement" ON "ledger_entries" USING btree ("org_id","mode","ticker","settlement_n") WHERE "ledger_entries"."settlement_n" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "ledger_entries_transfer" ON "ledger_entries" USING btree ("org_id","transfer_id") WHERE "ledger_entries"."transfer_id" is not null;--> statement-breakpoint
CREATE INDEX "trading_positions_event" ON "trading_positions" USING btree ("org_id","mode","event_ticker");--> statement-breakpoint
CREATE INDEX "trading_positions_open" ON "trading_positions" USING btree ("org_id","mode","ticker") WHERE "trading_positions"."contracts" > 0;--> statement-breakpoint
CREATE INDEX "trading_positions_to_settle" ON "trading_positions" USING btree ("ticker","org_id","mode") WHERE "trading_positions"."contracts" > 0;--> statement-breakpoint
CREATE INDEX "trading_settlements_at" ON "trading_settlements" USING btree ("org_id","mode","at");--> statement-breakpoint
CREATE INDEX "trading_settlements_recent" ON "trading_settlements" USING btree ("at");--> statement-breakpoint
CREATE INDEX "trading_settlements_ticker" ON "trading_settlements" USING btree ("ticker","org_id","mode","n");--> statement-breakpoint
CREATE INDEX "price_history_age" ON "price_history" USING btree ("at");--> statement-breakpoint
CREATE INDEX "usage_backfill_events_mismatch" ON "usage_backfill_events" USING btree ("org_id","backfill_id","idempotency_key") WHERE "usage_backfill_events"."is_mismatch";--> statement-breakpoint
CREATE INDEX "usage_backfills_id" ON "usage_backfills" USING btree ("id");--> statement-breakpoint
CREATE INDEX "usage_backfills_unfinished" ON "usage_backfills" USING btree ("org_id","id") WHERE "usage_backfills"."state" in ('applying', 'reverting', 'discarding');--> statement-breakpoint
CREATE INDEX "credit_entries_at" ON "credit_entries" USING btree ("org_id","livemode","at");--> statement-breakpoint
CREATE INDEX "credit_entries_closing" ON "credit_entries" USING btree ("org_id","livemode","grant_id") WHERE "credit_entries"."kind" in ('expire', 'roll', 'void');--> statement-breakpoint
CREATE INDEX "credit_entries_repaid" ON "credit_entries" USING btree ("org_id","livemode","product_id","at") WHERE "credit_entries"."kind" = 'repay';--> statement-breakpoint
CREATE UNIQUE INDEX "credit_grants_key" ON "credit_grants" USING btree ("org_id","livemode","grant_key");--> statement-breakpoint
CREATE INDEX "entitlements_own_cap" ON "entitlements" USING btree ("org_id","product_id") WHERE "entitlements"."has_own_cap";--> statement-breakpoint
CREATE INDEX "products_stripe" ON "products" USING btree ("id") WHERE "products"."stripe_meter_event" is not null;--> statement-breakpoint
CREATE INDEX "usage_checks_at" ON "usage_checks" USING btree ("at");--> statement-breakpoint
CREATE UNIQUE INDEX "usage_combinations_number" ON "usage_combinations" USING btree ("number","org_id","product_id","livemode","period");--> statement-breakpoint
CREATE UNIQUE INDEX "usage_corrections_event" ON "usage_corrections" USING btree ("org_id","idempotency_key","occurred_at","number");--> statement-breakpoint
CREATE INDEX "usage_corrections_time" ON "usage_corrections" USING btree ("org_id","product_id","livemode","occurred_at");--> statement-breakpoint
CREATE INDEX "usage_events_time" ON "usage_events" USING btree ("org_id","product_id","livemode","occurred_at");--> statement-breakpoint
CREATE UNIQUE INDEX "usage_reservations_key" ON "usage_reservations" USING btree ("idempotency_key","org_id");--> statement-breakpoint
CREATE INDEX "usage_reservations_held" ON "usage_reservations" USING btree ("org_id","product_id","livemode","metric","expires_at","quantity") WHERE settled_at is null and released_at is null;--> statement-breakpoint
CREATE INDEX "usage_reservations_held_subject" ON "usage_reservations" USING btree ("org_id","product_id","livemode","metric","subject","expires_at","quantity") WHERE settled_at is null and released_at is null and subject <> '';--> statement-breakpoint
CREATE INDEX "usage_reservations_held_credits" ON "usage_reservations" USING btree ("org_id","livemode","expires_at","id","product_id","quantity","credit_price") WHERE settled_at is null and released_at is null and credit_price > 0;--> statement-breakpoint
CREATE INDEX "usage_reservations_open" ON "usage_reservations" USING btree ("org_id","livemode","id") WHERE settled_at is null and released_at is null;--> statement-breakpoint
CREATE INDEX "usage_reservations_released" ON "usage_reservations" USING btree ("org_id","livemode","id") WHERE settled_at is null and released_at is not null;--> statement-breakpoint
CREATE INDEX "usage_subjects_slot" ON "usage_subjects" USING btree ("org_id","product_id","livemode","slot");--> statement-breakpoint
CREATE INDEX "usage_totals_period" ON "usage_totals" USING btree ("period") WHERE "usage_totals"."livemode";--> statement-breakpoint
CREATE INDEX "cap_notices_period" ON "cap_notices" USING btree ("period");--> statement-breakpoint
CREATE INDEX "stripe_events_waiting" ON "stripe_events" USING btree ("livemode","next_attempt_at") WHERE "stripe_events"."state" = 'waiting';--> statement-breakpoint
CREATE INDEX "stripe_events_unknown" ON "stripe_events" USING btree ("org_id","hour") WHERE "stripe_events"."state" = 'unknown';--> statement-breakpoint
CREATE INDEX "stripe_events_failed_organization" ON "stripe_events" USING btree ("org_id","planned_at") WHERE "stripe_events"."last_error" is not null;--> statement-breakpoint
CREATE INDEX "stripe_events_failed_product" ON "stripe_events" USING btree ("product_id","planned_at") WHERE "stripe_events"."last_error" is not null;--> statement-breakpoint
-- Sums are updated far more often than inserted. Half-full pages keep the updates on their page, without index writes, and
-- vacuum counts dead rows instead of a share of the table.
alter table usage_totals set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);--> statement-breakpoint
alter table usage_hours set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);--> statement-breakpoint
alter table usage_subjects set (fillfactor = 50);--> statement-breakpoint
alter table credit_accounts set (fillfactor = 40);
