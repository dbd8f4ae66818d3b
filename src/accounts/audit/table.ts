import { sql, type SQLWrapper } from 'drizzle-orm';
import { bigint, check, index, jsonb, pgTable, primaryKey, text, unique, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { ofOrganization, organizations } from '../organizations/table.js';

const columns = {
  id: uuid().notNull(),
  at: time('at').notNull(),
  action: text().notNull(),
  actor: text().notNull(),
  target: text().notNull(),
  details: jsonb().$type<Record<string, unknown>>().notNull(),
  ip: text(),
  requestId: text('request_id'),
};

const place = {
  /** Counts from 1 within the chain. */
  seq: bigint({ mode: 'number' }),
  /** SHA-256 of the previous row's hash and this row, hex. */
  hash: text(),
};

/** A literal, with which the planner recognizes the condition of the index. */
export const byOperators = (actor: SQLWrapper) => sql`${actor} like 'operator%'`;

/** Ids follow `at` and `seq`, so the primary key sorts by time. Rows from before the chain lack `seq` and `hash`. */
export const auditLog = pgTable('audit_log', { orgId: ofOrganization(), ...columns, ...place }, (t) => [
  primaryKey({ columns: [t.orgId, t.id] }),
  unique('audit_log_seq').on(t.orgId, t.seq),
  index('audit_log_action').on(t.orgId, t.action, t.id),
  index('audit_log_actor').on(t.orgId, t.actor, t.id),
  index('audit_log_operators').on(t.id).where(byOperators(t.actor)),
  check('audit_log_chained', sql`(${t.seq} is null) = (${t.hash} is null)`),
]);

/** Adding an entry locks this row. */
export const auditChains = pgTable('audit_chains', (c) => ({
  orgId: c
    .uuid('org_id')
    .primaryKey()
    .references(() => organizations.id),
  seq: c.bigint({ mode: 'number' }).notNull(),
  hash: c.text().notNull(),
}));

/** Products, users and people's own accounts. Chained like `audit_log`. */
export const operatorLog = pgTable(
  'operator_log',
  (c) => ({ ...columns, id: c.uuid().primaryKey(), ...place }),
  (t) => [
    unique('operator_log_seq').on(t.seq),
    index('operator_log_action').on(t.action, t.id),
    check('operator_log_chained', sql`(${t.seq} is null) = (${t.hash} is null)`),
  ],
);

export const operatorChain = pgTable(
  'operator_chain',
  (c) => ({
    id: c.boolean().primaryKey().default(true),
    seq: c.bigint({ mode: 'number' }).notNull(),
    hash: c.text().notNull(),
  }),
  (t) => [check('operator_chain_one', sql`${t.id}`)],
);
