import { jsonb, pgTable, primaryKey, text, timestamp, uuid } from 'drizzle-orm/pg-core';
import { organizations } from '../organizations/table.js';

const columns = {
  id: uuid().notNull(),
  at: timestamp({ withTimezone: true, mode: 'date', precision: 6 }).notNull(),
  /** What happened, noun first: `api_key.created`. */
  action: text().notNull(),
  /** Who did it: a User's id, or `operator`, or `system`. */
  actor: text().notNull(),
  /** What it happened to: a resource's id or slug. */
  target: text().notNull(),
  details: jsonb().$type<Record<string, unknown>>().notNull(),
  ip: text(),
  requestId: text('request_id'),
};

/** Changes inside an Organization. Ids are UUIDv7, so the primary key is also the order in time. */
export const auditLog = pgTable(
  'audit_log',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    ...columns,
  },
  (t) => [primaryKey({ columns: [t.orgId, t.id] })],
);

/** Changes that belong to no Organization: products and users, made by the operator. */
export const operatorLog = pgTable('operator_log', { ...columns, id: uuid().primaryKey() });
