import { addDays, daysBetween } from '../market/calendar.js';
import { climateDayAt } from '../market/climate-day.js';
import type { Station } from '../market/stations.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** What a history is asked for at once. */
const CHUNK_DAYS = 31;

/** Climate days, both included. */
export interface Range {
  from: string;
  to: string;
}

/** Days that are asked for in one question. */
export interface Chunk extends Range {
  /** The days in it that are missing. */
  missing: number;
}

/** The last day that is over at all of these stations. */
export const lastDayOver = (stations: readonly Station[], nowMs: number): string =>
  stations.map((station) => climateDayAt(station, new Date(nowMs - DAY_MS)).date).toSorted()[0]!;

/** Questions that bring every missing day, in order, each about 31 days at most and about none that is there at its ends. */
export function planChunks({ from, to }: Range, isThere: (date: string) => boolean): Chunk[] {
  const chunks: Chunk[] = [];
  for (const date of daysBetween(from, to)) {
    if (isThere(date)) continue;
    const open = chunks.at(-1);
    if (open && date < addDays(open.from, CHUNK_DAYS)) {
      open.to = date;
      open.missing++;
    } else chunks.push({ from: date, to: date, missing: 1 });
  }
  return chunks;
}
