const DAY_MS = 24 * 60 * 60 * 1000;
/** 2010-03-01, alone or before a time; / and . may stand for the dashes. */
const separated = /^(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\d.*)?$/;
/** 20100301, alone or before hours, minutes and seconds. */
const compact = /^(\d{4})(\d{2})(\d{2})(?:\d{2}){0,3}(?:Z|T\d.*)?$/;

/**
 * The number of the calendar day that a date names, 0 for 1970-01-01; undefined if it is none. A time is passed over:
 * what counts is the day as it is written. Dates whose day and month could be mixed up are not guessed at.
 */
export function parseDay(text: string): number | undefined {
  const found = separated.exec(text);
  if (found) return dayOf(Number(found[1]), Number(found[3]), Number(found[4]));
  const other = compact.exec(text);
  return other ? dayOf(Number(other[1]), Number(other[2]), Number(other[3])) : undefined;
}

function dayOf(year: number, month: number, day: number): number | undefined {
  const date = new Date(Date.UTC(year, month - 1, day));
  const isReal = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1;
  return isReal ? date.getTime() / DAY_MS : undefined;
}

/** 1 to 12. */
export const monthOf = (day: number): number => new Date(day * DAY_MS).getUTCMonth() + 1;

/** YYYY-MM-DD. */
export const formatDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);
