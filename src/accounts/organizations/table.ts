import { sql } from 'drizzle-orm';
import {
  check,
  index,
  pgTable,
  primaryKey,
  unique,
  uniqueIndex,
  uuid,
  type AnyPgColumn,
} from 'drizzle-orm/pg-core';
import { textArray, time } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';

/** With `read`, an Organization may close positions but not open them. */
export const marketAccesses = ['none', 'read', 'trade'] as const;
export type MarketAccess = (typeof marketAccesses)[number];

const isOneOf = (column: AnyPgColumn, values: readonly string[]) =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;

export const organizations = pgTable(
  'organizations',
  (c) => ({
    id: c.uuid().primaryKey(),
    slug: c.text().notNull().unique(),
    name: c.text().notNull(),
    /** Members without a second factor can neither see nor change the Organization. */
    requireSecondFactor: c.boolean('require_second_factor').notNull().default(false),
    /** Sessions that began without single sign-on can neither see nor change the Organization. */
    requireSingleSignOn: c.boolean('require_single_sign_on').notNull().default(false),
    createdAt: time('created_at').notNull(),
    /** While set, API keys and pages are blocked. Copied to the API keys, which saves a read per call. */
    archivedAt: time('archived_at'),
    marketAccess: c.text('market_access', { enum: marketAccesses }).notNull().default('trade'),
    /** Usage that the Organization is billed for. */
    mayCorrect: c.boolean('may_correct').notNull().default(false),
    /** Null if no usage is sent to Stripe. */
    stripeCustomerId: c.text('stripe_customer_id'),
    /** First hour whose usage is sent to Stripe. */
    stripeSince: time('stripe_since'),
    /** In percent of the amounts granted by open credit grants; null for the default. */
    creditThresholds: c.integer('credit_thresholds').array(),
  }),
  (t) => [
    // Finds usage to compare with what Stripe received.
    index('organizations_stripe')
      .on(t.id)
      .where(sql`${t.stripeCustomerId} is not null`),
    // Several Organizations may share a Stripe customer.
    index('organizations_stripe_customer')
      .on(t.stripeCustomerId)
      .where(sql`${t.stripeCustomerId} is not null`),
    check('organizations_stripe_since', sql`(${t.stripeCustomerId} is null) = (${t.stripeSince} is null)`),
    check('organizations_market_access', isOneOf(t.marketAccess, marketAccesses)),
    index('organizations_name').on(sql`lower(${t.name}) collate "C"`, t.slug),
    // For prefix searches in any collation.
    index('organizations_slug_prefix').on(t.slug.op('text_pattern_ops')),
  ],
);

export const ofOrganization = () =>
  uuid('org_id')
    .notNull()
    .references(() => organizations.id);

export const users = pgTable(
  'users',
  (c) => ({
    id: c.uuid().primaryKey(),
    /** Trimmed and lower-cased. */
    email: c.text().notNull().unique(),
    name: c.text().notNull(),
    passwordHash: c.text('password_hash').notNull(),
    createdAt: time('created_at').notNull(),
    /** When a mailed link, the issuer or an operator first proved the address; null if nobody has. */
    provenAt: time('proven_at'),
  }),
  (t) => [index('users_email_prefix').on(t.email.op('text_pattern_ops'))],
);

export const roles = ['owner', 'admin', 'member', 'billing'] as const;
export type Role = (typeof roles)[number];

/** May change API keys, members and invitations, place orders and read the audit log. */
export const managingRoles = ['owner', 'admin'] as const satisfies Role[];

/** May set alerts, and receive e-mails about usage. */
export const alertRoles = [...managingRoles, 'billing'] as const satisfies Role[];

export const maySetAlerts = (role: Role): boolean => (alertRoles as readonly Role[]).includes(role);

export const isManager = (role: Role): boolean => (managingRoles as readonly Role[]).includes(role);

const isRole = (column: AnyPgColumn) => isOneOf(column, roles);

export const memberships = pgTable(
  'memberships',
  (c) => ({
    orgId: ofOrganization(),
    userId: c
      .uuid('user_id')
      .notNull()
      .references(() => users.id),
    role: c.text({ enum: roles }).notNull(),
    createdAt: time('created_at').notNull(),
    /** About caps, alerts and expiring keys. Has no effect for members. */
    mailNotices: c.boolean('mail_notices').notNull().default(true),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.userId] }),
    index('memberships_user').on(t.userId),
    check('memberships_role', isRole(t.role)),
  ],
);

export const invitations = pgTable(
  'invitations',
  (c) => ({
    orgId: ofOrganization(),
    id: c.uuid().notNull(),
    /** SHA-256, hex. */
    hashedToken: c.text('hashed_token').notNull(),
    /** Trimmed and lower-cased. A new account gets this address. */
    email: c.text().notNull(),
    role: c.text({ enum: roles }).notNull(),
    createdBy: c.uuid('created_by').references(() => users.id, { onDelete: 'set null' }),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    acceptedAt: time('accepted_at'),
    acceptedBy: c.uuid('accepted_by').references(() => users.id, { onDelete: 'set null' }),
    revokedAt: time('revoked_at'),
    /** Only an e-mail to the invited address had the link. */
    mailed: c.boolean().notNull().default(false),
  }),
  (t) => [
    primaryKey({ columns: [t.orgId, t.id] }),
    unique('invitations_hashed_token').on(t.orgId, t.hashedToken),
    // A new invitation closes the address's open one. Also serves the list of open invitations.
    uniqueIndex('invitations_unclosed')
      .on(t.orgId, t.email)
      .where(sql`${t.acceptedAt} is null and ${t.revokedAt} is null`),
    index('invitations_created').on(t.orgId, t.createdAt),
    index('invitations_created_by').on(t.createdBy),
    index('invitations_accepted_by').on(t.acceptedBy),
    check('invitations_role', isRole(t.role)),
  ],
);

/** In order of id. A sharded database keeps an Organization's row on every server. */
export const lockOrganizationIds = (tx: Orm, orgIds: readonly string[]): Promise<unknown> =>
  tx.execute(
    sql`select pg_advisory_xact_lock(hashtextextended(id, 0)) from unnest(${textArray(orgIds.toSorted())}::text[]) as id`,
  );

export const lockOrganizationId = (tx: Orm, orgId: string): Promise<unknown> =>
  lockOrganizationIds(tx, [orgId]);
