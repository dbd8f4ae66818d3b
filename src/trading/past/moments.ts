import { LEAD_HOURS } from '../signals/leads.js';
import { RECORD_WINDOW_MS } from '../scores/records.js';
import { daysBetween } from '../market/calendar.js';
import { subjectsOn, type Selection, type Subject } from '../venue/simulation/world.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/** A time at which forecasts of some days were due to be written down. */
export interface Moment {
  at: Date;
  subjects: readonly Subject[];
}

/** The moments of the climate days of the last days, in order, of which something is missing. The present is left to itself. */
export function pastMoments(
  now: Date,
  days: number,
  selection: Selection,
  isThere: (subject: Subject, lead: number) => boolean,
): Moment[] {
  const latest = now.getTime() - RECORD_WINDOW_MS;
  const dates = daysBetween(dateOf(now.getTime() - days * DAY_MS), dateOf(latest + 2 * DAY_MS));
  const byTime = new Map<number, Subject[]>();
  for (const subject of dates.flatMap((date) => subjectsOn(date, selection)))
    for (const lead of LEAD_HOURS) {
      const ms = subject.span.end.getTime() - lead * HOUR_MS;
      if (ms > latest || isThere(subject, lead)) continue;
      const found = byTime.get(ms);
      if (found) found.push(subject);
      else byTime.set(ms, [subject]);
    }
  return [...byTime].sort(([a], [b]) => a - b).map(([ms, subjects]) => ({ at: new Date(ms), subjects }));
}

export const dateOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
