import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, uniqueIndex } from 'drizzle-orm/pg-core';
import { bytewiseText, time } from '../../core/db/sql.js';

/** Stands for the API key of events that an operator sent. */
export const OPERATOR_KEY_ID = '00000000-0000-0000-0000-000000000000';

/** Every event that was answered with 202, once. The statement checks references: three foreign keys halve the rate. */
export const usageEvents = pgTable(
  'usage_events',
  (c) => ({
    // Fixed-width columns come first, to avoid padding.
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    occurredAt: time('occurred_at').notNull(),
    receivedAt: time('received_at').notNull(),
    livemode: c.boolean().notNull(),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    metric: c.text().notNull(),
    quantity: c.numeric().notNull(),
    /** Empty if the event names no subject. */
    subject: bytewiseText('subject').notNull().default(''),
    /** Encoded by `dimensions.ts`. */
    dimensions: bytewiseText('dimensions').notNull().default(''),
    /** Per unit when the event was recorded; 0 without a price. */
    creditPrice: c.numeric('credit_price').notNull().default('0'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.idempotencyKey] }),
    // With the mode, a few test events are found quickly among millions of live ones.
    index('usage_events_time').on(t.orgId, t.productId, t.livemode, t.occurredAt),
    check('usage_events_quantity', sql`${t.quantity} >= 0`),
  ],
);

/**
 * The event itself stays as sent. Each row repeats the columns that place the event in the sums, so any sum of events
 * can add these differences with the same index.
 */
export const usageCorrections = pgTable(
  'usage_corrections',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    /** Time of the event. Distinguishes events whose key was reused after archiving. */
    occurredAt: time('occurred_at').notNull(),
    correctedAt: time('corrected_at').notNull(),
    livemode: c.boolean().notNull(),
    /** From 1 per event. If two corrections start from the same quantity, the unique index rejects one. */
    number: c.integer().notNull(),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    correctionKey: bytewiseText('correction_key').notNull(),
    metric: c.text().notNull(),
    previousQuantity: c.numeric('previous_quantity').notNull(),
    quantity: c.numeric().notNull(),
    /** As in the audit log: a User's id, `operator` with a name, `api_key:` with an id, or `system`. */
    actor: c.text().notNull(),
    reason: c.text().notNull(),
    /** The event counts under it; empty without a subject. */
    subject: bytewiseText('subject').notNull().default(''),
    /** The event counts under this combination, which may be `OTHER`. */
    dimensions: bytewiseText('dimensions').notNull().default(''),
    /** Per unit. */
    creditPrice: c.numeric('credit_price').notNull().default('0'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.correctionKey] }),
    uniqueIndex('usage_corrections_event').on(t.orgId, t.idempotencyKey, t.occurredAt, t.number),
    index('usage_corrections_time').on(t.orgId, t.productId, t.livemode, t.occurredAt),
    check('usage_corrections_quantity', sql`${t.quantity} >= 0 and ${t.previousQuantity} >= 0`),
  ],
);

/** Per calendar month (UTC). Always equals the sum of its events and their corrections. */
export const usageTotals = pgTable(
  'usage_totals',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    /** First day of the month. */
    period: c.date({ mode: 'string' }).notNull(),
    livemode: c.boolean().notNull(),
    productId: c.uuid('product_id').notNull(),
    metric: c.text().notNull(),
    quantity: c.numeric().notNull(),
    events: c.bigint({ mode: 'number' }).notNull(),
    /** Subtracted by corrections; `quantity + lowered` never decreases. */
    lowered: c.numeric().notNull().default('0'),
    /** While `quantity + lowered` is less, no event reaches a threshold of settings with hash `unreachedTerms`. */
    unreached: c.numeric(),
    unreachedTerms: c.bigint('unreached_terms', { mode: 'bigint' }),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.period, t.livemode, t.productId, t.metric] }),
    // For queries over all Organizations. Events do not change these columns, so updating a total needs no new index
    // entry.
    index('usage_totals_period')
      .on(t.period)
      .where(sql`${t.livemode}`),
  ],
);

