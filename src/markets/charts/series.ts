import { groupBy } from '../../core/collections.js';
import { formatCount, formatDay, formatDecimal, formatShortDay, utc } from '../../core/pages/format.js';
import { DAY_MS } from '../../core/time.js';
import { toLineChart } from '../../core/charts/line-chart.js';
import { formatFixed, formatTick, toPercent } from '../../core/charts/text.js';
import type { CrpsPoint } from '../scores/schema.js';

/** Long series use longer spans. Dates are `YYYY-MM-DD`. */
type Period = 'day' | 'week' | 'month' | 'year';

const MAX_DAYS = 45;
const MAX_WEEKS = 53;
const MAX_MONTHS = 240;

/** The shortest whose points fit in a chart. */
export function choosePeriod(first: string, last: string): Period {
  const days = (Date.parse(last) - Date.parse(first)) / DAY_MS + 1;
  if (days <= MAX_DAYS) return 'day';
  if (days <= MAX_WEEKS * 7) return 'week';
  return days <= MAX_MONTHS * 31 ? 'month' : 'year';
}

/** Weeks begin on Monday. */
export function startOf(date: string, period: Period): string {
  if (period === 'year') return `${date.slice(0, 4)}-01-01`;
  if (period === 'month') return `${date.slice(0, 7)}-01`;
  if (period === 'day') return date;
  const ms = Date.parse(date);
  return toDate(ms - ((new Date(ms).getUTCDay() + 6) % 7) * DAY_MS);
}

/** Includes periods without data. */
export function periodsBetween(first: string, last: string, period: Period): string[] {
  const starts: string[] = [];
  const end = startOf(last, period);
  for (let start = startOf(first, period); start <= end; start = next(start, period)) starts.push(start);
  return starts;
}

/** Jumps to a day inside the next period, then back to its first day. */
const next = (start: string, period: Period): string =>
  startOf(toDate(Date.parse(start) + { day: 1, week: 7, month: 31, year: 366 }[period] * DAY_MS), period);

const toDate = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

const shortMonth = utc({ month: 'short', year: 'numeric' });

function formatPeriod(start: string, period: Period): string {
  if (period === 'year') return start.slice(0, 4);
  const at = new Date(start);
  return period === 'month' ? shortMonth.format(at) : formatDay(at);
}

const formatPeriodShort = (start: string, period: Period): string =>
  period === 'day' || period === 'week' ? formatShortDay(new Date(start)) : formatPeriod(start, period);

type SeriesName = 'model' | 'market' | 'raw' | 'climate';

interface Series {
  name: SeriesName;
  label: string;
}

/** Null if the day's forecasts could not be scored. */
export interface SeriesPoint {
  date: string;
  n: number;
  values: Partial<Record<SeriesName, number | null>>;
}

const LABEL_HEIGHT = 15;

/** The compared models changed on this date. */
interface Mark {
  date: string;
  label: string;
}

/** In °F. Null while nothing has been scored. */
export const toCrpsChart = (points: readonly CrpsPoint[], marks: readonly Mark[] = []) =>
  toSeriesChart({
    marks,
    title: 'Distance from the outcome',
    unit: '°F',
    series: [
      { name: 'model', label: 'Model' },
      { name: 'market', label: 'Market' },
      { name: 'raw', label: 'Raw model' },
    ],
    points: points.map(({ date, n, ...values }) => ({ date, n, values })),
  });

/**
 * Smaller is better. Grouped periods weight each day by its number of forecasts. Periods without forecasts leave gaps.
 * `unit` follows the numbers and may be empty.
 */
