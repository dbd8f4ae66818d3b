import { formatDecimal } from '../../core/pages/format.js';
import { ticksAround } from '../../core/charts/line-chart.js';
import {
  anchorOf,
  formatSigned,
  formatTick,
  toPercent,
  toPixels,
  type ChartTable,
} from '../../core/charts/text.js';

/** Negative values favour the model. */
export interface IntervalRow {
  /** Listed together under its name. */
  group: string;
  label: string;
  n: number;
  difference: { mean: number; low: number; high: number } | null;
  isOpen: boolean;
}

const LANE = 22;
const HEAD = 26;
/** Intervals beyond this multiple of the median distance from zero are cut off, so that the others stay readable. */
const MAX_RATIO = 4;

/** X is in percent of the width, y in pixels. Null without rows. */
export function toIntervalChart(rows: readonly IntervalRow[]) {
  if (rows.length === 0) return null;
  const ticks = ticksOf(rows);
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const toX = (value: number) => toPercent((Math.min(high, Math.max(low, value)) - low) / (high - low));
  let y = 0;
  const groups: { label: string; y: string }[] = [];
  const lanes = rows.map((row, i) => {
    if (i === 0 || rows[i - 1]!.group !== row.group) {
      y += HEAD;
      groups.push({ label: row.group, y: toPixels(y - 8) });
    }
    y += LANE;
    const { difference } = row;
    return {
      y: toPixels(y - LANE / 2),
      label: row.label,
      /** Null if there are too few days; `note` says so. */
      interval: difference && {
        from: toX(difference.low),
        to: toX(difference.high),
        mean: toX(difference.mean),
        isCutLow: difference.low < low,
        isCutHigh: difference.high > high,
      },
      isOpen: row.isOpen,
      note: noteOf(row),
    };
  });
  return {
    title: 'Log score, model minus price of the outcome',
    summary: describe(rows),
    height: y + 6,
    zero: toX(0),
    ticks: ticks.map((tick, i) => ({
      x: toX(tick),
      anchor: anchorOf(i, ticks.length),
      label: formatTick(tick),
      isMinor: i % 2 === 1,
    })),
    groups,
    lanes,
    table: toTable(rows),
  };
}

/** Covers zero and all intervals except extremely long ones. */
function ticksOf(rows: readonly IntervalRow[]): number[] {
  const found = rows.flatMap(({ difference }) => (difference ? [difference] : []));
  const reaches = found.map(({ low, high }) => Math.max(Math.abs(low), Math.abs(high))).sort((a, b) => a - b);
  const limit = MAX_RATIO * (reaches[Math.floor((reaches.length - 1) / 2)] ?? 0);
  return ticksAround(
    Math.max(-limit, Math.min(0, ...found.map(({ low }) => low))),
    Math.min(limit, Math.max(0, ...found.map(({ high }) => high))),
  );
}

function noteOf({ group, label, n, difference }: IntervalRow): string {
  const of = `${group}, ${label}: `;
  if (!difference) return `${of}too few days to compare (${formatDecimal(n)})`;
  const { mean, low, high } = difference;
  return `${of}${formatSigned(mean, 3)}, between ${formatSigned(low, 3)} and ${formatSigned(high, 3)} over ${formatDecimal(n)} days`;
}

function describe(rows: readonly IntervalRow[]): string {
  const compared = rows.filter(({ difference }) => difference !== null);
  if (compared.length === 0) return 'Too few days have settled to compare the model with prices.';
  const ahead = compared.filter(({ difference }) => difference!.high < 0).length;
  const behind = compared.filter(({ difference }) => difference!.low > 0).length;
  return `The whole interval favours the model in ${ahead} of ${compared.length} ${compared.length === 1 ? 'comparison' : 'comparisons'}, and the market in ${behind}. The others are inconclusive.`;
}

const toTable = (rows: readonly IntervalRow[]): ChartTable => ({
  caption: 'Mean log score of the model minus that of the price of each outcome, fee included',
  columns: ['Station and lead', 'Days', 'Difference', 'Interval', 'Gate'],
  rows: rows.map(({ group, label, n, difference, isOpen }) => [
    `${group}, ${label}`,
    formatDecimal(n),
    difference ? formatSigned(difference.mean, 3) : '–',
    difference ? `${formatSigned(difference.low, 3)} to ${formatSigned(difference.high, 3)}` : '–',
    isOpen ? 'Open' : 'Closed',
  ]),
});