/** The sums of `usageTotals` by hour, API key and combination: charts read a few hundred rows, not millions. */
export const usageHours = pgTable(
  'usage_hours',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    livemode: c.boolean().notNull(),
    hour: time('hour').notNull(),
    metric: c.text().notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    quantity: c.numeric().notNull(),
    events: c.bigint({ mode: 'number' }).notNull(),
    /** `OTHER` for combinations beyond the limit. */
    dimensions: bytewiseText('dimensions').notNull().default(''),
  }),
  (t) => [
    primaryKey({
      name: 'usage_hours_pk',
      columns: [t.orgId, t.productId, t.livemode, t.hour, t.metric, t.apiKeyId, t.dimensions],
    }),
  ],
);

/**
 * Rows are never deleted, and an event is recorded only once its combination is listed or the list is full, so an event
 * never moves to another sum.
 */
export const usageCombinations = pgTable(
  'usage_combinations',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    livemode: c.boolean().notNull(),
    /** First day of the month. */
    period: c.date({ mode: 'string' }).notNull(),
    /** From 1 to `MAX_COMBINATIONS`. */
    number: c.integer().notNull(),
    dimensions: bytewiseText('dimensions').notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'usage_combinations_pk',
      columns: [t.orgId, t.productId, t.livemode, t.period, t.dimensions],
    }),
    // The number comes first, so that the planner cannot use this index to find a combination.
    uniqueIndex('usage_combinations_number').on(t.number, t.orgId, t.productId, t.livemode, t.period),
  ],
);

/** The sums of `usageTotals` by subject and five-minute slot. */
export const usageSubjects = pgTable(
  'usage_subjects',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    livemode: c.boolean().notNull(),
    subject: bytewiseText('subject').notNull(),
    /** Start of the five minutes. */
    slot: time('slot').notNull(),
    metric: c.text().notNull(),
    quantity: c.numeric().notNull(),
    events: c.bigint({ mode: 'number' }).notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'usage_subjects_pk',
      columns: [t.orgId, t.productId, t.livemode, t.subject, t.slot, t.metric],
    }),
    // For reading all subjects in a time range.
    index('usage_subjects_slot').on(t.orgId, t.productId, t.livemode, t.slot),
  ],
);

/** Deletion of the events begins only in `deleting`. */
export const archiveStates = ['written', 'verified', 'deleting', 'archived'] as const;

/** A closed month, with its events in a file. */
export const usageArchives = pgTable(
  'usage_archives',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    /** First day of the month. */
    period: c.date({ mode: 'string' }).notNull(),
    livemode: c.boolean().notNull(),
    state: c.text({ enum: archiveStates }).notNull(),
    /** Relative to the archive folder. */
    file: c.text().notNull(),
    /** Hash of the compressed file. */
    sha256: c.text().notNull(),
    events: c.bigint({ mode: 'number' }).notNull(),
    writtenAt: time('written_at').notNull(),
    /** When the month's last event was deleted from the database. */
    archivedAt: time('archived_at'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.period, t.livemode] }),
    check('usage_archives_state', sql`(${t.state} = 'archived') = (${t.archivedAt} is not null)`),
  ],
);

/** A total is the sum of its remaining and deleted events. */
export const usageArchivedTotals = pgTable(
  'usage_archived_totals',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    period: c.date({ mode: 'string' }).notNull(),
    livemode: c.boolean().notNull(),
    productId: c.uuid('product_id').notNull(),
    metric: c.text().notNull(),
    quantity: c.numeric().notNull(),
    events: c.bigint({ mode: 'number' }).notNull(),
    deletedQuantity: c.numeric('deleted_quantity').notNull(),
    deletedEvents: c.bigint('deleted_events', { mode: 'number' }).notNull(),
    /** Quantity × credit price. Corrections are not deleted. */
    deletedCredits: c.numeric('deleted_credits').notNull().default('0'),
  }),
  (t) => [
    primaryKey({
      name: 'usage_archived_totals_pk',
      columns: [t.orgId, t.period, t.livemode, t.productId, t.metric],
    }),
    check(
      'usage_archived_totals_deleted',
      sql`${t.deletedEvents} between 0 and ${t.events} and ${t.deletedQuantity} between 0 and ${t.quantity}`,
    ),
  ],
);
/** Regardless of expiry. */
export const reservationEnds = {
  open: 'settled_at is null and released_at is null',
  released: 'settled_at is null and released_at is not null',
  settled: 'settled_at is not null',
} as const;

