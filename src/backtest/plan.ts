import { finalTimeOf } from '../trading/venue/simulated-event.js';
import { LEAD_HOURS } from '../trading/signals/leads.js';
import type { StationDay } from '../trading/venue/simulation/world.js';

const HOUR_MS = 60 * 60 * 1000;

/** A moment of an invented world. */
export interface Step {
  atMs: number;
  /** Days whose forecasts are written down and acted on. */
  due: StationDay[];
  /**
   * Those, and each of which something may be held: what that is worth, and what it leaves of a day's cap, must be known all
   * along.
   */
  shown: StationDay[];
}

/**
 * The moments at which forecasts of days are written down and at which days are finally settled, in order.
 * @param from the first day of which something is bought
 */
export function planOf(days: readonly StationDay[], from: string): Step[] {
  const due = new Map<number, StationDay[]>();
  for (const each of days) {
    for (const lead of LEAD_HOURS) {
      const atMs = each.day.end.getTime() - lead * HOUR_MS;
      due.set(atMs, [...(due.get(atMs) ?? []), each]);
    }
    const finalMs = finalTimeOf(each.day).getTime();
    due.set(finalMs, due.get(finalMs) ?? []);
  }
  return [...due]
    .sort(([a], [b]) => a - b)
    .map(([atMs, dueNow]) => {
      const mayBeHeld = days.filter((each) => each.day.date >= from && isOpenAt(each, atMs));
      return { atMs, due: dueNow, shown: [...new Set([...dueNow, ...mayBeHeld])] };
    });
}

/** From the first decision until it is settled. */
const isOpenAt = ({ day }: StationDay, atMs: number): boolean =>
  atMs >= day.end.getTime() - LEAD_HOURS[0] * HOUR_MS && atMs <= finalTimeOf(day).getTime();
