import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  index,
  pgTable,
  primaryKey,
  text,
  unique,
  uniqueIndex,
  uuid,
  type AnyPgColumn,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';

/** What an Organization may do with markets: `read` looks at them and closes what is held, and opens nothing. */
export const marketAccesses = ['none', 'read', 'trade'] as const;
export type MarketAccess = (typeof marketAccesses)[number];

const isOneOf = (column: AnyPgColumn, values: readonly string[]) =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;

export const organizations = pgTable(
  'organizations',
  {
    id: uuid().primaryKey(),
    slug: text().notNull().unique(),
    name: text().notNull(),
    /** Members without a second factor see nothing of the Organization and change nothing in it. */
    requireSecondFactor: boolean('require_second_factor').notNull().default(false),
    createdAt: time('created_at').notNull(),
    /** Since when its keys and its pages are closed. Copied to its API keys, so that a call reads no further row. */
    archivedAt: time('archived_at'),
    marketAccess: text('market_access', { enum: marketAccesses }).notNull().default('trade'),
  },
  (t) => [
    check('organizations_market_access', isOneOf(t.marketAccess, marketAccesses)),
    // Serve the search by how a slug or a name begins, whatever the database's collation.
    index('organizations_slug_prefix').on(t.slug.op('text_pattern_ops')),
    index('organizations_name_prefix').on(sql`lower(${t.name}) text_pattern_ops`),
  ],
);

export const users = pgTable(
  'users',
  {
    id: uuid().primaryKey(),
    /** Trimmed and lower-cased before it is stored or compared. */
    email: text().notNull().unique(),
    name: text().notNull(),
    passwordHash: text('password_hash').notNull(),
    createdAt: time('created_at').notNull(),
  },
  (t) => [index('users_email_prefix').on(t.email.op('text_pattern_ops'))],
);

export const roles = ['owner', 'admin', 'member', 'billing'] as const;
export type Role = (typeof roles)[number];

/** Roles that change API keys, members and invitations, place orders and read the audit log. */
export const managingRoles = ['owner', 'admin'] as const satisfies Role[];

export const isManager = (role: Role): boolean => (managingRoles as readonly Role[]).includes(role);

const isRole = (column: AnyPgColumn) => isOneOf(column, roles);

export const memberships = pgTable(
  'memberships',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id),
    role: text({ enum: roles }).notNull(),
    createdAt: time('created_at').notNull(),
    /** Whether mail tells of caps and expiring keys; of no effect without a managing role. */
    mailNotices: boolean('mail_notices').notNull().default(true),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.userId] }),
    index('memberships_user').on(t.userId),
    check('memberships_role', isRole(t.role)),
  ],
);

/** A link that makes one person a member, once. */
export const invitations = pgTable(
  'invitations',
  {
    orgId: uuid('org_id')
      .notNull()
      .references(() => organizations.id),
    id: uuid().notNull(),
    /** SHA-256 of the link's secret, hex. */
    hashedToken: text('hashed_token').notNull(),
    /** Whom it is for; a new account gets this address. Trimmed and lower-cased. */
    email: text().notNull(),
    role: text({ enum: roles }).notNull(),
    createdBy: uuid('created_by').references(() => users.id, { onDelete: 'set null' }),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    acceptedAt: time('accepted_at'),
    acceptedBy: uuid('accepted_by').references(() => users.id, { onDelete: 'set null' }),
    revokedAt: time('revoked_at'),
  },
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('invitations_hashed_token').on(t.orgId, t.hashedToken),
    // One link for an address: a new one closes the one before. Serves the list of open ones as well.
    uniqueIndex('invitations_unclosed')
      .on(t.orgId, t.email)
      .where(sql`${t.acceptedAt} is null and ${t.revokedAt} is null`),
    // Serves the count of the last hour's.
    index('invitations_created').on(t.orgId, t.createdAt),
    index('invitations_created_by').on(t.createdBy),
    index('invitations_accepted_by').on(t.acceptedBy),
    check('invitations_role', isRole(t.role)),
  ],
);

/**
 * Makes the changes of an Organization wait for each other until the transaction ends. A lock of its own, not of the
 * Organization's row: that row is on every server of a sharded database, and locking it there would need all of them.
 */
export const lockOrganizationId = (tx: Orm, orgId: string): Promise<unknown> =>
  tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${orgId}, 0))`);
