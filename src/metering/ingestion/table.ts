import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  date,
  index,
  integer,
  numeric,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { bytewiseText, time } from '../../core/db/sql.js';

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

/**
 * What events should have been, one row for each time that one was corrected; the event stays as it was sent. Each names the
 * event's own place in the sums, so that whatever adds up events adds these differences by the same index.
 */
export const usageCorrections = pgTable(
  'usage_corrections',
  {
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    apiKeyId: uuid('api_key_id').notNull(),
    /** Of the event. With its key it names the event also where the key was used again after the event was archived. */
    occurredAt: time('occurred_at').notNull(),
    correctedAt: time('corrected_at').notNull(),
    livemode: boolean().notNull(),
    /** 1, 2, 3 … of the event: of two that were decided by the same quantity one is refused. */
    number: integer().notNull(),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    correctionKey: bytewiseText('correction_key').notNull(),
    metric: text().notNull(),
    previousQuantity: numeric('previous_quantity').notNull(),
    quantity: numeric().notNull(),
    /** As in the audit log: a User's id, `operator` with its name, `api_key:` with its id, `system`. */
    actor: text().notNull(),
    reason: text().notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.correctionKey] }),
    uniqueIndex('usage_corrections_event').on(t.orgId, t.idempotencyKey, t.occurredAt, t.number),
    index('usage_corrections_time').on(t.orgId, t.productId, t.livemode, t.occurredAt),
    check('usage_corrections_quantity', sql`${t.quantity} >= 0 and ${t.previousQuantity} >= 0`),
  ],
);

/**
 * The balance: what an Organization used of a product in a calendar month (UTC). Always the sum of its events and of what
 * corrections changed of them.
 */
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
    /** How much corrections have taken off altogether: with it the total never sinks. */
    lowered: numeric().notNull().default('0'),
    /** Below it, with `lowered`, events of this month reach no threshold that was not reached before, on these terms (a hash). */
    unreached: numeric(),
    unreachedTerms: bigint('unreached_terms', { mode: 'bigint' }),
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

/** What the archive of a month goes through; nothing is deleted before `deleting`. */
export const archiveStates = ['written', 'verified', 'deleting', 'archived'] as const;

/** A closed month whose events are in a file: of one Organization and mode. */
export const usageArchives = pgTable(
  'usage_archives',
  {
    orgId: uuid('org_id').notNull(),
    /** First day of the month. */
    period: date({ mode: 'string' }).notNull(),
    livemode: boolean().notNull(),
    state: text({ enum: archiveStates }).notNull(),
    /** Below the folder of archives. */
    file: text().notNull(),
    /** Of the file as it lies there, compressed. */
    sha256: text().notNull(),
    events: bigint({ mode: 'number' }).notNull(),
    writtenAt: time('written_at').notNull(),
    /** When the last of its events was deleted here. */
    archivedAt: time('archived_at'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.period, t.livemode] }),
    check('usage_archives_state', sql`(${t.state} = 'archived') = (${t.archivedAt} is not null)`),
  ],
);

/**
 * What such a file holds of each product and metric, and how much of it has been deleted here. A total is always the sum of
 * its events and of what was deleted.
 */
export const usageArchivedTotals = pgTable(
  'usage_archived_totals',
  {
    orgId: uuid('org_id').notNull(),
    period: date({ mode: 'string' }).notNull(),
    livemode: boolean().notNull(),
    productId: uuid('product_id').notNull(),
    metric: text().notNull(),
    quantity: numeric().notNull(),
    events: bigint({ mode: 'number' }).notNull(),
    deletedQuantity: numeric('deleted_quantity').notNull(),
    deletedEvents: bigint('deleted_events', { mode: 'number' }).notNull(),
  },
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
/** SQL: how a reservation has ended, other than by its time. */
export const reservationEnds = {
  open: 'settled_at is null and released_at is null',
  released: 'settled_at is null and released_at is not null',
  settled: 'settled_at is not null',
} as const;

/**
 * Quantities held for work whose size is known only afterwards. A hold counts against the limits until it is settled or
 * released, or until `expiresAt`, whichever comes first: nothing has to run for the last.
 */
export const usageReservations = pgTable(
  'usage_reservations',
  {
    orgId: uuid('org_id').notNull(),
    id: uuid().notNull(),
    productId: uuid('product_id').notNull(),
    apiKeyId: uuid('api_key_id').notNull(),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    releasedAt: time('released_at'),
    settledAt: time('settled_at'),
    /** As the settlement gave it; null where it gave none. */
    settleOccurredAt: time('settle_occurred_at'),
    livemode: boolean().notNull(),
    /** Of a settled one: whether its event was new. */
    isCounted: boolean('is_counted'),
    idempotencyKey: bytewiseText('idempotency_key').notNull(),
    metric: text().notNull(),
    quantity: numeric().notNull(),
    settledQuantity: numeric('settled_quantity'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    uniqueIndex('usage_reservations_key').on(t.orgId, t.idempotencyKey),
    // The sum of what is held is read from the index alone.
    index('usage_reservations_held')
      .on(t.orgId, t.productId, t.livemode, t.metric, t.expiresAt, t.quantity)
      .where(sql.raw(reservationEnds.open)),
    // Lists of one status: those that are settled are most of all, and found by the primary key.
    index('usage_reservations_open').on(t.orgId, t.livemode, t.id).where(sql.raw(reservationEnds.open)),
    index('usage_reservations_released')
      .on(t.orgId, t.livemode, t.id)
      .where(sql.raw(reservationEnds.released)),
    check('usage_reservations_quantity', sql`${t.quantity} >= 0 and ${t.settledQuantity} >= 0`),
  ],
);

/**
 * Usage that was raised while a webhook listened and whose thresholds have not been evaluated yet: written with the events,
 * taken away with what is told of them.
 */
export const usageChecks = pgTable(
  'usage_checks',
  {
    orgId: uuid('org_id').notNull(),
    id: uuid().notNull(),
    productId: uuid('product_id').notNull(),
    /** When the events were recorded. */
    at: time('at').notNull(),
    /** When the last of them occurred. All are of one day (UTC). */
    latestAt: time('latest_at').notNull(),
    livemode: boolean().notNull(),
    metric: text().notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.id] }), index('usage_checks_at').on(t.at)],
);

/** When was last told of a limit for which no window of the calendar says how often. */
export const usageTold = pgTable(
  'usage_told',
  {
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    livemode: boolean().notNull(),
    metric: text().notNull(),
    /** Of the limit. */
    window: text().notNull(),
    quantity: numeric().notNull(),
    /** In percent; 0 is a refusal. */
    threshold: integer().notNull(),
    at: time('at').notNull(),
  },
  (t) => [
    primaryKey({
      name: 'usage_told_pk',
      columns: [t.orgId, t.productId, t.livemode, t.metric, t.window, t.quantity, t.threshold],
    }),
  ],
);

/** Raised by each flush that holds something against a limit that blocks: of two that decided by the same sums one is repeated. */
export const usageGates = pgTable(
  'usage_gates',
  {
    orgId: uuid('org_id').notNull(),
    productId: uuid('product_id').notNull(),
    livemode: boolean().notNull(),
    metric: text().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.productId, t.livemode, t.metric] })],
);
