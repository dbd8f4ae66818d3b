import { sql } from 'drizzle-orm';
import { boolean, check, index, pgTable, primaryKey, text, unique, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import { ofOrganization, users } from '../organizations/table.js';

/** API keys and service keys have these columns. */
export const keyColumns = () => ({
  name: text().notNull(),
  /** First characters of the secret. */
  prefix: text().notNull(),
  /** SHA-256, hex. The secret itself is never stored. */
  hashedSecret: text('hashed_secret').notNull(),
  scopes: text().array().notNull(),
  livemode: boolean().notNull(),
  lastUsedAt: time('last_used_at'),
  expiresAt: time('expires_at'),
  revokedAt: time('revoked_at'),
  createdAt: time('created_at').notNull(),
  rotatedFromId: uuid('rotated_from_id'),
});

export const apiKeys = pgTable(
  'api_keys',
  (c) => ({
    orgId: ofOrganization(),
    id: c.uuid().notNull(),
    ...keyColumns(),
    createdBy: c.uuid('created_by').references(() => users.id),
    /** Set if the row stands for a service key that acts for this Organization. Its hash is from `hashFor`. */
    serviceKeyId: c.uuid('service_key_id'),
    /** Copied from the Organization to save a read per call. */
    archivedAt: time('archived_at'),
    /** Until this time, every instance writes its call counts more often. */
    watchedUntil: time('watched_until'),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // An API call presents only its secret, so the hash comes first. Every unique constraint includes org_id, the
    // distribution column.
    unique('api_keys_hashed_secret').on(t.hashedSecret, t.orgId),
    // One of two concurrent rotations fails to insert its successor.
    unique('api_keys_rotated_from').on(t.orgId, t.rotatedFromId),
    index('api_keys_prefix').on(t.prefix.op('text_pattern_ops')),
    index('api_keys_created').on(t.orgId, t.createdAt),
    index('api_keys_expiry')
      .on(t.orgId, t.expiresAt)
      .where(sql`${t.expiresAt} is not null and ${t.revokedAt} is null`),
    index('api_keys_expiry_anywhere')
      .on(t.expiresAt)
      .where(sql`${t.expiresAt} is not null and ${t.revokedAt} is null`),
    index('api_keys_watched')
      .on(t.watchedUntil)
      .where(sql`${t.watchedUntil} is not null`),
    index('api_keys_service_key')
      .on(t.serviceKeyId)
      .where(sql`${t.serviceKeyId} is not null`),
    check('api_keys_scopes', sql`cardinality(${t.scopes}) > 0`),
  ],
);

/** Deleted after eight days. A crash loses up to half a minute of call counts, but no usage events. */
export const apiKeyCalls = pgTable(
  'api_key_calls',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    minute: time('minute').notNull(),
    calls: c.bigint({ mode: 'number' }).notNull(),
    /** Refused because the key was revoked or had expired. */
    ended: c.bigint({ mode: 'number' }).notNull().default(0),
    /** Refused because the key lacked the scope. */
    unscoped: c.bigint({ mode: 'number' }).notNull().default(0),
    /** Refused because the key exceeded its calls per minute. */
    limited: c.bigint({ mode: 'number' }).notNull().default(0),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.apiKeyId, t.minute] }),
    index('api_key_calls_minute').on(t.minute),
  ],
);

export const apiKeyScopeUse = pgTable(
  'api_key_scope_use',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    apiKeyId: c.uuid('api_key_id').notNull(),
    scope: c.text().notNull(),
    calls: c.bigint({ mode: 'number' }).notNull(),
    lastUsedAt: time('last_used_at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.apiKeyId, t.scope] })],
);

/** Recognizes a retried write. Deleted after a day. */
export const apiKeyUseReceipts = pgTable(
  'api_key_use_receipts',
  (c) => ({
    orgId: c.uuid('org_id').notNull(),
    id: c.uuid().notNull(),
    at: time('at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.orgId, t.id] })],
);

/** Finds a key's shard. Has no foreign key, because this table is not distributed. */
export const apiKeyDirectory = pgTable('api_key_directory', (c) => ({
  hashedSecret: c.text('hashed_secret').primaryKey(),
  orgId: c.uuid('org_id').notNull(),
}));
