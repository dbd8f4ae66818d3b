import { sql } from 'drizzle-orm';
import { bigint, boolean, date, index, numeric, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core';
import { bytewiseText, time } from '../../core/db/sql.js';

/** What a backfill goes through; the ones ending in `-ing` go on by themselves. */
export const backfillStates = [
  'open',
  'applying',
  'applied',
  'reverting',
  'reverted',
  'discarding',
  'discarded',
] as const;
export type BackfillState = (typeof backfillStates)[number];

const count = (name?: string) =>
  (name === undefined ? bigint({ mode: 'number' }) : bigint(name, { mode: 'number' })).notNull().default(0);

/** Events of long ago that the operator adds: staged, looked at, and then counted. */
export const usageBackfills = pgTable(
  'usage_backfills',
  {
    orgId: uuid('org_id').notNull(),
    /** Stands in its events where others have their API key. */
    id: uuid().notNull(),
    fromTime: time('from_time').notNull(),
    toTime: time('to_time').notNull(),
    createdAt: time('created_at').notNull(),
    changedAt: time('changed_at').notNull(),
    livemode: boolean().notNull(),
    state: text({ enum: backfillStates }).notNull(),
    reason: text().notNull(),
    /** Of the last step, as in the audit log. */
    actor: text().notNull(),
    /** The present step is done with the keys up to this one, and with so many. */
    cursor: bytewiseText('cursor').notNull().default(''),
    done: count(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // Serves those who know the id alone.
    index('usage_backfills_id').on(t.id),
    index('usage_backfills_unfinished')
      .on(t.orgId, t.id)
      .where(sql`${t.state} in ('applying', 'reverting', 'discarding')`),
  ],
);

export const usageBackfillEvents = pgTable(
  'usage_backfill_events',
  {
    orgId: uuid('org_id').notNull(),
    backfillId: uuid('backfill_id').notNull(),
    productId: uuid('product_id').notNull(),
    occurredAt: time('occurred_at').notNull(),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    metric: text().notNull(),
    quantity: numeric().notNull(),
    /** The key was recorded for another event when this one was staged. */
    isMismatch: boolean('is_mismatch').notNull(),
  },
  (t) => [
    primaryKey({
      name: 'usage_backfill_events_pk',
      columns: [t.orgId, t.backfillId, t.idempotencyKey],
    }),
    index('usage_backfill_events_mismatch')
      .on(t.orgId, t.backfillId, t.idempotencyKey)
      .where(sql`${t.isMismatch}`),
  ],
);

/** What is staged and what became of it, so that a look at a million events reads a few rows. */
export const usageBackfillSums = pgTable(
  'usage_backfill_sums',
  {
    orgId: uuid('org_id').notNull(),
    backfillId: uuid('backfill_id').notNull(),
    /** First day of the month. */
    period: date({ mode: 'string' }).notNull(),
    productId: uuid('product_id').notNull(),
    metric: text().notNull(),
    /** Staged. */
    events: count(),
    quantity: numeric().notNull().default('0'),
    /** Of these, what was recorded already when it was staged, and what of that was another event. */
    repeats: count(),
    mismatches: count(),
    /** Counted when it was applied; what was not was a repeat, or its month was archived. */
    countedEvents: count('counted_events'),
    countedQuantity: numeric('counted_quantity').notNull().default('0'),
    archivedEvents: count('archived_events'),
    revertedEvents: count('reverted_events'),
  },
  (t) => [
    primaryKey({
      name: 'usage_backfill_sums_pk',
      columns: [t.orgId, t.backfillId, t.period, t.productId, t.metric],
    }),
  ],
);
