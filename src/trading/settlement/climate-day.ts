import type { Station } from './stations.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;

/** A day as climate reports have it: midnight to midnight in local standard time, in summer too (1:00 to 1:00 by the clock). */
export interface ClimateDay {
  /** `YYYY-MM-DD` at the station. */
  date: string;
  /** UTC, inclusive. */
  start: Date;
  /** UTC, exclusive. */
  end: Date;
}

type Offset = Pick<Station, 'standardOffsetHours'>;

/** The climate day of a station that a moment belongs to. */
export function climateDayAt(station: Offset, at: Date): ClimateDay {
  const local = new Date(at.getTime() + station.standardOffsetHours * HOUR_MS);
  return climateDayOf(station, local.toISOString().slice(0, 10));
}

/**
 * The climate day of a station on a date.
 * @throws RangeError for a text that is no date
 */
export function climateDayOf(station: Offset, date: string): ClimateDay {
  const midnight = Date.parse(`${date}T00:00:00Z`);
  if (!/^\d{4}-\d\d-\d\d$/.test(date) || Number.isNaN(midnight))
    throw new RangeError(`${date} is not a date`);
  const start = midnight - station.standardOffsetHours * HOUR_MS;
  return { date, start: new Date(start), end: new Date(start + DAY_MS) };
}
