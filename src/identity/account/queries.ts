import { and, count, desc, eq, gt, ne, sql } from 'drizzle-orm';
import { idleSince } from '../session/session-lifetime.js';
import { sessions } from '../table.js';
import type { Orm, Tx } from '../../core/db/client.js';
import { users } from '../../organizations/table.js';

export type Person = typeof users.$inferSelect;

export async function findPerson(orm: Orm, userId: string): Promise<Person | undefined> {
  const [person] = await orm.select().from(users).where(eq(users.id, userId));
  return person;
}

/** Finds the person and keeps others from changing them, and sign-ins from being finished, until the transaction ends. */
export async function lockPerson(tx: Tx, userId: string): Promise<Person | undefined> {
  const [person] = await tx.select().from(users).where(eq(users.id, userId)).for('no key update');
  return person;
}

export async function updateName(tx: Tx, userId: string, name: string): Promise<void> {
  await tx.update(users).set({ name }).where(eq(users.id, userId));
}

export async function updatePasswordHash(tx: Tx, userId: string, passwordHash: string): Promise<void> {
  await tx.update(users).set({ passwordHash }).where(eq(users.id, userId));
}

const isOpen = (userId: string, now: Date) =>
  and(eq(sessions.userId, userId), gt(sessions.expiresAt, now), gt(sessions.lastSeenAt, idleSince(now)));

/** A person's open sessions: the one that asks first, then those used most recently. */
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
    .where(isOpen(userId, now))
    .orderBy(sql`${sessions.hashedToken} = ${current} desc`, desc(sessions.lastSeenAt), sessions.id)
    .limit(limit);
}

export async function countSessions(orm: Orm, userId: string, now: Date): Promise<number> {
  const [row] = await orm.select({ open: count() }).from(sessions).where(isOpen(userId, now));
  return row?.open ?? 0;
}

/** Ends a session of this person and says which it was; undefined if they have none of that id. */
export async function deleteSessionById(tx: Tx, userId: string, id: string): Promise<string | undefined> {
  const [row] = await tx
    .delete(sessions)
    .where(and(eq(sessions.userId, userId), eq(sessions.id, id)))
    .returning({ hashedToken: sessions.hashedToken });
  return row?.hashedToken;
}

/** Ends a person's sessions, all or all but one, and says how many they were. */
export async function deleteSessionsOf(tx: Tx, userId: string, except?: string): Promise<number> {
  const isOther = except === undefined ? undefined : ne(sessions.hashedToken, except);
  const rows = await tx
    .delete(sessions)
    .where(and(eq(sessions.userId, userId), isOther))
    .returning({ id: sessions.id });
  return rows.length;
}

/** Gives a session another token. False if it has ended. */
export async function updateToken(tx: Tx, hashedToken: string, newHashedToken: string): Promise<boolean> {
  const rows = await tx
    .update(sessions)
    .set({ hashedToken: newHashedToken })
    .where(eq(sessions.hashedToken, hashedToken))
    .returning({ id: sessions.id });
  return rows.length > 0;
}
