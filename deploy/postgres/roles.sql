-- Creates the roles and the database of a new installation. Run it once as a superuser, with psql:
--   psql -v owner_password=… -v app_password=… -f roles.sql postgres
-- `gauge_owner` owns and migrates the schema. The service connects as `gauge_app`, which owns nothing; each migration
-- grants it access to its tables. Neither role may create roles or databases, or read other databases.
\set ON_ERROR_STOP on
create role gauge_owner login nosuperuser nocreatedb nocreaterole noreplication password :'owner_password';
create role gauge_app login nosuperuser nocreatedb nocreaterole noreplication noinherit password :'app_password';
create database gauge owner gauge_owner;
revoke all on database gauge from public;
grant connect on database gauge to gauge_app;
\connect gauge
alter schema public owner to gauge_owner;
revoke all on schema public from public;
