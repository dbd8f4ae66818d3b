import { and, asc, eq, gt, isNotNull, lte, or, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { memberships, organizations, users } from '../../organizations/table.js';
import { SETUP_MS } from '../second-factor/limits.js';
import { deleteExpiredChallenges } from '../second-factor/challenge-queries.js';
import { deleteAbandonedSetups } from '../second-factor/queries.js';
import { idleSince, SESSION_MS } from './session-lifetime.js';
import { secondFactors, sessions } from '../table.js';

/**
 * A living session with its person and the Organization they look at, as all of them are now: what an operator takes
 * away is gone on the next request. Whoever left their current Organization sees the one they have belonged to longest.
 */
export async function findSession(orm: Orm, hashedToken: string, now: Date) {
  const membership = orm
    .select({
      orgId: organizations.id,
      orgSlug: organizations.slug,
      orgName: organizations.name,
      role: memberships.role,
      requireSecondFactor: organizations.requireSecondFactor,
    })
    .from(memberships)
    .innerJoin(organizations, eq(organizations.id, memberships.orgId))
    .where(eq(memberships.userId, sessions.userId))
    .orderBy(
      sql`(${memberships.orgId} is not distinct from ${sessions.currentOrgId}) desc`,
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
      currentOrgId: sessions.currentOrgId,
      orgId: membership.orgId,
      orgSlug: membership.orgSlug,
      orgName: membership.orgName,
      role: membership.role,
      lacksSecondFactor: sql<boolean>`coalesce(${membership.requireSecondFactor}, false) and ${secondFactors.userId} is null`,
    })
    .from(sessions)
    .innerJoin(users, eq(users.id, sessions.userId))
    .leftJoinLateral(membership, sql`true`)
    .leftJoin(secondFactors, and(eq(secondFactors.userId, users.id), isNotNull(secondFactors.confirmedAt)))
    .where(
      and(
        eq(sessions.hashedToken, hashedToken),
        gt(sessions.expiresAt, now),
        gt(sessions.lastSeenAt, idleSince(now)),
      ),
    );
  return row;
}

export async function updateSession(
  orm: Orm,
  hashedToken: string,
  values: { lastSeenAt?: Date; currentOrgId?: string },
): Promise<void> {
  await orm.update(sessions).set(values).where(eq(sessions.hashedToken, hashedToken));
}

/** Says whose it was; undefined if there was none. */
export async function deleteSession(
  tx: Orm,
  hashedToken: string,
): Promise<{ userId: string; email: string } | undefined> {
  const [gone] = await tx
    .delete(sessions)
    .where(eq(sessions.hashedToken, hashedToken))
    .returning({ userId: sessions.userId });
  if (!gone) return undefined;
  const [user] = await tx.select({ email: users.email }).from(users).where(eq(users.id, gone.userId));
  return user && { ...gone, ...user };
}

/** Deletes what has ended by itself and opens nothing any more: sessions, challenges, secrets never confirmed. */
export async function deleteExpiredSessions({ orm }: { orm: Orm }, now: Date): Promise<void> {
  await orm
    .delete(sessions)
    .where(or(lte(sessions.expiresAt, now), lte(sessions.lastSeenAt, idleSince(now))));
  await deleteExpiredChallenges(orm, now);
  await deleteAbandonedSetups(orm, new Date(now.getTime() - SETUP_MS));
}

export async function findUserByEmail(
  orm: Orm,
  email: string,
): Promise<{ id: string; passwordHash: string } | undefined> {
  const [user] = await orm
    .select({ id: users.id, passwordHash: users.passwordHash })
    .from(users)
    .where(eq(users.email, email));
  return user;
}

/**
 * Holds a person's row while their session is made. A password change waits for it and then ends the new session too;
 * one that came first leaves nothing to hold.
 */
export async function holdUser(
  tx: Tx,
  { id, passwordHash }: { id: string; passwordHash: string },
): Promise<boolean> {
  const rows = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, id), eq(users.passwordHash, passwordHash)))
    .for('share');
  return rows.length > 0;
}

export async function insertSession(
  tx: Tx,
  session: { hashedToken: string; userId: string; now: Date; ip: string; userAgent: string },
): Promise<void> {
  const { now, ...row } = session;
  await tx.insert(sessions).values({
    ...row,
    currentOrgId: null,
    createdAt: now,
    lastSeenAt: now,
    expiresAt: new Date(now.getTime() + SESSION_MS),
  });
}
