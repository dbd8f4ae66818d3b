import { sql } from 'drizzle-orm';
import { check, customType, index, pgTable, primaryKey, uniqueIndex, uuid } from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import type { FormFields } from '../../core/pages/form.js';
import { organizations, users, type Role } from '../organizations/table.js';

/** By slug; null if the claim gives no role there. */
export type ClaimedRoles = Record<string, Role | null>;

const ofUser = () =>
  uuid('user_id')
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' });

/** The cookie holds only an opaque token. Deleting the row ends the session at the next request. */
export const sessions = pgTable(
  'sessions',
  (c) => ({
    hashedToken: c.text('hashed_token').primaryKey(),
    /** Grants no access. */
    id: c
      .uuid()
      .notNull()
      .default(sql`gen_random_uuid()`),
    userId: ofUser(),
    /** Not called org_id, because sessions belong to a person, not to a tenant. */
    currentOrgId: c.uuid('current_org_id').references(() => organizations.id),
    createdAt: time('created_at').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    /** Null for sessions from earlier versions. */
    confirmedAt: time('confirmed_at'),
    singleSignOnAt: time('single_sign_on_at'),
    /** The issuer was down, so an owner needs no single sign-on until this time. */
    singleSignOnWaivedUntil: time('single_sign_on_waived_until'),
    ip: c.text().notNull(),
    userAgent: c.text('user_agent').notNull(),
  }),
  (t) => [index('sessions_user').on(t.userId), index('sessions_expiry').on(t.expiresAt)],
);

/** No session query can return a half-finished sign-in. */
export const signInChallenges = pgTable(
  'sign_in_challenges',
  (c) => ({
    hashedToken: c.text('hashed_token').primaryKey(),
    userId: ofUser(),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    attempts: c.integer().notNull(),
    singleSignOn: c.boolean('single_sign_on').notNull().default(false),
    /** False if the issuer remembered an earlier sign-in. */
    confirmed: c.boolean().notNull().default(false),
    /** Granted with the session; null if the issuer's claim changes none. */
    roles: c.json().$type<ClaimedRoles>(),
    /** The person's previous session in this browser showed it. */
    currentOrgId: c.uuid('current_org_id'),
  }),
  (t) => [index('sign_in_challenges_user').on(t.userId), index('sign_in_challenges_expiry').on(t.expiresAt)],
);

/** Stored while its author signs in or confirms their identity. One per person. */
export const keptForms = pgTable(
  'kept_forms',
  (c) => ({
    userId: ofUser().primaryKey(),
    /** Sent to the browser that submitted the form. */
    hashedToken: c.text('hashed_token').notNull(),
    page: c.text().notNull(),
    /** Sealed JSON, because the fields may contain secrets. Not sealed in rows from earlier versions. */
    values: c.json().$type<FormFields | string>().notNull(),
    expiresAt: time('expires_at').notNull(),
  }),
  (t) => [index('kept_forms_expiry').on(t.expiresAt)],
);

/** Addresses without an account leave no trace. */
export const failedSignIns = pgTable(
  'failed_sign_ins',
  (c) => ({
    userId: ofUser(),
    hour: time('hour').notNull(),
    passwords: c.integer().notNull().default(0),
    /** Includes failed passkeys. */
    codes: c.integer().notNull().default(0),
  }),
  (t) => [primaryKey({ columns: [t.userId, t.hour] }), index('failed_sign_ins_hour').on(t.hour)],
);

/** TOTP, RFC 6238. */
export const secondFactors = pgTable('second_factors', (c) => ({
  userId: ofUser().primaryKey(),
  /** Encrypted. Unencrypted base32 in rows from earlier versions. */
  secret: c.text().notNull(),
  /** The first correct code. Until then, the secret has no effect. */
  confirmedAt: time('confirmed_at'),
  /** Codes of this time step and earlier ones are refused. */
  lastStep: c.bigint('last_step', { mode: 'number' }),
  /** Only the session that started the set-up may see the secret before it is confirmed. */
  setupSession: c.text('setup_session').notNull(),
  createdAt: time('created_at').notNull(),
}));

const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => 'bytea' });

/** WebAuthn Level 3. */
export const passkeys = pgTable(
  'passkeys',
  (c) => ({
    /** Base64url. */
    credentialId: c.text('credential_id').primaryKey(),
    userId: ofUser(),
    /** COSE format. */
    publicKey: bytes('public_key').notNull(),
    /** 0 if the authenticator has no counter. */
    counter: c.bigint({ mode: 'number' }).notNull(),
    transports: c.text().array().notNull(),
    name: c.text().notNull(),
    createdAt: time('created_at').notNull(),
    lastUsedAt: time('last_used_at'),
    /** Synced to other devices. */
    backedUp: c.boolean('backed_up').notNull(),
  }),
  (t) => [index('passkeys_user').on(t.userId)],
);

