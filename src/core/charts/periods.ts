import { formatDay } from '../pages/format.js';

/** Days of a calendar, put together where there are too many to be told apart. Dates are `YYYY-MM-DD`. */
export type Period = 'day' | 'week' | 'month' | 'year';

const DAY_MS = 86_400_000;
/** A picture has room for about this many points. */
const MOST_DAYS = 45;
const MOST_WEEKS = 53;
const MOST_MONTHS = 240;

/** The shortest period that leaves no more points than a picture has room for. */
export function choosePeriod(first: string, last: string): Period {
  const days = (Date.parse(last) - Date.parse(first)) / DAY_MS + 1;
  if (days <= MOST_DAYS) return 'day';
  if (days <= MOST_WEEKS * 7) return 'week';
  return days <= MOST_MONTHS * 31 ? 'month' : 'year';
}

/** The first day of the period that a date is in; weeks begin on Monday. */
export function startOf(date: string, period: Period): string {
  if (period === 'year') return `${date.slice(0, 4)}-01-01`;
  if (period === 'month') return `${date.slice(0, 7)}-01`;
  if (period === 'day') return date;
  const ms = Date.parse(date);
  return toDate(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS);
}

/** The starts of all periods from that of `first` to that of `last`, also of those without data. */
export function periodsBetween(first: string, last: string, period: Period): string[] {
  const starts: string[] = [];
  const end = startOf(last, period);
  for (let start = startOf(first, period); start <= end; start = next(start, period)) starts.push(start);
  return starts;
}

/** The start of the next period: a day that is surely in it, and from there back. */
const next = (start: string, period: Period): string =>
  startOf(toDate(Date.parse(start) + { day: 1, week: 7, month: 31, year: 366 }[period] * DAY_MS), period);

const toDate = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const inUtc = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options });
const shortDay = inUtc({ day: 'numeric', month: 'short' });
const shortMonth = inUtc({ month: 'short', year: 'numeric' });

/** `21 Nov 2026`, `Nov 2026`, `2026`. */
export function formatPeriod(start: string, period: Period): string {
  if (period === 'year') return start.slice(0, 4);
  const at = new Date(start);
  return period === 'month' ? shortMonth.format(at) : formatDay(at);
}

/** The same below a picture, where there is little room. */
export const formatPeriodShort = (start: string, period: Period): string =>
  period === 'day' || period === 'week' ? shortDay.format(new Date(start)) : formatPeriod(start, period);
