CREATE TABLE "failed_sign_ins" (
	"user_id" uuid NOT NULL,
	"hour" timestamp (6) with time zone NOT NULL,
	"passwords" integer DEFAULT 0 NOT NULL,
	"codes" integer DEFAULT 0 NOT NULL,
	CONSTRAINT "failed_sign_ins_user_id_hour_pk" PRIMARY KEY("user_id","hour")
);
--> statement-breakpoint
ALTER TABLE "failed_sign_ins" ADD CONSTRAINT "failed_sign_ins_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "failed_sign_ins_hour" ON "failed_sign_ins" USING btree ("hour");--> statement-breakpoint
CREATE INDEX "invitations_created" ON "invitations" USING btree ("org_id","created_at");--> statement-breakpoint
CREATE INDEX "api_keys_expiry_anywhere" ON "api_keys" USING btree ("expires_at") WHERE "api_keys"."expires_at" is not null and "api_keys"."revoked_at" is null;