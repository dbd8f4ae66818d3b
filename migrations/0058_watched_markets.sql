CREATE TABLE "watched_markets" (
	"org_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"city" text NOT NULL,
	CONSTRAINT "watched_markets_org_id_user_id_city_pk" PRIMARY KEY("org_id","user_id","city")
);
