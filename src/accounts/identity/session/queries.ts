import { and, asc, desc, eq, gt, isNull, lte, ne, or, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { hasRow, hasChanged, firstValue, matches } from '../../../core/db/sql.js';
import type { FormFields } from '../../../core/pages/form.js';
import { DAY_MS, MINUTE_MS } from '../../../core/time.js';
import { memberships, organizations, users } from '../../organizations/table.js';
import {
  deleteAbandonedSetups,
  deleteChallengesOf,
  deleteExpiredChallenges,
  hasFactor,
  SETUP_MS,
} from '../second-factor/queries.js';
import { deleteExpiredPasskeyChallenges } from '../second-factor/passkey-queries.js';
import { keptForms, operators, sessions } from '../table.js';

/** However much the session is used. */
export const SESSION_MS = 30 * DAY_MS;

const SESSION_IDLE_MS = 7 * DAY_MS;

/** `lastSeenAt` lags by up to this much, which avoids a write per request. */
export const SESSION_SEEN_MS = MINUTE_MS;

export const KEPT_FORM_MS = 15 * MINUTE_MS;

export const idleSince = (now: Date): Date => new Date(now.getTime() - SESSION_IDLE_MS);

/**
 * Read each time, so that removing a member takes effect on the next request. A person who left the current
 * Organization gets their oldest membership, preferring Organizations that are not archived.
 */
export async function findSession(orm: Orm, hashedToken: string, now: Date) {
  const membership = orm
    .select({
      orgId: organizations.id,
      orgSlug: organizations.slug,
      orgName: organizations.name,
      role: memberships.role,
      requireSecondFactor: organizations.requireSecondFactor,
      requireSingleSignOn: organizations.requireSingleSignOn,
      marketAccess: organizations.marketAccess,
      mayCorrect: organizations.mayCorrect,
      archivedAt: organizations.archivedAt,
    })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.orgId))
    .where(eq(memberships.userId, sessions.userId))
    .orderBy(
      sql`(${memberships.orgId} is not distinct from ${sessions.currentOrgId}) desc`,
      sql`${organizations.archivedAt} is not null`,
      asc(memberships.createdAt),
      asc(memberships.orgId),
    )
    .limit(1)
    .as('membership');
  const [row] = await orm
    .select({
      userId: users.id,
      email: users.email,
      userName: users.name,
      lastSeenAt: sessions.lastSeenAt,
      /** Null if the person has not confirmed their identity in this session. */
      confirmedAt: sessions.confirmedAt,
      /** Null if there was none in this session. */
      singleSignOnAt: sessions.singleSignOnAt,
      /** An owner needs no single sign-on until this time. */
      singleSignOnWaivedUntil: sessions.singleSignOnWaivedUntil,
      isOperator: sql<boolean>`${operators.userId} is not null`,
      hasSecondFactor: hasFactor(users.id),
      currentOrgId: sessions.currentOrgId,
      membership: {
        orgId: membership.orgId,
        orgSlug: membership.orgSlug,
        orgName: membership.orgName,
        role: membership.role,
        requireSecondFactor: membership.requireSecondFactor,
        requireSingleSignOn: membership.requireSingleSignOn,
        marketAccess: membership.marketAccess,
        mayCorrect: membership.mayCorrect,
        archivedAt: membership.archivedAt,
      },
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.userId))
    .leftJoinLateral(membership, sql`true`)
    .leftJoin(operators, eq(operators.userId, users.id))
    .where(
      and(
        eq(sessions.hashedToken, hashedToken),
        gt(sessions.expiresAt, now),
        gt(sessions.lastSeenAt, idleSince(now)),
      ),
    );
  return row;
}

export const updateSession = (
  orm: Orm,
  hashedToken: string,
  values: { lastSeenAt?: Date; currentOrgId?: string; confirmedAt?: Date; singleSignOnWaivedUntil?: Date },
): Promise<unknown> => orm.update(sessions).set(values).where(eq(sessions.hashedToken, hashedToken));

export async function deleteSession(tx: Orm, hashedToken: string) {
  const [gone] = await tx
    .delete(sessions)
    .where(eq(sessions.hashedToken, hashedToken))
    .returning({ userId: sessions.userId, currentOrgId: sessions.currentOrgId });
  if (!gone) return undefined;
  const [user] = await tx.select({ email: users.email }).from(users).where(eq(users.id, gone.userId));
  return user && { ...gone, ...user };
}

export const findSessionOwner = (orm: Orm, hashedToken: string): Promise<string | undefined> =>
  firstValue(
    orm.select({ value: sessions.userId }).from(sessions).where(eq(sessions.hashedToken, hashedToken)),
  );

export const upsertKeptForm = (orm: Orm, form: typeof keptForms.$inferInsert): Promise<unknown> =>
  orm.insert(keptForms).values(form).onConflictDoUpdate({ target: keptForms.userId, set: form });

export const deleteKeptForm = (tx: Tx, userId: string): Promise<unknown> =>
  tx.delete(keptForms).where(eq(keptForms.userId, userId));