export function toSeriesChart({
  title,
  unit,
  series,
  points,
  marks = [],
}: {
  title: string;
  unit: string;
  series: readonly Series[];
  points: readonly SeriesPoint[];
  marks?: readonly Mark[];
}) {
  const [first, last] = [points[0]?.date, points.at(-1)?.date];
  if (first === undefined || last === undefined) return null;
  const period = choosePeriod(first, last);
  const groups = groupBy(points, ({ date }) => startOf(date, period));
  const format = (value: number | null) => (value === null ? 'none' : formatFixed(value, 2));
  const { starts, isShortened } = shortenGaps(periodsBetween(first, last, period), (start) =>
    groups.has(start),
  );
  const rows = starts.map((start) => {
    const group = groups.get(start) ?? [];
    return { start, n: count(group), values: series.map(({ name }) => meanOf(group, name)) };
  });
  const chart = toLineChart({
    summary: describe(points, series, unit),
    labels: rows.map(
      ({ start, n, values }) =>
        `${formatPeriod(start, period)}: ${n === 0 ? 'no forecasts' : `${series.map(({ label }, i) => `${label} ${format(values[i]!)}`).join(', ')} (n = ${n})`}`,
    ),
    axis: rows.map(({ start }) => formatPeriodShort(start, period)),
    lines: series
      .map(({ name }, i) => ({ name, values: rows.map(({ values }) => values[i]!) }))
      // The first series is the chart's subject.
      .toReversed(),
    formatTick: (value) => formatTick(value) + (unit && `\u00a0${unit}`),
  });
  return {
    ...chart,
    title,
    period,
    isShortened,
    legend: [...series],
    marks: marks.flatMap((mark) => placeMark(mark, starts, { first, last, period })),
    endLabels: placeLabels(series, chart),
    table: {
      caption: unit === '' ? title : `${title}, ${unit}`,
      columns: [periodNames[period], 'Forecasts', ...series.map(({ label }) => label)],
      rows: rows
        .filter(({ n }) => n > 0)
        .toReversed()
        .map(({ start, n, values }) => [
          formatPeriod(start, period),
          formatDecimal(n),
          ...values.map(format),
        ]),
    },
  };
}

/** The first drawn period that reaches the date. Empty outside the chart. */
function placeMark(
  { date, label }: Mark,
  starts: readonly string[],
  { first, last, period }: { first: string; last: string; period: Period },
): { x: string; label: string }[] {
  const index = starts.findIndex((start) => start >= startOf(date, period));
  if (date < first || date > last || index < 0) return [];
  return [{ x: toPercent(starts.length === 1 ? 0.5 : index / (starts.length - 1)), label }];
}

/** If most periods have no forecasts, for example outside the season, each gap shrinks to one. */
function shortenGaps(starts: readonly string[], has: (start: string) => boolean) {
  const isShortened = starts.filter(has).length < starts.length / 2;
  const kept = isShortened ? starts.filter((start, i) => has(start) || has(starts[i - 1]!)) : [...starts];
  return { starts: kept, isShortened };
}

const periodNames = { day: 'Day', week: 'Week from', month: 'Month', year: 'Year' } as const;

const count = (points: readonly SeriesPoint[]): number => points.reduce((sum, { n }) => sum + n, 0);

function meanOf(points: readonly SeriesPoint[], name: SeriesName): number | null {
  let [sum, weight] = [0, 0];
  for (const { n, values } of points) {
    const value = values[name];
    if (value === null || value === undefined || n === 0) continue;
    sum += value * n;
    weight += n;
  }
  return weight === 0 ? null : sum / weight;
}

function describe(points: readonly SeriesPoint[], series: readonly Series[], unit: string): string {
  const total = count(points);
  const means = series.flatMap(({ name, label }) => {
    const mean = meanOf(points, name);
    return mean === null ? [] : [`${label} ${formatFixed(mean, 2)}${unit && `\u00a0${unit}`}`];
  });
  return `Mean over ${formatCount(total, 'forecast')}: ${means.join(', ')}.`;
}

/** At the end of each line, shifted until no two overlap. */
function placeLabels(series: readonly Series[], { lines, height }: ReturnType<typeof toLineChart>) {
  const labels = series
    .flatMap(({ name, label }) => {
      const end = lines.find((line) => line.name === name)?.end;
      return end === null || end === undefined ? [] : [{ name, label, y: end }];
    })
    .sort((a, b) => a.y - b.y);
  for (const [i, label] of labels.entries())
    if (i > 0) label.y = Math.max(label.y, labels[i - 1]!.y + LABEL_HEIGHT);
  for (let i = labels.length - 1; i >= 0; i--)
    labels[i]!.y = Math.min(labels[i]!.y, height - (labels.length - 1 - i) * LABEL_HEIGHT);
  return labels.map(({ y, ...label }) => ({ ...label, y: y.toFixed(1) }));
}
