import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  index,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uuid,
} from 'drizzle-orm/pg-core';
import { organizations, users } from '../organizations/table.js';

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

export const apiKeys = pgTable(
  'api_keys',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    id: uuid().notNull(),
    name: text().notNull(),
    /** The first 12 characters of the secret, for display. */
    prefix: text().notNull(),
    /** SHA-256 of the secret, hex. The secret itself is never stored. */
    hashedSecret: text('hashed_secret').notNull(),
    scopes: text().array().notNull(),
    livemode: boolean().notNull(),
    lastUsedAt: time('last_used_at'),
    expiresAt: time('expires_at'),
    revokedAt: time('revoked_at'),
    createdAt: time('created_at').notNull(),
    createdBy: uuid('created_by').references(() => users.id),
    rotatedFromId: uuid('rotated_from_id'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    // The hash leads, because a call knows only its secret; org_id completes it, as in every unique constraint.
    unique('api_keys_hashed_secret').on(t.hashedSecret, t.orgId),
    // A key is rotated once: two rotations at the same moment cannot both insert a successor.
    unique('api_keys_rotated_from').on(t.orgId, t.rotatedFromId),
    // Serves the list (newest first) and the count of the last hour's changes.
    index('api_keys_created').on(t.orgId, t.createdAt),
    check('api_keys_scopes', sql`cardinality(${t.scopes}) > 0`),
  ],
);