export const takeKeptForm = (
  orm: Orm,
  { now, ...of }: { userId: string; hashedToken: string; page: string; now: Date },
): Promise<FormFields | string | undefined> =>
  firstValue(
    orm
      .delete(keptForms)
      .where(and(matches(keptForms, of), gt(keptForms.expiresAt, now)))
      .returning({ value: keptForms.values }),
  );

/** Kept for a day, so that a form that was open when the session expired can still be attributed to its person. */
export async function deleteExpiredSessions({ orm }: { orm: Orm }, now: Date): Promise<void> {
  const dayAgo = new Date(now.getTime() - DAY_MS);
  await orm
    .delete(sessions)
    .where(or(lte(sessions.expiresAt, dayAgo), lte(sessions.lastSeenAt, idleSince(dayAgo))));
  await orm.delete(keptForms).where(lte(keptForms.expiresAt, now));
  await deleteExpiredChallenges(orm, now);
  await deleteExpiredPasskeyChallenges(orm, now);
  await deleteAbandonedSetups(orm, new Date(now.getTime() - SETUP_MS));
}

const isLive = (userId: string, now: Date) =>
  and(eq(sessions.userId, userId), gt(sessions.expiresAt, now), gt(sessions.lastSeenAt, idleSince(now)));

export async function hasOwnSession(
  orm: Orm,
  { hashedToken, userId }: { hashedToken: string; userId: string },
  now: Date,
): Promise<boolean> {
  const isOwn = and(eq(sessions.hashedToken, hashedToken), isNull(sessions.singleSignOnAt));
  return hasRow(
    orm
      .select({ id: sessions.id })
      .from(sessions)
      .where(and(isOwn, isLive(userId, now))),
  );
}

/** The current session first, then the most recently used. */
export function listSessions(orm: Orm, userId: string, current: string, now: Date, limit: number) {
  return orm
    .select({
      id: sessions.id,
      isCurrent: sql<boolean>`${sessions.hashedToken} = ${current}`,
      createdAt: sessions.createdAt,
      lastSeenAt: sessions.lastSeenAt,
      ip: sessions.ip,
      userAgent: sessions.userAgent,
    })
    .from(sessions)
    .where(isLive(userId, now))
    .orderBy(sql`${sessions.hashedToken} = ${current} desc`, desc(sessions.lastSeenAt), sessions.id)
    .limit(limit);
}

export const countSessions = (orm: Orm, userId: string, now: Date): Promise<number> =>
  orm.$count(sessions, isLive(userId, now));

/** Undefined if this person has no session with that id. */
export const deleteSessionById = (tx: Tx, userId: string, id: string): Promise<string | undefined> =>
  firstValue(
    tx.delete(sessions).where(matches(sessions, { userId, id })).returning({ value: sessions.hashedToken }),
  );

/** Also deletes pending sign-ins. Returns the number of ended sessions. */
export async function deleteSessionsOf(tx: Tx, userId: string, except?: string): Promise<number> {
  await deleteChallengesOf(tx, userId);
  const isOther = except === undefined ? undefined : ne(sessions.hashedToken, except);
  const rows = await tx
    .delete(sessions)
    .where(and(eq(sessions.userId, userId), isOther))
    .returning({ id: sessions.id });
  return rows.length;
}

export const updateToken = (tx: Tx, hashedToken: string, newHashedToken: string): Promise<boolean> =>
  hasChanged(
    tx.update(sessions).set({ hashedToken: newHashedToken }).where(eq(sessions.hashedToken, hashedToken)),
  );

/** Gives the session a new token. False if there is no such session. */
export const raiseSession = (
  tx: Tx,
  {
    hashedToken,
    newHashedToken,
    userId,
    isConfirmed,
  }: { hashedToken: string; newHashedToken: string; userId: string; isConfirmed: boolean },
  now: Date,
): Promise<boolean> =>
  hasChanged(
    tx
      .update(sessions)
      .set({ hashedToken: newHashedToken, singleSignOnAt: now, ...(isConfirmed && { confirmedAt: now }) })
      .where(and(eq(sessions.hashedToken, hashedToken), isLive(userId, now))),
  );

/** A concurrent password change commits first, and no row matches, or it waits and then ends the new session too. */
export const lockUser = (tx: Tx, { id, passwordHash }: { id: string; passwordHash: string }) =>
  hasRow(tx.select({ id: users.id }).from(users).where(matches(users, { id, passwordHash })).for('share'));

export async function insertSession(
  tx: Tx,
  session: {
    hashedToken: string;
    userId: string;
    now: Date;
    ip: string;
    userAgent: string;
    isSingleSignOn: boolean;
    isConfirmed: boolean;
    currentOrgId: string | null;
  },
): Promise<void> {
  const { now, isSingleSignOn, isConfirmed, ...row } = session;
  await tx.insert(sessions).values({
    ...row,
    createdAt: now,
    lastSeenAt: now,
    confirmedAt: isConfirmed ? now : null,
    singleSignOnAt: isSingleSignOn ? now : null,
    expiresAt: new Date(now.getTime() + SESSION_MS),
  });
}
