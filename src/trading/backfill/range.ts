import { addDays, daysBetween } from '../market/calendar.js';
import type { Station } from '../market/stations.js';
import { lastDayOver, type Range } from './plan.js';

/** What a fit learns from: it looks no further back. */
export const DEFAULT_DAYS = 90;
/** What is older than this is removed by the service. */
export const MAX_DAYS = 400;

export interface RangeFlags {
  days?: string;
  from?: string;
  to?: string;
}

/** The flags do not name days of the past; the message says which one and why. */
export class DateRangeError extends Error {}

/**
 * The days that the flags mean, all of them over at every station.
 * @throws DateRangeError
 */
export function readRange(flags: RangeFlags, stations: readonly Station[], nowMs: number): Range {
  const last = lastDayOver(stations, nowMs);
  const to = readDate('--to', flags.to) ?? last;
  if (to > last) throw new DateRangeError(`--to ${to} is not over yet: ${last} is the last day that is.`);
  const days = readDays(flags.days);
  if (flags.from !== undefined && days !== undefined)
    throw new DateRangeError('--days and --from say the same: give one of them.');
  const from = readDate('--from', flags.from) ?? addDays(to, 1 - (days ?? DEFAULT_DAYS));
  const count = daysBetween(from, to).length;
  if (count === 0) throw new DateRangeError(`--from ${from} is after ${to}, the last day to be filled.`);
  if (count > MAX_DAYS)
    throw new DateRangeError(`${from} to ${to} are ${count} days; ${MAX_DAYS} can be filled at once.`);
  return { from, to };
}

function readDate(flag: string, value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  const isDate = /^\d{4}-\d\d-\d\d$/.test(value) && !Number.isNaN(Date.parse(value));
  // The 31st of a month that has 30 days is taken for the next day.
  if (!isDate || addDays(value, 0) !== value)
    throw new DateRangeError(`${flag} ${JSON.stringify(value)} is not a date like 2026-01-31.`);
  return value;
}

function readDays(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const days = /^\d{1,5}$/.test(value) ? Number(value) : 0;
  if (days < 1 || days > MAX_DAYS)
    throw new DateRangeError(
      `--days ${JSON.stringify(value)} is not a whole number between 1 and ${MAX_DAYS}.`,
    );
  return days;
}
