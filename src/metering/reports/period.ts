import { fieldError, requireDayOrder } from '../../core/pages/form.js';
import { formatDay, formatMonth } from '../../core/pages/format.js';
import { parseInput } from '../../core/http/validate.js';
import { rangeSchemas, type RangeKind } from '../events/page-schema.js';
import { HOUR_MS, DAY_MS } from '../../core/time.js';

const MAX_DAYS = 366;

/** UTC, `to` exclusive, in steps of an hour or a day. */
export interface Period {
  range: RangeKind;
  from: Date;
  to: Date;
  stepMs: number;
}

const utcDay = (date: string): Date => new Date(`${date}T00:00:00Z`);
/** In days, for ranges that end today. */
const lastDays: Partial<Record<RangeKind, number>> = { last7: 7, last30: 30 };

export const addMonths = (at: Date, count: number): Date =>
  new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + count, 1));
export const toDateText = (at: Date): string => at.toISOString().slice(0, 10);
const toMonthText = (at: Date): string => at.toISOString().slice(0, 7);

export function dayPeriod(at: Date): Period {
  const from = utcDay(toDateText(at));
  return { range: 'day', from, to: new Date(from.getTime() + DAY_MS), stepMs: HOUR_MS };
}

export const monthPeriod = (at: Date): Period => ({
  range: 'month',
  from: addMonths(at, 0),
  to: addMonths(at, 1),
  stepMs: DAY_MS,
});

function lastPeriod(range: RangeKind, days: number, at: Date): Period {
  const { to } = dayPeriod(at);
  return { range, from: new Date(to.getTime() - days * DAY_MS), to, stepMs: DAY_MS };
}

/** Default: the current day or month. */
export function parsePeriod(range: RangeKind, query: unknown, now: Date): Period {
  if (range === 'day') {
    const { date } = parseInput(rangeSchemas.day, query);
    return dayPeriod(date === undefined ? now : utcDay(date));
  }
  if (range === 'month') {
    const { month } = parseInput(rangeSchemas.month, query);
    return monthPeriod(month === undefined ? now : utcDay(`${month}-01`));
  }
  const days = lastDays[range];
  if (days !== undefined) return lastPeriod(range, days, now);
  const { from, to } = parseInput(rangeSchemas.custom, query);
  requireDayOrder({ from, to });
  const end = new Date(utcDay(to).getTime() + DAY_MS);
  const length = (end.getTime() - utcDay(from).getTime()) / DAY_MS;
  if (length > MAX_DAYS) throw fieldError('to', `must be at most ${MAX_DAYS} days, not ${length}`);
  const month = monthPeriod(utcDay(from));
  // The days of a whole month have its projection and its cap.
  const isMonth = from === toDateText(month.from) && end.getTime() === month.to.getTime();
  return isMonth ? month : { range, from: utcDay(from), to: end, stepMs: DAY_MS };
}

/** Includes a partial last step. UTC days always have 24 hours. */
export function stepsOf({ from, to, stepMs }: Period): Date[] {
  const count = Math.ceil((to.getTime() - from.getTime()) / stepMs);
  return Array.from({ length: count }, (_, i) => new Date(from.getTime() + i * stepMs));
}

export const includes = ({ from, to }: Period, at: Date): boolean => from <= at && at < to;

export function toPeriodQuery({ range, from, to }: Period): Record<string, string> {
  if (range === 'day') return { range, date: toDateText(from) };
  if (range === 'month') return { range, month: toMonthText(from) };
  return lastDays[range] === undefined ? { range, ...daysOf({ from, to }) } : { range };
}

export const daysOf = ({ from, to }: Pick<Period, 'from' | 'to'>) => ({
  from: toDateText(from),
  to: toDateText(lastDay(to)),
});

/** Undefined outside the years that a page accepts. */
export function neighbour(period: Period, direction: -1 | 1): Period | undefined {
  const lengthMs = period.to.getTime() - period.from.getTime();
  const shift = (at: Date) => new Date(at.getTime() + direction * lengthMs);
  const moved =
    period.range === 'month'
      ? monthPeriod(addMonths(period.from, direction))
      : {
          ...period,
          range: period.range === 'day' ? ('day' as const) : ('custom' as const),
          from: shift(period.from),
          to: shift(period.to),
        };
  const years = [moved.from, lastDay(moved.to)].map((at) => at.getUTCFullYear());
  return years.every((year) => year >= 2000 && year <= 2099) ? moved : undefined;
}

/** Undefined if a page does not accept it. Before a period in progress, only as many hours as have started. */
export function periodBefore(period: Period, now: Date): Period | undefined {
  const before = neighbour(period, -1);
  if (!before || !includes(period, now)) return before;
  const passedMs = (Math.floor((now.getTime() - period.from.getTime()) / HOUR_MS) + 1) * HOUR_MS;
  return { ...before, to: new Date(Math.min(before.from.getTime() + passedMs, before.to.getTime())) };
}

/** Also what the same part of the period before had: up to the same hour. Undefined if `read` cannot tell. */
export async function readBefore<T extends { start: number }>(
  period: Period,
  now: Date,
  read: (range: Period) => Promise<T[] | undefined>,
) {
  const whole = neighbour(period, -1);
  const same = periodBefore(period, now);
  if (!whole || !same) return undefined;
  const rows = await read(whole);
  const last = stepsOf(same).at(-1)!;
  const isCut = same.to.getTime() - last.getTime() < same.stepMs;
  const end = (isCut ? last : same.to).getTime();
  const ofCut = isCut ? await read({ ...same, from: last }) : [];
  if (!rows || !ofCut) return undefined;
  return { whole, same, rows, sameRows: [...rows.filter(({ start }) => start < end), ...ofCut] };
}

/** The month of a day, the last day of a month, or the same days as a custom range. */
export function asRange(period: Period, range: RangeKind, now: Date): Period {
  if (range === period.range) return period;
  const last = includes(period, now) ? now : lastDay(period.to);
  if (range === 'month') return monthPeriod(last);
  const days = lastDays[range];
  if (days !== undefined) return lastPeriod(range, days, now);
  if (range === 'custom') return { ...period, range, stepMs: DAY_MS };
  return dayPeriod(last);
}

const lastDay = (to: Date): Date => new Date(to.getTime() - DAY_MS);

/** `November 2026`, `21 Nov 2026` or `1 Oct 2026 – 15 Nov 2026`. */
export function formatPeriod({ range, from, to }: Period): string {
  if (range === 'month') return formatMonth(from);
  const last = lastDay(to);
  return range === 'day' || from >= last ? formatDay(from) : `${formatDay(from)} – ${formatDay(last)}`;
}

/** `21 Nov 2026` or `13:00`. */
export const stepName = (start: Date, isHour: boolean): string =>
  isHour ? start.toISOString().slice(11, 16) : formatDay(start);
