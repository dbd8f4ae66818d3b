import { and, asc, eq, gt, isNull, lt, lte } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { firstRow, hasChanged, matches } from '../../../core/db/sql.js';
import { MINUTE_MS } from '../../../core/time.js';
import { passkeyChallenges, passkeys } from '../table.js';

export const CHALLENGE_MS = 5 * MINUTE_MS;

export const MAX_PASSKEYS = 10;

export type Passkey = typeof passkeys.$inferSelect;

export function listPasskeys(orm: Orm, userId: string): Promise<Passkey[]> {
  return orm
    .select()
    .from(passkeys)
    .where(eq(passkeys.userId, userId))
    .orderBy(asc(passkeys.createdAt), asc(passkeys.credentialId))
    .limit(MAX_PASSKEYS);
}

export const findPasskey = (orm: Orm, credentialId: string): Promise<Passkey | undefined> =>
  firstRow(orm.select().from(passkeys).where(eq(passkeys.credentialId, credentialId)));

/** False if this id is already registered, for anybody. */
export const insertPasskey = (tx: Tx, passkey: Passkey): Promise<boolean> =>
  hasChanged(tx.insert(passkeys).values(passkey).onConflictDoNothing());

export const deletePasskey = (tx: Tx, userId: string, credentialId: string) =>
  firstRow(
    tx.delete(passkeys).where(matches(passkeys, { userId, credentialId })).returning({ name: passkeys.name }),
  );

/**
 * A single statement, so that only one of two concurrent uses with the same count succeeds. Synced passkeys always send
 * 0, which is accepted while the stored count is 0.
 */
export async function raiseCounter(
  tx: Tx,
  {
    userId,
    credentialId,
    counter,
    backedUp,
  }: Pick<Passkey, 'userId' | 'credentialId' | 'counter' | 'backedUp'>,
  now: Date,
): Promise<boolean> {
  const isNext = counter === 0 ? eq(passkeys.counter, 0) : lt(passkeys.counter, counter);
  return hasChanged(
    tx
      .update(passkeys)
      .set({ counter, backedUp, lastUsedAt: now })
      .where(and(matches(passkeys, { userId, credentialId }), isNext)),
  );
}

/** The session or pending sign-in that waits for a signature; undefined on the sign-in page. */
export type ChallengeOwner = { hashedToken: string | undefined; now: Date };

/** Replaces the session's previous challenge. */
export async function insertPasskeyChallenge(
  tx: Tx,
  challenge: string,
  { hashedToken, now }: ChallengeOwner,
): Promise<void> {
  if (hashedToken !== undefined)
    await tx.delete(passkeyChallenges).where(eq(passkeyChallenges.hashedToken, hashedToken));
  const expiresAt = new Date(now.getTime() + CHALLENGE_MS);
  await tx.insert(passkeyChallenges).values({ challenge, hashedToken: hashedToken ?? null, expiresAt });
}

/** A single statement, so that only one of two concurrent uses succeeds. */
export const spendPasskeyChallenge = (orm: Orm, challenge: string, { hashedToken, now }: ChallengeOwner) =>
  hasChanged(
    orm
      .delete(passkeyChallenges)
      .where(
        and(
          eq(passkeyChallenges.challenge, challenge),
          hashedToken === undefined
            ? isNull(passkeyChallenges.hashedToken)
            : eq(passkeyChallenges.hashedToken, hashedToken),
          gt(passkeyChallenges.expiresAt, now),
        ),
      ),
  );

export const deleteExpiredPasskeyChallenges = (orm: Orm, now: Date): Promise<unknown> =>
  orm.delete(passkeyChallenges).where(lte(passkeyChallenges.expiresAt, now));
