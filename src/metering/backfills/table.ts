import { sql } from 'drizzle-orm';
import { bigint, boolean, date, index, numeric, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core';
import { bytewiseText, time } from '../../core/db/sql.js';

/** States of a backfill; the runner advances those ending in `-ing`. */
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

/** Past usage that the operator adds: staged, reviewed, then counted. */
export const usageBackfills = pgTable(
  'usage_backfills',
  {
    orgId: uuid('org_id').notNull(),
    /** Also stored as the API key id of the events that the backfill records. */
    id: uuid().notNull(),
    fromTime: time('from_time').notNull(),
    toTime: time('to_time').notNull(),
    createdAt: time('created_at').notNull(),
    changedAt: time('changed_at').notNull(),
    livemode: boolean().notNull(),
    state: text({ enum: backfillStates }).notNull(),
    reason: text().notNull(),
    /** Actor of the last step, as in the audit log. */
    actor: text().notNull(),
    /** The last key that the current step has processed; `done` counts the events processed. */
    cursor: bytewiseText('cursor').notNull().default(''),
    done: count(),
    burnsCredits: boolean('burns_credits').notNull().default(true),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
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
    /** True if the key had already been recorded for a different event when this event was staged. */
    isMismatch: boolean('is_mismatch').notNull(),
    /** Empty if the event names no subject. */
    subject: bytewiseText('subject').notNull().default(''),
    /** Encoded by `dimensions.ts`. */
    dimensions: bytewiseText('dimensions').notNull().default(''),
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

/**
 * Sums of the staged events and of their outcome, so that showing a backfill of a million events reads only a few rows.
 */
export const usageBackfillSums = pgTable(
  'usage_backfill_sums',
  {
    orgId: uuid('org_id').notNull(),
    backfillId: uuid('backfill_id').notNull(),
    /** First day of the month. */
    period: date({ mode: 'string' }).notNull(),
    productId: uuid('product_id').notNull(),
    metric: text().notNull(),
    events: count(),
    quantity: numeric().notNull().default('0'),
    /** Staged events whose key was already recorded, and how many of those differ from the recorded event. */
    repeats: count(),
    mismatches: count(),
    /** Events counted when the backfill was applied. The rest were repeats or in archived months. */
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
