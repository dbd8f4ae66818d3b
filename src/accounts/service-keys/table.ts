import { boolean, pgTable, text, unique, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';

/** Belongs to the service, not to an Organization. For each Organization that it is used for, it has a row in `api_keys`. */
export const serviceKeys = pgTable(
  'service_keys',
  {
    id: uuid().primaryKey(),
    name: text().notNull(),
    /** First 16 characters of the secret. */
    prefix: text().notNull(),
    /** SHA-256, hex. The secret itself is never stored. */
    hashedSecret: text('hashed_secret').notNull(),
    scopes: text().array().notNull(),
    livemode: boolean().notNull(),
    /** The last call that named no Organization in its address. */
    lastUsedAt: time('last_used_at'),
    expiresAt: time('expires_at'),
    revokedAt: time('revoked_at'),
    createdAt: time('created_at').notNull(),
    rotatedFromId: uuid('rotated_from_id'),
  },
  (t) => [
    unique('service_keys_hashed_secret').on(t.hashedSecret),
    // One of two concurrent rotations fails to insert its successor.
    unique('service_keys_rotated_from').on(t.rotatedFromId),
  ],
);
