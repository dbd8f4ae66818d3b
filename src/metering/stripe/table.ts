import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/**
 * `unknown`: Stripe may have it, and sending it again could count it twice. `missing`: a person found that Stripe does
 * not have it, so its quantity is sent in a later revision.
 */
export const stripeStates = ['waiting', 'sent', 'unknown', 'missing'] as const;

/** One row per meter event. The revisions of an hour that are not `missing` add up to its total when last compared. */
export const stripeEvents = pgTable(
  'stripe_events',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    productId: c.uuid('product_id').notNull(),
    plannedAt: time('planned_at').notNull(),
    hour: time('hour').notNull(),
    nextAttemptAt: time('next_attempt_at').notNull(),
    /** Start of the earliest attempt without a known outcome. */
    unknownSince: time('unknown_since'),
    sentAt: time('sent_at'),
    /** From 1 per hour. If two comparisons start from the same rows, the primary key lets one add a revision. */
    revision: c.integer().notNull(),
    attempts: c.integer().notNull().default(0),
    livemode: c.boolean().notNull(),
    state: c.text({ enum: stripeStates }).notNull().default('waiting'),
    metric: c.text().notNull(),
    /** The hour's total minus the earlier revisions; negative after a correction. */
    quantity: c.numeric().notNull(),
    /** At Stripe, as last sent. */
    customerId: c.text('customer_id').notNull(),
    eventName: c.text('event_name').notNull(),
    lastError: c.text('last_error'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.productId, t.livemode, t.hour, t.revision] }),
    index('stripe_events_waiting')
      .on(t.livemode, t.nextAttemptAt)
      .where(sql`${t.state} = 'waiting'`),
    index('stripe_events_unknown')
      .on(t.orgId, t.hour)
      .where(sql`${t.state} = 'unknown'`),
    index('stripe_events_failed_organization')
      .on(t.orgId, t.plannedAt)
      .where(sql`${t.lastError} is not null`),
    index('stripe_events_failed_product')
      .on(t.productId, t.plannedAt)
      .where(sql`${t.lastError} is not null`),
    check('stripe_events_state', sql`${t.state} in ('waiting', 'sent', 'unknown', 'missing')`),
    check('stripe_events_sent', sql`(${t.state} = 'sent') = (${t.sentAt} is not null)`),
    check('stripe_events_quantity', sql`${t.quantity} <> 0 and ${t.revision} > 0`),
  ],
);
