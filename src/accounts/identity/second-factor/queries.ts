import { and, eq, gt, isNotNull, isNull, lt, lte, or, sql, type SQLWrapper } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { hasChanged, firstRow, firstValue, queryRow, matches } from '../../../core/db/sql.js';
import { DAY_MS, MINUTE_MS } from '../../../core/time.js';
import { users } from '../../organizations/table.js';
import {
  oneTimeLinks,
  passkeys,
  recoveryCodes,
  secondFactors,
  signInChallenges,
  type LinkKind,
} from '../table.js';

const CHALLENGE_MS = 10 * MINUTE_MS;
export const MAX_CODES = 5;
export const SETUP_MS = DAY_MS;

const hasApp = (userId: string | SQLWrapper) =>
  sql`exists (select from second_factors f where f.user_id = ${userId} and f.confirmed_at is not null)`;

const hasPasskey = (userId: string | SQLWrapper) =>
  sql`exists (select from passkeys p where p.user_id = ${userId})`;

export const hasFactor = (userId: string | SQLWrapper) =>
  sql<boolean>`(${hasApp(userId)} or ${hasPasskey(userId)})`;

export async function findFactors(orm: Orm, userId: string) {
  const row = await queryRow(orm)<{ hasApp: boolean; hasPasskeys: boolean }>`
    select ${hasApp(userId)} as "hasApp", ${hasPasskey(userId)} as "hasPasskeys"`;
  return row!;
}

export async function hasSecondFactor(orm: Orm, userId: string): Promise<boolean> {
  return (await queryRow(orm)<{ has: boolean }>`select ${hasFactor(userId)} as has`)!.has;
}

/** The service or Organization that requires the factor; undefined if none does. */
export async function findFactorDemand(orm: Orm, userId: string): Promise<string | undefined> {
  const row = await queryRow(orm)<{ name: string }>`
    select 'This service' as name from operators where user_id = ${userId}
    union all (select o.name from memberships m join organizations o on o.id = m.org_id
      where m.user_id = ${userId} and o.require_second_factor order by o.name limit 1)
    limit 1`;
  return row?.name;
}

export const findSecondFactor = (orm: Orm, userId: string) =>
  firstRow(
    orm
      .select({
        secret: secondFactors.secret,
        confirmedAt: secondFactors.confirmedAt,
        lastStep: secondFactors.lastStep,
      })
      .from(secondFactors)
      .where(and(eq(secondFactors.userId, userId), isNotNull(secondFactors.confirmedAt))),
  );

/** Encrypted. Undefined unless this session started the set-up. */
export const findSetup = (
  orm: Orm,
  { userId, sessionId: setupSession }: { userId: string; sessionId: string },
): Promise<string | undefined> =>
  firstValue(
    orm
      .select({ value: secondFactors.secret })
      .from(secondFactors)
      .where(matches(secondFactors, { userId, setupSession, confirmedAt: null })),
  );

export async function putSetup(
  tx: Tx,
  { userId, sessionId, secret, now }: { userId: string; sessionId: string; secret: string; now: Date },
): Promise<boolean> {
  const values = { secret, setupSession: sessionId, createdAt: now };
  return hasChanged(
    tx
      .insert(secondFactors)
      .values({ userId, ...values, confirmedAt: null, lastStep: null })
      .onConflictDoUpdate({
        target: secondFactors.userId,
        set: values,
        setWhere: isNull(secondFactors.confirmedAt),
      }),
  );
}

export const confirmSetup = (
  tx: Tx,
  { userId, secret, step, now }: { userId: string; secret: string; step: number; now: Date },
): Promise<boolean> =>
  hasChanged(
    tx
      .update(secondFactors)
      .set({ confirmedAt: now, lastStep: step })
      .where(matches(secondFactors, { userId, secret, confirmedAt: null })),
  );

export const replaceSecret = (orm: Orm, { userId, from, to }: { userId: string; from: string; to: string }) =>
  hasChanged(
    orm
      .update(secondFactors)
      .set({ secret: to })
      .where(matches(secondFactors, { userId, secret: from })),
  );

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

/** Consumes earlier steps too. A single statement, so that only one of two concurrent uses of a code succeeds. */
export const raiseLastStep = (tx: Tx, userId: string, step: number): Promise<boolean> =>
  hasChanged(
    tx
      .update(secondFactors)
      .set({ lastStep: step })
      .where(
        and(
          eq(secondFactors.userId, userId),
          isNotNull(secondFactors.confirmedAt),
          or(isNull(secondFactors.lastStep), lt(secondFactors.lastStep, step)),
        ),
      ),
  );

/** A single statement, so that only one of two concurrent uses succeeds. */
export const spendRecoveryCode = (
  tx: Tx,
  { userId, hashedCode, now }: { userId: string; hashedCode: string; now: Date },
): Promise<boolean> =>
  hasChanged(
    tx
      .update(recoveryCodes)
      .set({ usedAt: now })
      .where(matches(recoveryCodes, { userId, hashedCode, usedAt: null })),
  );

