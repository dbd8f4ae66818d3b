import { DAY_MS } from '../../core/time.js';
import type { PlanGrant } from './schema.js';

type Every = PlanGrant['every'];

const lengthsMs = { week: 7 * DAY_MS, day: DAY_MS };

/** Counted from the anchor, so that an anchor on the 31st returns to it after a shorter month. `n` may be negative. */
export function startOfPeriod(every: Every, anchor: Date, n: number): Date {
  if (every !== 'month') return new Date(anchor.getTime() + n * lengthsMs[every]);
  const start = new Date(anchor);
  start.setUTCMonth(anchor.getUTCMonth() + n, 1);
  const lastDay = new Date(Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + 1, 0)).getUTCDate();
  start.setUTCDate(Math.min(anchor.getUTCDate(), lastDay));
  return start;
}

/** The number of the period that contains the time. */
export function periodAt(every: Every, anchor: Date, at: Date): number {
  if (every !== 'month') return Math.floor((at.getTime() - anchor.getTime()) / lengthsMs[every]);
  const years = at.getUTCFullYear() - anchor.getUTCFullYear();
  const n = years * 12 + at.getUTCMonth() - anchor.getUTCMonth();
  return startOfPeriod(every, anchor, n) > at ? n - 1 : n;
}
