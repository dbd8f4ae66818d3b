import { sql } from 'drizzle-orm';
import { check, date, index, integer, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Percent of a cap, once a month each. */
export const capLevels = [80, 100] as const;

/** Emailed, or skipped because a higher level was emailed. */
export const capNotices = pgTable(
  'cap_notices',
  {
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    /** First day of the month. */
    period: date({ mode: 'string' }).notNull(),
    level: integer().notNull(),
    at: time('at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.productId, t.period, t.level] }),
    // For deleting old rows.
    index('cap_notices_period').on(t.period),
    check('cap_notices_level', sql`${t.level} in (${sql.raw(capLevels.join(', '))})`),
  ],
);

export const keyNotices = pgTable(
  'key_notices',
  {
    orgId: uuid('org_id').notNull(),
    apiKeyId: uuid('api_key_id').notNull(),
    at: time('at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.apiKeyId] })],
);
