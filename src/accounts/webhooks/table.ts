import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  unique,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { organizations } from '../organizations/table.js';

export const webhookEndpoints = pgTable(
  'webhook_endpoints',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    id: uuid().notNull(),
    url: text().notNull(),
    types: text().array().notNull(),
    livemode: boolean().notNull(),
    isEnabled: boolean('is_enabled').notNull().default(true),
    /** Why the service disabled it; null if a person did. */
    disabledReason: text('disabled_reason', { enum: ['gone', 'failing'] }),
    /** Of the first failure that no success has followed. */
    failingSince: time('failing_since'),
    /** What deliveries are signed with, encrypted with SECRET_KEYS. */
    secret: text().notNull(),
    /** Signs too, until its time is over. */
    previousSecret: text('previous_secret'),
    previousSecretEndsAt: time('previous_secret_ends_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    check('webhook_endpoints_types', sql`cardinality(${t.types}) > 0`),
  ],
);

/** The outbox: written in the transaction of what a message tells of. */
export const webhookMessages = pgTable(
  'webhook_messages',
  {
    orgId: uuid('org_id').notNull(),
    /** The `webhook-id` of every attempt. */
    id: uuid().notNull(),
    type: text().notNull(),
    livemode: boolean().notNull(),
    data: jsonb().notNull(),
    createdAt: time('created_at').notNull(),
    /** What an Organization is told once names it by this. */
    onceKey: text('once_key'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('webhook_messages_once').on(t.orgId, t.onceKey),
    // Serves the deletion of old rows.
    index('webhook_messages_created').on(t.createdAt),
  ],
);

export const deliveryStatuses = ['waiting', 'delivered', 'failed'] as const;

/** A message on its way to one endpoint. */
export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    orgId: uuid('org_id').notNull(),
    endpointId: uuid('endpoint_id').notNull(),
    messageId: uuid('message_id').notNull(),
    status: text({ enum: deliveryStatuses }).notNull().default('waiting'),
    /** While an instance is at it: when another one may. */
    nextAttemptAt: time('next_attempt_at').notNull(),
    /** All that were begun. */
    attempts: integer().notNull().default(0),
    /** Failures since it was written or resent: the place in the schedule of retries. */
    failures: integer().notNull().default(0),
  },
  (t) => [
    // Serves the list of an endpoint's deliveries: ids of messages sort by time.
    primaryKey({ columns: [t.orgId, t.endpointId, t.messageId] }),
    // Serves the deliveries that are due, endpoint by endpoint.
    index('webhook_deliveries_waiting')
      .on(t.orgId, t.endpointId, t.nextAttemptAt)
      .where(sql`${t.status} = 'waiting'`),
    // Serves the list of those that failed, and sending them again.
    index('webhook_deliveries_failed')
      .on(t.orgId, t.endpointId, t.messageId)
      .where(sql`${t.status} = 'failed'`),
  ],
);

export const webhookAttempts = pgTable(
  'webhook_attempts',
  {
    orgId: uuid('org_id').notNull(),
    endpointId: uuid('endpoint_id').notNull(),
    messageId: uuid('message_id').notNull(),
    attempt: integer().notNull(),
    at: time('at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    /** Of the answer; null if there was none. */
    statusCode: integer('status_code'),
    /** Why there was no answer. */
    error: text(),
    /** The first 1 KB of the answer's body. */
    answer: text(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.endpointId, t.messageId, t.attempt] })],
);
