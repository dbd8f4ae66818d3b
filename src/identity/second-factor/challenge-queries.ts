import { and, eq, gt, lt, lte, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { users } from '../../organizations/table.js';
import { signInChallenges } from '../table.js';
import { CHALLENGE_MS, MAX_CODES } from './limits.js';

export async function insertChallenge(
  tx: Tx,
  { hashedToken, userId, now }: { hashedToken: string; userId: string; now: Date },
): Promise<void> {
  const expiresAt = new Date(now.getTime() + CHALLENGE_MS);
  await tx.insert(signInChallenges).values({ hashedToken, userId, createdAt: now, expiresAt, attempts: 0 });
}

const isOpen = (hashedToken: string, now: Date) =>
  and(
    eq(signInChallenges.hashedToken, hashedToken),
    gt(signInChallenges.expiresAt, now),
    lt(signInChallenges.attempts, MAX_CODES),
  );

/** A sign-in that waits for its code, with the person as they are now. */
export async function findChallenge(orm: Orm, hashedToken: string, now: Date) {
  const [challenge] = await orm
    .select({
      hashedToken: signInChallenges.hashedToken,
      userId: users.id,
      email: users.email,
      passwordHash: users.passwordHash,
    })
    .from(signInChallenges)
    .innerJoin(users, eq(users.id, signInChallenges.userId))
    .where(isOpen(hashedToken, now));
  return challenge;
}

/** Counts a try before it is judged, so that tries at once get no further. Undefined if none was left. */
export async function countTry(orm: Orm, hashedToken: string, now: Date): Promise<number | undefined> {
  const [row] = await orm
    .update(signInChallenges)
    .set({ attempts: sql`${signInChallenges.attempts} + 1` })
    .where(isOpen(hashedToken, now))
    .returning({ attempts: signInChallenges.attempts });
  return row?.attempts;
}

export async function deleteChallenge(tx: Tx, hashedToken: string): Promise<boolean> {
  const rows = await tx
    .delete(signInChallenges)
    .where(eq(signInChallenges.hashedToken, hashedToken))
    .returning({ userId: signInChallenges.userId });
  return rows.length > 0;
}

export async function deleteChallengesOf(tx: Tx, userId: string): Promise<void> {
  await tx.delete(signInChallenges).where(eq(signInChallenges.userId, userId));
}

export async function deleteExpiredChallenges(orm: Orm, now: Date): Promise<void> {
  await orm.delete(signInChallenges).where(lte(signInChallenges.expiresAt, now));
}
