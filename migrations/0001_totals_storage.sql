-- The sums are updated far more often than they are inserted: half-full pages keep those updates on their page
-- (heap-only tuples, no index write), and the vacuum looks at dead rows rather than at a share of the table.
alter table usage_totals set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);--> statement-breakpoint
alter table usage_hours set (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000);
