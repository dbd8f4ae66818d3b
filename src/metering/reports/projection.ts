import { DAY_MS } from '../../core/time.js';
import { dayPeriod, includes, stepsOf, type Period } from './period.js';

const PACE_DAYS = 7;

export type Projection = NonNullable<ReturnType<typeof toProjection>>;

/**
 * The days from today on: each has the usage of its weekday in the last seven whole days, or the average of fewer days.
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
  const sum = (list: typeof isUsed) => list.reduce((total, { quantity }) => total + Number(quantity), 0);
  const week = Array.from({ length: PACE_DAYS }, (_, i) =>
    sum(isUsed.filter(({ start }) => start === todayMs - (PACE_DAYS - i) * DAY_MS)),
  );
  const recent = week.reduce((total, day) => total + day, 0);
  if (recent === 0) return undefined;
  const firstMs = Math.min(...isUsed.map(({ start }) => start));
  const paceDays = Math.min(PACE_DAYS, (todayMs - firstMs) / DAY_MS);
  const used = sum(days.filter(({ start }) => start >= period.from.getTime()));
  const leftToday = (today.to.getTime() - now.getTime()) / DAY_MS;
  const starts = stepsOf(period);
  const steps = starts.map((start) => {
    const ahead = (start.getTime() - todayMs) / DAY_MS;
    if (ahead < 0) return 0;
    return (
      (paceDays < PACE_DAYS ? recent / paceDays : week[ahead % PACE_DAYS]!) * (ahead > 0 ? 1 : leftToday)
    );
  });
  return {
    todayMs,
    /** Fewer than seven if the first usage was later. */
    paceDays,
    used,
    starts,
    /** Each day's usage from now on. */
    steps,
    /** Only a month has one. */
    total: period.range === 'month' ? used + steps.reduce((total, step) => total + step, 0) : undefined,
  };
}

/** Each day's addition to the month's usage so far; the month's usage until then if the day has not begun. */
export function addUpProjection({ starts, steps, used, todayMs }: Projection): number[] {
  let added = 0;
  return steps.map((step, i) => {
    added += step;
    return starts[i]!.getTime() > todayMs ? used + added : added;
  });
}

/** The day. Undefined if it already was reached, or will not be this month. */
export function capReachedAt({ starts, steps, used, total }: Projection, unitCap: number) {
  if (used > unitCap || total === undefined || total <= unitCap) return undefined;
  let sum = used;
  return starts.find((_, i) => (sum += steps[i]!) > unitCap);
}
