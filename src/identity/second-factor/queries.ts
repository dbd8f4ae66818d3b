import { and, count, eq, gt, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { recoveryCodes, secondFactors } from '../table.js';

/** The secret, as it is stored, of a person whose second factor is on. */
export async function findSecondFactor(orm: Orm, userId: string) {
  const [factor] = await orm
    .select({ secret: secondFactors.secret, confirmedAt: secondFactors.confirmedAt })
    .from(secondFactors)
    .where(and(eq(secondFactors.userId, userId), isNotNull(secondFactors.confirmedAt)));
  return factor;
}

/** A secret, as it is stored, that is waiting for its first code, for the session that asked for it alone. */
export async function findSetup(
  orm: Orm,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<string | undefined> {
  const [factor] = await orm
    .select({ secret: secondFactors.secret })
    .from(secondFactors)
    .where(
      and(
        eq(secondFactors.userId, userId),
        eq(secondFactors.setupSession, sessionId),
        isNull(secondFactors.confirmedAt),
      ),
    );
  return factor?.secret;
}

/** Puts a new secret in the place of one that was never confirmed. False if the second factor is on. */
export async function putSetup(
  tx: Tx,
  { userId, sessionId, secret, now }: { userId: string; sessionId: string; secret: string; now: Date },
): Promise<boolean> {
  const values = { secret, setupSession: sessionId, createdAt: now };
  const rows = await tx
    .insert(secondFactors)
    .values({ userId, ...values, confirmedAt: null, lastStep: null })
    .onConflictDoUpdate({
      target: secondFactors.userId,
      set: values,
      setWhere: isNull(secondFactors.confirmedAt),
    })
    .returning({ userId: secondFactors.userId });
  return rows.length > 0;
}

/** Turns on the secret that the code belonged to. False if another has taken its place, or it is on already. */
export async function confirmSetup(
  tx: Tx,
  { userId, secret, step, now }: { userId: string; secret: string; step: number; now: Date },
): Promise<boolean> {
  const rows = await tx
    .update(secondFactors)
    .set({ confirmedAt: now, lastStep: step })
    .where(
      and(
        eq(secondFactors.userId, userId),
        eq(secondFactors.secret, secret),
        isNull(secondFactors.confirmedAt),
      ),
    )
    .returning({ userId: secondFactors.userId });
  return rows.length > 0;
}

/** Puts another form of the same secret in its place. False if it is no longer that one. */
export async function replaceSecret(
  orm: Orm,
  { userId, from, to }: { userId: string; from: string; to: string },
): Promise<boolean> {
  const rows = await orm
    .update(secondFactors)
    .set({ secret: to })
    .where(and(eq(secondFactors.userId, userId), eq(secondFactors.secret, from)))
    .returning({ userId: secondFactors.userId });
  return rows.length > 0;
}

/** Secrets that do not begin with `prefix`, in the order of their people. */
export function listStaleSecrets(orm: Orm, prefix: string, after: string | undefined, limit: number) {
  return orm
    .select({ userId: secondFactors.userId, secret: secondFactors.secret })
    .from(secondFactors)
    .where(
      and(
        sql`not starts_with(${secondFactors.secret}, ${prefix})`,
        after === undefined ? undefined : gt(secondFactors.userId, after),
      ),
    )
    .orderBy(secondFactors.userId)
    .limit(limit);
}

/** Uses up a time step and all before it. One statement: of two uses of a code at once, one gets true. */
export async function raiseLastStep(tx: Tx, userId: string, step: number): Promise<boolean> {
  const rows = await tx
    .update(secondFactors)
    .set({ lastStep: step })
    .where(
      and(
        eq(secondFactors.userId, userId),
        isNotNull(secondFactors.confirmedAt),
        or(isNull(secondFactors.lastStep), lt(secondFactors.lastStep, step)),
      ),
    )
    .returning({ userId: secondFactors.userId });
  return rows.length > 0;
}

/** Uses up a recovery code. One statement: of two uses at once, one gets true. */
export async function spendRecoveryCode(
  tx: Tx,
  { userId, hashedCode, now }: { userId: string; hashedCode: string; now: Date },
): Promise<boolean> {
  const rows = await tx
    .update(recoveryCodes)
    .set({ usedAt: now })
    .where(
      and(
        eq(recoveryCodes.userId, userId),
        eq(recoveryCodes.hashedCode, hashedCode),
        isNull(recoveryCodes.usedAt),
      ),
    )
    .returning({ userId: recoveryCodes.userId });
  return rows.length > 0;
}

export async function replaceRecoveryCodes(tx: Tx, userId: string, hashedCodes: string[]): Promise<void> {
  await tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId));
  await tx.insert(recoveryCodes).values(hashedCodes.map((hashedCode) => ({ userId, hashedCode })));
}

export async function countRecoveryCodes(orm: Orm, userId: string): Promise<number> {
  const [row] = await orm
    .select({ left: count() })
    .from(recoveryCodes)
    .where(and(eq(recoveryCodes.userId, userId), isNull(recoveryCodes.usedAt)));
  return row?.left ?? 0;
}

/** Removes a second factor that is on, with its recovery codes. False if there was none. */
export async function deleteSecondFactor(tx: Tx, userId: string): Promise<boolean> {
  const rows = await tx
    .delete(secondFactors)
    .where(and(eq(secondFactors.userId, userId), isNotNull(secondFactors.confirmedAt)))
    .returning({ userId: secondFactors.userId });
  if (rows.length > 0) await tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId));
  return rows.length > 0;
}

/** Deletes secrets that were asked for before `before` and never confirmed. */
export async function deleteAbandonedSetups(orm: Orm, before: Date): Promise<void> {
  await orm
    .delete(secondFactors)
    .where(and(isNull(secondFactors.confirmedAt), lte(secondFactors.createdAt, before)));
}
