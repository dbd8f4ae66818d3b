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
import { formats } from './chat.js';

export const webhookEndpoints = pgTable(
  'webhook_endpoints',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    id: uuid().notNull(),
    format: text({ enum: formats }).notNull().default('standard'),
    /** Shows only the end of a chat URL. */
    url: text().notNull(),
    types: text().array().notNull(),
    livemode: boolean().notNull(),
    isEnabled: boolean('is_enabled').notNull().default(true),
    /** Null unless the service disabled the endpoint. */
    disabledReason: text('disabled_reason', { enum: ['gone', 'failing'] }),
    /** Time of the first failure since the last success. */
    failingSince: time('failing_since'),
    /** A chat's URL, too. Encrypted with SECRET_KEYS. */
    secret: text().notNull(),
    /** Also signs deliveries, until `previousSecretEndsAt`. */
    previousSecret: text('previous_secret'),
    previousSecretEndsAt: time('previous_secret_ends_at'),
    /** A chat gets no post before this time. */
    nextPostAt: time('next_post_at'),
    createdAt: time('created_at').notNull(),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    check('webhook_endpoints_format', sql`${t.format} in ('standard', 'slack', 'discord', 'teams')`),
    check('webhook_endpoints_types', sql`cardinality(${t.types}) > 0`),
  ],
);

/** A message's row is written in the transaction of its change. */
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
    /** An Organization gets only one message with this key. */
    onceKey: text('once_key'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('webhook_messages_once').on(t.orgId, t.onceKey),
    index('webhook_messages_created').on(t.createdAt),
  ],
);

export const deliveryStatuses = ['waiting', 'delivered', 'failed'] as const;

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    orgId: uuid('org_id').notNull(),
    endpointId: uuid('endpoint_id').notNull(),
    messageId: uuid('message_id').notNull(),
    status: text({ enum: deliveryStatuses }).notNull().default('waiting'),
    /** While an instance is sending, the end of its lease. */
    nextAttemptAt: time('next_attempt_at').notNull(),
    /** Includes running attempts. */
    attempts: integer().notNull().default(0),
    /** Since the delivery was created or resent; the index into the retry schedule. */
    failures: integer().notNull().default(0),
  },
  (t) => [
    // Message ids sort by time.
    primaryKey({ columns: [t.orgId, t.endpointId, t.messageId] }),
    // Finds due deliveries, endpoint by endpoint.
    index('webhook_deliveries_waiting')
      .on(t.orgId, t.endpointId, t.nextAttemptAt)
      .where(sql`${t.status} = 'waiting'`),
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
    /** Null if there was no response. */
    statusCode: integer('status_code'),
    /** Why there was no response, or only part of one. */
    error: text(),
    /** First 1 KB of the body. */
    answer: text(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.endpointId, t.messageId, t.attempt] })],
);
