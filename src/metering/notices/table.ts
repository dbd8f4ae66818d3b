import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, unique } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Members add these to the levels of each cap that are always reported. */
export const usageAlerts = pgTable(
  'usage_alerts',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    /** Or that of a kind of alert on credits. */
    productId: c.uuid('product_id').notNull(),
    /** Percent of the product's cap, or credits. */
    level: c.integer().notNull(),
    createdAt: time('created_at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('usage_alerts_level').on(t.orgId, t.productId, t.level),
    check('usage_alerts_level_range', sql`${t.level} > 0`),
  ],
);

/** Reported, or skipped because a higher level was reported. A row prevents a second report in the same window. */
export const capNotices = pgTable(
  'cap_notices',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    /** As in an alert. */
    productId: c.uuid('product_id').notNull(),
    /** First day of the month; for credits burned in a day, the day; for credits left, the later one of the month and the newest grant. */
    period: c.date({ mode: 'string' }).notNull(),
    level: c.integer().notNull(),
    at: time('at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.productId, t.period, t.level] }),
    // For deleting old rows.
    index('cap_notices_period').on(t.period),
  ],
);

export const keyNotices = pgTable(
  'key_notices',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    at: time('at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.apiKeyId] })],
);
