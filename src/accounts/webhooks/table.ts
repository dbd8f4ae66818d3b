import { sql } from 'drizzle-orm';
import { check, index, pgTable, primaryKey, unique } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { ofOrganization } from '../organizations/table.js';
import { formats } from './chat.js';

export const webhookEndpoints = pgTable(
  'webhook_endpoints',
  (c) => ({
    orgId: ofOrganization(),
    id: c.uuid().notNull(),
    format: c.text({ enum: formats }).notNull().default('standard'),
    /** Shows only the end of a chat URL. */
    url: c.text().notNull(),
    types: c.text().array().notNull(),
    livemode: c.boolean().notNull(),
    isEnabled: c.boolean('is_enabled').notNull().default(true),
    /** Null unless the service disabled the endpoint. */
    disabledReason: c.text('disabled_reason', { enum: ['gone', 'failing'] }),
    /** Time of the first failure since the last success. */
    failingSince: time('failing_since'),
    /** A chat's URL, too. Encrypted with SECRET_KEYS. */
    secret: c.text().notNull(),
    /** Also signs deliveries, until `previousSecretEndsAt`. */
    previousSecret: c.text('previous_secret'),
    previousSecretEndsAt: time('previous_secret_ends_at'),
    /** A chat gets no post before this time. */
    nextPostAt: time('next_post_at'),
    createdAt: time('created_at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    check('webhook_endpoints_format', sql`${t.format} in ('standard', 'slack', 'discord', 'teams')`),
    check('webhook_endpoints_types', sql`cardinality(${t.types}) > 0`),
  ],
);

/** A message's row is written in the transaction of its change. */
export const webhookMessages = pgTable(
  'webhook_messages',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    /** The `webhook-id` of every attempt. */
    id: c.uuid().notNull(),
    type: c.text().notNull(),
    livemode: c.boolean().notNull(),
    data: c.jsonb().notNull(),
    createdAt: time('created_at').notNull(),
    /** An Organization gets only one message with this key. */
    onceKey: c.text('once_key'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('webhook_messages_once').on(t.orgId, t.onceKey),
    index('webhook_messages_created').on(t.createdAt),
  ],
);

export const deliveryStatuses = ['waiting', 'delivered', 'failed'] as const;

export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    endpointId: c.uuid('endpoint_id').notNull(),
    messageId: c.uuid('message_id').notNull(),
    status: c.text({ enum: deliveryStatuses }).notNull().default('waiting'),
    /** While an instance is sending, the end of its lease. */
    nextAttemptAt: time('next_attempt_at').notNull(),
    /** Includes running attempts. */
    attempts: c.integer().notNull().default(0),
    /** Since the delivery was created or resent; the index into the retry schedule. */
    failures: c.integer().notNull().default(0),
  }),
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
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    endpointId: c.uuid('endpoint_id').notNull(),
    messageId: c.uuid('message_id').notNull(),
    attempt: c.integer().notNull(),
    at: time('at').notNull(),
    durationMs: c.integer('duration_ms').notNull(),
    /** Null if there was no response. */
    statusCode: c.integer('status_code'),
    /** Why there was no response, or only part of one. */
    error: c.text(),
    /** First 1 KB of the body. */
    answer: c.text(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.endpointId, t.messageId, t.attempt] })],
);
