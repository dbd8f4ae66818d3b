CREATE TABLE "schema_requirement" (
	"migration" integer NOT NULL
);
--> statement-breakpoint
INSERT INTO "schema_requirement" ("migration") VALUES (50);
