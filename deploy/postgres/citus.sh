#!/bin/sh
# Runs once on each server of a sharded database, after init.sh. The servers connect to each other with these
# passwords, which come from the environment so that they never appear in process arguments.
# If the file has lost its mode, the image's entrypoint reads it into its own shell, which `exec` would replace.
psql --no-psqlrc --username "$POSTGRES_USER" --dbname gauge <<SQL
\set ON_ERROR_STOP on
\set superuser_password \`printenv POSTGRES_PASSWORD\`
\set owner_password \`printenv GAUGE_OWNER_PASSWORD\`
\set app_password \`printenv GAUGE_APP_PASSWORD\`
create extension citus;
insert into pg_dist_authinfo (nodeid, role, authinfo) values
  (0, 'postgres', 'password=' || :'superuser_password'),
  (0, 'gauge_owner', 'password=' || :'owner_password'),
  (0, 'gauge_app', 'password=' || :'app_password');
SQL
