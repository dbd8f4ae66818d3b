import type { Place } from './stations.js';

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

type Offset = Pick<Place, 'standardOffsetHours'>;

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

const clocks = new Map<string, Intl.DateTimeFormat>();

/** What the clock of a place shows: in summer an hour ahead of standard time, where there is summer time. */
export function clockAt({ timeZone }: Pick<Place, 'timeZone'>, at: Date): { date: string; hour: number } {
  let clock = clocks.get(timeZone);
  if (!clock) {
    const fields = {
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      hourCycle: 'h23',
    } as const;
    clocks.set(timeZone, (clock = new Intl.DateTimeFormat('en-CA', { timeZone, ...fields })));
  }
  const parts = Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, value]));
  return { date: `${parts.year}-${parts.month}-${parts.day}`, hour: Number(parts.hour) };
}

/**
 * The moment at which the clock of a place shows a whole hour. In the night when clocks are set back it is the first of
 * the two; an hour that is left out in spring is the one after it.
 */
export function hourOf(
  place: Pick<Place, 'timeZone' | 'standardOffsetHours'>,
  date: string,
  hour: number,
): Date {
  const standard = climateDayOf(place, date).start.getTime() + hour * HOUR_MS;
  const isSummer = clockAt(place, new Date(standard - HOUR_MS));
  return new Date(isSummer.hour === hour && isSummer.date === date ? standard - HOUR_MS : standard);
}
