#!/bin/sh
# Runs once, while the image initialises a new volume. Passwords come from the environment so that they never appear in
# process arguments.
# If the file has lost its mode, the image's entrypoint reads it into its own shell, which `exec` would replace.
psql --no-psqlrc --username "$POSTGRES_USER" --dbname postgres <<SQL
\set owner_password \`printenv GAUGE_OWNER_PASSWORD\`
\set app_password \`printenv GAUGE_APP_PASSWORD\`
\i /docker-entrypoint-initdb.d/sql/roles.sql
SQL
