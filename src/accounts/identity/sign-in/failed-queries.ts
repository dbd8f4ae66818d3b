import { and, desc, eq, gte, inArray, lt, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../../core/db/client.js';
import { DAY_MS, HOUR_MS } from '../../../core/time.js';
import { failedSignIns } from '../table.js';

export interface FailedSignIns {
  passwords: number;
  /** Includes failed passkeys. */
  codes: number;
}

const KEPT_DAYS = 30;

const hourOf = (ms: number) => new Date(Math.floor(ms / HOUR_MS) * HOUR_MS);

export const failedSince = (nowMs: number): Date => hourOf(nowMs - DAY_MS);

const keptSince = (nowMs: number) => hourOf(nowMs - KEPT_DAYS * DAY_MS);

/** One row per person and hour, so that further failures add no rows and do not delay other people's sign-ins. */
export const countFailedSignIn = (tx: Tx, userId: string, what: keyof FailedSignIns, now: Date) =>
  tx
    .insert(failedSignIns)
    .values({ userId, hour: hourOf(now.getTime()), [what]: 1 })
    .onConflictDoUpdate({
      target: [failedSignIns.userId, failedSignIns.hour],
      set: { [what]: sql`${failedSignIns[what]} + 1` },
    });

export async function findFailedSignIns(orm: Orm, userIds: string[], since: Date) {
  const rows = await orm
    .select({
      userId: failedSignIns.userId,
      passwords: sql<number>`sum(${failedSignIns.passwords})`.mapWith(Number),
      codes: sql<number>`sum(${failedSignIns.codes})`.mapWith(Number),
    })
    .from(failedSignIns)
    .where(and(inArray(failedSignIns.userId, userIds), gte(failedSignIns.hour, since)))
    .groupBy(failedSignIns.userId);
  return new Map(rows.map(({ userId, ...failed }) => [userId, failed]));
}

/** Newest first. */
export async function readFailedHours(orm: Orm, userId: string, now: Date) {
  const failedHours = await orm
    .select({ hour: failedSignIns.hour, passwords: failedSignIns.passwords, codes: failedSignIns.codes })
    .from(failedSignIns)
    .where(and(eq(failedSignIns.userId, userId), gte(failedSignIns.hour, keptSince(now.getTime()))))
    .orderBy(desc(failedSignIns.hour));
  return { failedHours, failedDays: KEPT_DAYS };
}

export const deleteOldFailedSignIns = ({ orm }: { orm: Orm }, now: Date): Promise<unknown> =>
  orm.delete(failedSignIns).where(lt(failedSignIns.hour, keptSince(now.getTime())));
