import { LEAD_HOURS } from '../scores/leads.js';
import { RECORD_WINDOW_MS } from '../scores/records.js';
import { stationDaysBetween, type StationDay } from '../simulation/world.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/** A time at which forecasts of some days were due to be written down. */
export interface Moment {
  at: Date;
  days: readonly StationDay[];
}

/** The moments of the climate days of the last days, in order, of which something is missing. The present is left to itself. */
export function pastMoments(
  now: Date,
  days: number,
  isThere: (stationId: string, date: string, lead: number) => boolean,
): Moment[] {
  const latest = now.getTime() - RECORD_WINDOW_MS;
  const range = { from: dateOf(now.getTime() - days * DAY_MS), to: dateOf(latest + 2 * DAY_MS) };
  const byTime = new Map<number, StationDay[]>();
  for (const stationDay of stationDaysBetween(range))
    for (const lead of LEAD_HOURS) {
      const { station, day } = stationDay;
      const ms = day.end.getTime() - lead * HOUR_MS;
      if (ms > latest || isThere(station.id, day.date, lead)) continue;
      byTime.set(ms, [...(byTime.get(ms) ?? []), stationDay]);
    }
  return [...byTime].sort(([a], [b]) => a - b).map(([ms, days]) => ({ at: new Date(ms), days }));
}

export const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
