import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  date,
  index,
  numeric,
  pgTable,
  primaryKey,
  text,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../core/db/columns.js';

/** Text that compares byte by byte: cheaper than a language's rules, and the same on every server. */
const bytewiseText = customType<{ data: string }>({ dataType: () => 'text collate "C"' });

/**
 * Every event that got a 202, once. No foreign keys: the ingestion statement checks each reference itself, and
 * three of them would halve the rate.
 */
export const usageEvents = pgTable(
  'usage_events',
  {
    // Fixed-width columns first, so that no row carries padding.
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    apiKeyId: uuid('api_key_id').notNull(),
    occurredAt: time('occurred_at').notNull(),
    receivedAt: time('received_at').notNull(),
    livemode: boolean().notNull(),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    metric: text().notNull(),
    quantity: numeric().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.idempotencyKey] }),
    // The list of events by time and product, and the streaming export. With the mode, so that a few test events are
    // found at once among millions of live ones.
    index('usage_events_time').on(t.orgId, t.productId, t.livemode, t.occurredAt),
    check('usage_events_quantity', sql`${t.quantity} >= 0`),
  ],
);

/** The balance: what an Organization used of a product in a calendar month (UTC). Always the sum of its events. */
export const usageTotals = pgTable(
  'usage_totals',
  {
    orgId: uuid('org_id').notNull(),
    /** First day of the month. */
    period: date({ mode: 'string' }).notNull(),
    livemode: boolean().notNull(),
    productId: uuid('product_id').notNull(),
    metric: text().notNull(),
    quantity: numeric().notNull(),
    events: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.period, t.livemode, t.productId, t.metric] }),
    // Serves what is asked of all Organizations. Of columns that no event changes: a raised total stays in its page.
    index('usage_totals_period')
      .on(t.period)
      .where(sql`${t.livemode}`),
  ],
);

/** The same sums by hour and API key, so that a chart over millions of events reads a few hundred rows. */
export const usageHours = pgTable(
  'usage_hours',
  {
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    livemode: boolean().notNull(),
    hour: time('hour').notNull(),
    metric: text().notNull(),
    apiKeyId: uuid('api_key_id').notNull(),
    quantity: numeric().notNull(),
    events: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.productId, t.livemode, t.hour, t.metric, t.apiKeyId] })],
);
