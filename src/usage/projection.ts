import type { Clock } from '../core/clock.js';
import type { Orm } from '../core/db/client.js';
import { DAY_MS, HOUR_MS, type Period } from './period.js';
import { readPace, type UsageScope } from './page-queries.js';

const PACE_DAYS = 7;

/** An estimate of a month's usage: doubles, and said to be an estimate wherever it is shown. */
export interface Projection {
  /** Units a day of the last seven days. */
  perDay: number;
  /** How many days that is the mean of: fewer than seven where the first usage was later. */
  paceDays: number;
  /** Units by the end of the month. */
  total: number;
  /** When the cap is reached; undefined if not in this month, or if it has been. */
  capReachedAt: Date | undefined;
}

/**
 * What a month comes to if usage goes on at the pace of the last seven days: whole weeks, so that a quiet week-end weighs as much
 * as it should. A product whose first usage is less than a day old has no pace yet.
 * @param used units of the month so far
 */
export async function projectMonth(
  { orm, clock }: { orm: Orm; clock: Clock },
  scope: UsageScope,
  { metric, month, used, unitCap }: { metric: string; month: Period; used: number; unitCap: number },
): Promise<Projection | undefined> {
  const now = clock.now();
  const to = new Date(now - (now % HOUR_MS));
  const from = new Date(to.getTime() - PACE_DAYS * DAY_MS);
  const { quantity, firstHour, isOlder } = await readPace(orm, scope, metric, { from, to });
  if (quantity === null || firstHour === null) return undefined;
  const days = (to.getTime() - (isOlder ? from.getTime() : Date.parse(firstHour))) / DAY_MS;
  if (days < 1) return undefined;
  const perDay = Number(quantity) / days;
  const total = used + perDay * ((month.to.getTime() - now) / DAY_MS);
  const reachedMs = now + ((unitCap - used) / perDay) * DAY_MS;
  const isReached = perDay > 0 && used <= unitCap && reachedMs < month.to.getTime();
  return { perDay, paceDays: days, total, capReachedAt: isReached ? new Date(reachedMs) : undefined };
}

/** The projected total at a moment of the rest of the month. */
export const projectAt = (used: number, { perDay }: Projection, now: number, at: number): number =>
  used + perDay * ((at - now) / DAY_MS);
