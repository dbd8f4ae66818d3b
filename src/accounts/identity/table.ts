import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  index,
  integer,
  json,
  pgTable,
  primaryKey,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import type { FormFields } from '../../core/pages/form.js';
import { organizations, users } from '../organizations/table.js';

/** Rows that go with their person. */
const ofUser = () =>
  uuid('user_id')
    .notNull()
    .references(() => users.id, { onDelete: 'cascade' });

/**
 * A signed-in browser. The cookie holds only the opaque token; this row, found by the token's hash, is what
 * makes it valid, so that deleting the row ends the session on its next request.
 */
export const sessions = pgTable(
  'sessions',
  {
    hashedToken: text('hashed_token').primaryKey(),
    /** Names the session where its person ends it; opens nothing. */
    id: uuid()
      .notNull()
      .default(sql`gen_random_uuid()`),
    userId: ofUser(),
    /** The Organization that the session shows. Named so that sessions stay a person's rows, not a tenant's. */
    currentOrgId: uuid('current_org_id').references(() => organizations.id),
    createdAt: time('created_at').notNull(),
    lastSeenAt: time('last_seen_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    /** When the person last proved who they are in it; null in sessions of earlier versions. */
    confirmedAt: time('confirmed_at'),
    ip: text().notNull(),
    userAgent: text('user_agent').notNull(),
  },
  (t) => [index('sessions_user').on(t.userId), index('sessions_expiry').on(t.expiresAt)],
);

/**
 * A browser whose password was right and whose second factor is still due. Kept apart from the sessions, so that no
 * query for a session can ever find one that is only half open.
 */
export const signInChallenges = pgTable(
  'sign_in_challenges',
  {
    hashedToken: text('hashed_token').primaryKey(),
    userId: ofUser(),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
    attempts: integer().notNull(),
  },
  (t) => [index('sign_in_challenges_user').on(t.userId), index('sign_in_challenges_expiry').on(t.expiresAt)],
);

/** What a person typed into a form after their session had ended: see core/pages/form.ts. One form each. */
export const keptForms = pgTable(
  'kept_forms',
  {
    userId: ofUser().primaryKey(),
    /** Of the browser that it was typed in. */
    hashedToken: text('hashed_token').notNull(),
    /** Path and query of the form's page. */
    page: text().notNull(),
    values: json().$type<FormFields>().notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (t) => [index('kept_forms_expiry').on(t.expiresAt)],
);

/**
 * Sign-ins that failed, of people who have an account, by hour: one row for however many. Addresses without an account
 * leave nothing.
 */
export const failedSignIns = pgTable(
  'failed_sign_ins',
  {
    userId: ofUser(),
    hour: time('hour').notNull(),
    passwords: integer().notNull().default(0),
    /** And passkeys. */
    codes: integer().notNull().default(0),
  },
  // Serves who failed lately, and the deletion of old rows, beside the primary key.
  (t) => [primaryKey({ columns: [t.userId, t.hour] }), index('failed_sign_ins_hour').on(t.hour)],
);

/** A person's authenticator app (TOTP, RFC 6238). */
export const secondFactors = pgTable('second_factors', {
  userId: ofUser().primaryKey(),
  /** Encrypted: see second-factor/secret-box.ts. In rows of earlier versions base32, as the app holds it. */
  secret: text().notNull(),
  /** When its first code was right. Until then it protects nothing. */
  confirmedAt: time('confirmed_at'),
  /** The time step of the newest code that was accepted: it and older ones are refused. */
  lastStep: bigint('last_step', { mode: 'number' }),
  /** The hashed token of the session that asked for the secret. Until the confirmation it alone is shown it. */
  setupSession: text('setup_session').notNull(),
  createdAt: time('created_at').notNull(),
});

const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => 'bytea' });

/** Key pairs of people's devices (WebAuthn Level 3). Only the public half is here. */
export const passkeys = pgTable(
  'passkeys',
  {
    /** The authenticator's own name for it, base64url. */
    credentialId: text('credential_id').primaryKey(),
    userId: ofUser(),
    /** COSE. */
    publicKey: bytes('public_key').notNull(),
    /** Of the newest signature; 0 where the authenticator counts none. */
    counter: bigint({ mode: 'number' }).notNull(),
    transports: text().array().notNull(),
    name: text().notNull(),
    createdAt: time('created_at').notNull(),
    lastUsedAt: time('last_used_at'),
    /** Whether other devices of the person have it too. */
    backedUp: boolean('backed_up').notNull(),
  },
  (t) => [index('passkeys_user').on(t.userId)],
);

/** What a passkey is to sign. Each is good once. */
export const passkeyChallenges = pgTable(
  'passkey_challenges',
  {
    /** 256 random bits, base64url. */
    challenge: text().primaryKey(),
    /** The hashed token of the session or of the half-open sign-in that asked; null on the sign-in page. */
    hashedToken: text('hashed_token'),
    expiresAt: time('expires_at').notNull(),
  },
  (t) => [
    index('passkey_challenges_token').on(t.hashedToken),
    index('passkey_challenges_expiry').on(t.expiresAt),
  ],
);

/** One-time codes for people who lost their authenticator. */
export const recoveryCodes = pgTable(
  'recovery_codes',
  {
    userId: ofUser(),
    /** Argon2id of the code, of earlier versions SHA-256: see second-factor/codes.ts. */
    hashedCode: text('hashed_code').notNull(),
    usedAt: time('used_at'),
  },
  (t) => [primaryKey({ columns: [t.userId, t.hashedCode] })],
);

/** People who run the service. It makes them a member of no Organization. */
export const operators = pgTable(
  'operators',
  {
    userId: ofUser().primaryKey(),
    createdAt: time('created_at').notNull(),
    /** Null: by a set-up link. */
    createdBy: uuid('created_by').references(() => users.id, { onDelete: 'set null' }),
  },
  (t) => [index('operators_created_by').on(t.createdBy)],
);

export const linkKinds = ['setup', 'password_reset', 'second_factor_reset', 'operator_invitation'] as const;
export type LinkKind = (typeof linkKinds)[number];

/** Links that are shown once and work once. */
export const oneTimeLinks = pgTable(
  'one_time_links',
  {
    /** SHA-256 of the link's secret, hex. */
    hashedToken: text('hashed_token').primaryKey(),
    kind: text({ enum: linkKinds }).notNull(),
    /** Whose password or second factor it is. */
    userId: uuid('user_id').references(() => users.id, { onDelete: 'cascade' }),
    /** Who is invited. Trimmed and lower-cased. */
    email: text(),
    createdAt: time('created_at').notNull(),
    /** Null: the service itself. A link goes with the person who made it. */
    createdBy: uuid('created_by').references(() => users.id, { onDelete: 'cascade' }),
    /** The service sent it to the person's address, because somebody requested it there. */
    mailed: boolean().notNull().default(false),
    expiresAt: time('expires_at').notNull(),
    usedAt: time('used_at'),
  },
  (t) => [
    // For each person, one of a kind that was mailed and one that an operator passes on.
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

/** Who has forgotten a password and waits for a link. Written for every address alike, and gone when it is looked up. */
export const passwordRequests = pgTable('password_requests', {
  /** In the order in which they came. */
  id: uuid().primaryKey(),
  /** Trimmed and lower-cased. There may be no such account. */
  email: text().notNull(),
  at: time('at').notNull(),
  ip: text(),
  requestId: text('request_id'),
});
