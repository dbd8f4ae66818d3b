import { DAY_MS } from '../../core/time.js';
import { dayPeriod, includes, stepsOf, type Period } from './period.js';

const PACE_DAYS = 7;

export type Projection = NonNullable<ReturnType<typeof toProjection>>;

/**
 * The days from today on at the pace of the last seven whole days: a whole week gives a quiet weekend its proper weight.
 * Undefined for hours or another time, and without usage on those days. In doubles; every page labels it as an estimate.
 * @param days of the period before and of the period
 */
export function toProjection(
  days: readonly { start: number; quantity: string }[],
  period: Period,
  now: Date,
) {
  if (period.range === 'day' || !includes(period, now)) return undefined;
  const today = dayPeriod(now);
  const todayMs = today.from.getTime();
  const isUsed = days.filter(({ quantity, start }) => Number(quantity) > 0 && start < todayMs);
  const recent = isUsed.filter(({ start }) => start >= todayMs - PACE_DAYS * DAY_MS);
  if (recent.length === 0) return undefined;
  const firstMs = Math.min(...isUsed.map(({ start }) => start));
  const paceDays = Math.min(PACE_DAYS, (todayMs - firstMs) / DAY_MS);
  const perDay = recent.reduce((sum, { quantity }) => sum + Number(quantity), 0) / paceDays;
  const used = days.reduce(
    (sum, { start, quantity }) => (start >= period.from.getTime() ? sum + Number(quantity) : sum),
    0,
  );
  const leftToday = (today.to.getTime() - now.getTime()) / DAY_MS;
  const steps = stepsOf(period).map((start) =>
    start > now ? perDay : start.getTime() === todayMs ? perDay * leftToday : 0,
  );
  return {
    perDay,
    /** Fewer than seven if the first usage was later. */
    paceDays,
    used,
    /** Each day's usage from now on. */
    steps,
    /** Only a month has one. */
    total: period.range === 'month' ? used + steps.reduce((sum, step) => sum + step, 0) : undefined,
  };
}

/** Each day's addition to the month's usage so far; the month's usage until then if the day has not begun. */
export function addUpProjection({ steps, used }: Projection): number[] {
  let added = 0;
  const first = steps.findIndex((step) => step > 0);
  return steps.map((step, i) => {
    added += step;
    return i > first ? used + added : added;
  });
}

/** Undefined if it already was reached, or will not be this month. */
export function capReachedAt({ perDay, used, total }: Projection, unitCap: number, now: Date) {
  if (used > unitCap || total === undefined || total <= unitCap) return undefined;
  return new Date(now.getTime() + ((unitCap - used) / perDay) * DAY_MS);
}