export async function replaceRecoveryCodes(tx: Tx, userId: string, hashedCodes: string[]): Promise<void> {
  await tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId));
  await tx.insert(recoveryCodes).values(hashedCodes.map((hashedCode) => ({ userId, hashedCode })));
}

export const countRecoveryCodes = (orm: Orm, userId: string): Promise<number> =>
  orm.$count(recoveryCodes, matches(recoveryCodes, { userId, usedAt: null }));

/** Nobody may use an older link after the password or second factor has changed. */
export const deleteOpenLinks = (tx: Tx, userId: string, kind: LinkKind): Promise<unknown> =>
  tx.delete(oneTimeLinks).where(matches(oneTimeLinks, { userId, kind, usedAt: null }));

/** Also deletes open links that could turn off the app. False if the app was not on. */
export async function deleteApp(tx: Tx, userId: string): Promise<boolean> {
  const isOn = and(eq(secondFactors.userId, userId), isNotNull(secondFactors.confirmedAt));
  const wasOn = await hasChanged(tx.delete(secondFactors).where(isOn));
  if (wasOn) await deleteOpenLinks(tx, userId, 'second_factor_reset');
  return wasOn;
}

export const deleteRecoveryCodes = (tx: Tx, userId: string): Promise<unknown> =>
  tx.delete(recoveryCodes).where(eq(recoveryCodes.userId, userId));

export async function deleteSecondFactor(tx: Tx, userId: string): Promise<boolean> {
  const hadApp = await deleteApp(tx, userId);
  const gone = await tx
    .delete(passkeys)
    .where(eq(passkeys.userId, userId))
    .returning({ id: passkeys.credentialId });
  if (!hadApp && gone.length === 0) return false;
  await deleteRecoveryCodes(tx, userId);
  await deleteOpenLinks(tx, userId, 'second_factor_reset');
  return true;
}

export const deleteAbandonedSetups = (orm: Orm, before: Date): Promise<unknown> =>
  orm
    .delete(secondFactors)
    .where(and(isNull(secondFactors.confirmedAt), lte(secondFactors.createdAt, before)));

/** Every property, so that none is lost between the two factors. */
type Challenge = typeof signInChallenges.$inferSelect;

export async function insertChallenge(
  tx: Tx,
  { now, ...row }: { now: Date } & Omit<Challenge, 'createdAt' | 'expiresAt' | 'attempts'>,
): Promise<void> {
  const expiresAt = new Date(now.getTime() + CHALLENGE_MS);
  await tx.insert(signInChallenges).values({ ...row, createdAt: now, expiresAt, attempts: 0 });
}

const isWaiting = (hashedToken: string, now: Date) =>
  and(
    eq(signInChallenges.hashedToken, hashedToken),
    gt(signInChallenges.expiresAt, now),
    lt(signInChallenges.attempts, MAX_CODES),
  );

/** With the person's current address and password hash. */
export const findChallenge = (orm: Orm, hashedToken: string, now: Date) =>
  firstRow(
    orm
      .select({
        hashedToken: signInChallenges.hashedToken,
        userId: users.id,
        email: users.email,
        passwordHash: users.passwordHash,
        isSingleSignOn: signInChallenges.singleSignOn,
        isConfirmed: signInChallenges.confirmed,
        currentOrgId: signInChallenges.currentOrgId,
        roles: signInChallenges.roles,
      })
      .from(signInChallenges)
      .innerJoin(users, eq(users.id, signInChallenges.userId))
      .where(isWaiting(hashedToken, now)),
  );

/** Counts before the check, so that concurrent attempts cannot exceed the limit. Undefined if none were left. */
export const countTry = (orm: Orm, hashedToken: string, now: Date): Promise<number | undefined> =>
  firstValue(
    orm
      .update(signInChallenges)
      .set({ attempts: sql`${signInChallenges.attempts} + 1` })
      .where(isWaiting(hashedToken, now))
      .returning({ value: signInChallenges.attempts }),
  );

export const deleteChallenge = (tx: Tx, hashedToken: string) =>
  firstRow(
    tx
      .delete(signInChallenges)
      .where(eq(signInChallenges.hashedToken, hashedToken))
      .returning({ userId: signInChallenges.userId, currentOrgId: signInChallenges.currentOrgId }),
  );

export const deleteChallengesOf = (tx: Tx, userId: string): Promise<unknown> =>
  tx.delete(signInChallenges).where(eq(signInChallenges.userId, userId));

export const deleteExpiredChallenges = (orm: Orm, now: Date): Promise<unknown> =>
  orm.delete(signInChallenges).where(lte(signInChallenges.expiresAt, now));
