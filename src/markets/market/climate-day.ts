import { createRecall } from '../../core/collections.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import type { Place } from './place.js';

/** Inclusive; empty if `to` is before `from`. */
export function daysBetween(from: string, to: string): string[] {
  const [first, last] = [Date.parse(from), Date.parse(to)];
  const count = Math.max(0, Math.round((last - first) / DAY_MS) + 1);
  return Array.from({ length: count }, (_, i) => addDays(from, i));
}

/** Undefined for a date that does not exist, such as April 31. */
export function dateFrom(year: string, month: number, day: string): string | undefined {
  const date = `${year}-${String(month).padStart(2, '0')}-${day.padStart(2, '0')}`;
  const midnight = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(midnight) && dateOf(midnight) === date ? date : undefined;
}

export const addDays = (date: string, days: number): string => dateOf(Date.parse(date) + days * DAY_MS);

/** Several years. Forecasts, reports and markets use the same dates repeatedly. */
const MAX_KEPT = 2_000;
const recallDate = createRecall<string>(MAX_KEPT);
const recallMidnight = createRecall<number>(MAX_KEPT);

/** `YYYY-MM-DD`, UTC. */
export function dateOf(ms: number): string {
  const day = Math.floor(ms / DAY_MS);
  return recallDate(day, () => new Date(day * DAY_MS).toISOString().slice(0, 10));
}

/** Midnight to midnight in local standard time all year: 1:00 to 1:00 by the clock in summer. */
export interface ClimateDay {
  /** `YYYY-MM-DD` at the station. */
  date: string;
  /** UTC, inclusive. */
  start: Date;
  /** UTC, exclusive. */
  end: Date;
}

type Offset = Pick<Place, 'standardOffsetHours'>;

export function climateDayAt(station: Offset, at: Date): ClimateDay {
  return climateDayOf(station, dateOf(at.getTime() + station.standardOffsetHours * HOUR_MS));
}

/** @throws RangeError for an invalid date */
export function climateDayOf(station: Offset, date: string): ClimateDay {
  const start = recallMidnight(date, () => midnightOf(date)) - station.standardOffsetHours * HOUR_MS;
  return { date, start: new Date(start), end: new Date(start + DAY_MS) };
}

function midnightOf(date: string): number {
  const midnight = Date.parse(`${date}T00:00:00Z`);
  if (!/^\d{4}-\d\d-\d\d$/.test(date) || Number.isNaN(midnight))
    throw new RangeError(`${date} is not a date`);
  return midnight;
}

const recallFormat = createRecall<Intl.DateTimeFormat>(100);
const recallClock = createRecall<ReturnType<typeof readClock>>(MAX_KEPT);

/** Includes daylight saving time. */
export const clockAt = ({ timeZone }: Pick<Place, 'timeZone'>, at: Date) =>
  recallClock(`${timeZone} ${at.getTime()}`, () => readClock(timeZone, at));

function readClock(timeZone: string, at: Date) {
  const fields = { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit' } as const;
  const clock = recallFormat(
    timeZone,
    () => new Intl.DateTimeFormat('en-CA', { timeZone, ...fields, hourCycle: 'h23' }),
  );
  const parts = Object.fromEntries(clock.formatToParts(at).map(({ type, value }) => [type, value]));
  return { date: `${parts.year}-${parts.month}-${parts.day}`, hour: Number(parts.hour) };
}

/** The first of an hour that occurs twice in autumn; the next hour for one skipped in spring. */
export function hourOf(place: Pick<Place, 'timeZone' | 'standardOffsetHours'>, date: string, hour: number) {
  const standard = climateDayOf(place, date).start.getTime() + hour * HOUR_MS;
  const isSummer = clockAt(place, new Date(standard - HOUR_MS));
  return new Date(isSummer.hour === hour && isSummer.date === date ? standard - HOUR_MS : standard);
}