/** A hold counts until it is settled, released or past `expiresAt`, so expiry needs no job. */
export const usageReservations = pgTable(
  'usage_reservations',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    productId: c.uuid('product_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    releasedAt: time('released_at'),
    settledAt: time('settled_at'),
    /** From the settlement; null if none was given. */
    settleOccurredAt: time('settle_occurred_at'),
    livemode: c.boolean().notNull(),
    /** Whether a settled reservation's event was new. */
    isCounted: c.boolean('is_counted'),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    metric: c.text().notNull(),
    quantity: c.numeric().notNull(),
    settledQuantity: c.numeric('settled_quantity'),
    /** Empty if the reservation names no subject. */
    subject: bytewiseText('subject').notNull().default(''),
    /** Encoded by `dimensions.ts`. */
    dimensions: bytewiseText('dimensions').notNull().default(''),
    /** Per unit when the reservation was made, also for its settlement; 0 without a price. */
    creditPrice: c.numeric('credit_price').notNull().default('0'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // While the table is small, the planner could use this index to find a reservation by id if the key came last.
    uniqueIndex('usage_reservations_key').on(t.idempotencyKey, t.orgId),
    // An index-only scan of held quantities.
    index('usage_reservations_held')
      .on(t.orgId, t.productId, t.livemode, t.metric, t.expiresAt, t.quantity)
      .where(sql.raw(reservationEnds.open)),
    index('usage_reservations_held_subject')
      .on(t.orgId, t.productId, t.livemode, t.metric, t.subject, t.expiresAt, t.quantity)
      .where(sql.raw(`${reservationEnds.open} and subject <> ''`)),
    // Expired holds sort first and are not read.
    index('usage_reservations_held_credits')
      .on(t.orgId, t.livemode, t.expiresAt, t.id, t.productId, t.quantity, t.creditPrice)
      .where(sql.raw(`${reservationEnds.open} and credit_price > 0`)),
    // Most reservations are settled, so scanning by primary key finds those quickly.
    index('usage_reservations_open').on(t.orgId, t.livemode, t.id).where(sql.raw(reservationEnds.open)),
    index('usage_reservations_released')
      .on(t.orgId, t.livemode, t.id)
      .where(sql.raw(reservationEnds.released)),
    check('usage_reservations_quantity', sql`${t.quantity} >= 0 and ${t.settledQuantity} >= 0`),
  ],
);

/** Checks that wait: inserted with the events while an endpoint listens, deleted when their messages are written. */
export const usageChecks = pgTable(
  'usage_checks',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    productId: c.uuid('product_id').notNull(),
    /** When the events were recorded. */
    at: time('at').notNull(),
    /** All of the events are from one day (UTC). */
    latestAt: time('latest_at').notNull(),
    livemode: c.boolean().notNull(),
    metric: c.text().notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.id] }), index('usage_checks_at').on(t.at)],
);

/** Time of the last message, unless a calendar window already makes it unique. */
export const usageTold = pgTable(
  'usage_told',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    livemode: c.boolean().notNull(),
    metric: c.text().notNull(),
    window: c.text().notNull(),
    quantity: c.numeric().notNull(),
    /** In percent; 0 for a refusal. */
    threshold: c.integer().notNull(),
    at: time('at').notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'usage_told_pk',
      columns: [t.orgId, t.productId, t.livemode, t.metric, t.window, t.quantity, t.threshold],
    }),
  ],
);

/** Counts flushes with holds against a blocking limit. If two decide from the same sums, one is retried. */
export const usageGates = pgTable(
  'usage_gates',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    livemode: c.boolean().notNull(),
    metric: c.text().notNull(),
    seq: c.bigint({ mode: 'number' }).notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.productId, t.livemode, t.metric] })],
);