/** Each can be used once. */
export const passkeyChallenges = pgTable(
  'passkey_challenges',
  (c) => ({
    /** 256 random bits, base64url. */
    challenge: c.text().primaryKey(),
    /** The session or pending sign-in; null on the sign-in page. */
    hashedToken: c.text('hashed_token'),
    expiresAt: time('expires_at').notNull(),
  }),
  (t) => [
    index('passkey_challenges_token').on(t.hashedToken),
    index('passkey_challenges_expiry').on(t.expiresAt),
  ],
);

export const identities = pgTable(
  'identities',
  (c) => ({
    /** The token's `iss`. */
    issuer: c.text().notNull(),
    /** The token's `sub`: unique at the issuer, and never given to another person. */
    subject: c.text().notNull(),
    userId: ofUser(),
    createdAt: time('created_at').notNull(),
  }),
  (t) => [
    primaryKey({ columns: [t.issuer, t.subject] }),
    uniqueIndex('identities_user').on(t.userId, t.issuer),
  ],
);

/** Each works once, in the browser in which it began. */
export const singleSignOns = pgTable(
  'single_sign_ons',
  (c) => ({
    /** SHA-256 of the `state`, hex. */
    hashedState: c.text('hashed_state').primaryKey(),
    /** SHA-256 of the browser's cookie, hex. */
    hashedBrowser: c.text('hashed_browser').notNull(),
    nonce: c.text().notNull(),
    /** PKCE code verifier (RFC 7636). */
    codeVerifier: c.text('code_verifier').notNull(),
    /** Local path. */
    next: c.text().notNull(),
    expiresAt: time('expires_at').notNull(),
  }),
  (t) => [index('single_sign_ons_expiry').on(t.expiresAt)],
);

export const recoveryCodes = pgTable(
  'recovery_codes',
  (c) => ({
    userId: ofUser(),
    /** Argon2id, or SHA-256 in earlier versions. */
    hashedCode: c.text('hashed_code').notNull(),
    usedAt: time('used_at'),
  }),
  (t) => [primaryKey({ columns: [t.userId, t.hashedCode] })],
);

/** Being an operator implies no membership. */
export const operators = pgTable(
  'operators',
  (c) => ({
    userId: ofUser().primaryKey(),
    createdAt: time('created_at').notNull(),
    /** Null if the operator used a set-up link. */
    createdBy: c.uuid('created_by').references(() => users.id, { onDelete: 'set null' }),
  }),
  (t) => [index('operators_created_by').on(t.createdBy)],
);

export const linkKinds = ['setup', 'password_reset', 'second_factor_reset', 'operator_invitation'] as const;
export type LinkKind = (typeof linkKinds)[number];

export const oneTimeLinks = pgTable(
  'one_time_links',
  (c) => ({
    /** SHA-256, hex. */
    hashedToken: c.text('hashed_token').primaryKey(),
    kind: c.text({ enum: linkKinds }).notNull(),
    userId: c.uuid('user_id').references(() => users.id, { onDelete: 'cascade' }),
    /** Trimmed and lower-cased. */
    email: c.text(),
    createdAt: time('created_at').notNull(),
    /** Null if the service created the link. Deleting the creator deletes the link. */
    createdBy: c.uuid('created_by').references(() => users.id, { onDelete: 'cascade' }),
    /** Somebody requested a link for this address. */
    mailed: c.boolean().notNull().default(false),
    expiresAt: time('expires_at').notNull(),
    usedAt: time('used_at'),
  }),
  (t) => [
    // One e-mailed and one handed out by an operator, per person and kind.
    uniqueIndex('one_time_links_unused')
      .on(t.kind, t.mailed, sql`coalesce(${t.userId}::text, ${t.email}, '')`)
      .where(sql`${t.usedAt} is null`),
    index('one_time_links_user').on(t.userId),
    index('one_time_links_created_by').on(t.createdBy),
    index('one_time_links_expiry').on(t.expiresAt),
    check(
      'one_time_links_kind',
      sql`${t.kind} in (${sql.raw(linkKinds.map((kind) => `'${kind}'`).join(', '))})`,
    ),
  ],
);

/** Stored for every address, with or without an account, and deleted when processed. */
export const passwordRequests = pgTable('password_requests', (c) => ({
  /** UUIDv7, so requests sort by arrival. */
  id: c.uuid().primaryKey(),
  /** Trimmed and lower-cased. */
  email: c.text().notNull(),
  at: time('at').notNull(),
  ip: c.text(),
  requestId: c.text('request_id'),
}));
