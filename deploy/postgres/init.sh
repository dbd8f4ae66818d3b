#!/bin/sh
# Runs once, while the image fills a new volume. The passwords come from the environment and are in no argument.
set -eu
exec psql --no-psqlrc --username "$POSTGRES_USER" --dbname postgres <<SQL
\set owner_password \`printenv GAUGE_OWNER_PASSWORD\`
\set app_password \`printenv GAUGE_APP_PASSWORD\`
\i /docker-entrypoint-initdb.d/sql/roles.sql
SQL
