import { ticksAround } from './line-chart.js';

/** One bar of a chart. Doubles are precise enough for pixel positions; the chart's table shows the exact numbers. */

export interface Bar {
  axis: string;
  /** Full text, such as `21 Nov 2026: 1,234 requests`. */
  label: string;
  value: number;
  href?: string;
  parts?: number[];
  /** An estimate of what will be added. */
  estimate?: number | undefined;
}

interface Comparison {
  /** For the first bars, drawn as a line through their centres. */
  before?: readonly number[] | undefined;
  cap?: { value: number; label: string; isPassed: boolean } | undefined;
}

export const CHART_HEIGHT = 240;
/** Minimum height of a nonzero bar in pixels, so that it stays visible. */
const MIN_HEIGHT = 2;

/** Lays out a bar chart. X positions are percentages, so the chart fits any width without scaling its text. */
export function toChart(summary: string, bars: Bar[], { before, cap }: Comparison = {}) {
  const values = [
    ...bars.flatMap(({ value, estimate = 0 }) => (estimate > 0 ? [value, value + estimate] : [value])),
    ...(before ?? []),
    ...(cap ? [cap.value] : []),
  ].map(finite);
  const ticks = niceTicks(Math.max(...values), values.every(Number.isInteger));
  const top = ticks.at(-1)!;
  const toY = (value: number) => CHART_HEIGHT * (1 - finite(value) / top);
  const step = 100 / bars.length;
  return {
    summary,
    height: CHART_HEIGHT,
    bars: bars.map(({ value, label, href, parts = [value], estimate = 0 }, i) => {
      const height = value === 0 ? 0 : Math.max(MIN_HEIGHT, CHART_HEIGHT - toY(value));
      const y = Math.min(toY(value + estimate), CHART_HEIGHT - height);
      return {
        x: percent(step * (i + 0.1)),
        width: percent(step * 0.8),
        hitX: percent(step * i),
        hitWidth: percent(step),
        label,
        href,
        parts: stack(parts, height / finite(value)),
        estimate:
          estimate > 0 ? { y: y.toFixed(1), height: (CHART_HEIGHT - height - y).toFixed(1) } : undefined,
      };
    }),
    ticks: ticks.map((value) => ({ y: toY(value).toFixed(1), label: formatTick(value) })),
    axis: pickLabels(bars.map((bar) => bar.axis)).map(({ index, ...rest }) => ({
      x: percent(step * (index + 0.5)),
      ...rest,
    })),
    /** In a box as wide as the number of bars. */
    line: before && {
      width: bars.length,
      path: before.map((value, i) => `${i === 0 ? 'M' : 'L'}${i + 0.5} ${toY(value).toFixed(1)}`).join(''),
    },
    cap: cap && { ...cap, y: toY(cap.value).toFixed(1) },
  };
}

/** Stacks the nonzero parts, each with its original index. `scale` is in pixels per unit. */
function stack(parts: number[], scale: number): { place: number; y: string; height: string }[] {
  let below = 0;
  return parts.flatMap((part, place) => {
    if (part === 0) return [];
    below += finite(part);
    return [
      { place, y: (CHART_HEIGHT - below * scale).toFixed(1), height: (finite(part) * scale).toFixed(1) },
    ];
  });
}

const percent = (value: number): string => `${Number(value.toFixed(3))}%`;

/** Caps the value, because the sum of very long decimals may overflow a double. */
const finite = (value: number): number => Math.min(value, 1e300);

export const niceTicks = (max: number, isWhole = false): number[] =>
  max > 0 ? ticksAround(0, max, isWhole) : [0, 1];

const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 4 });

/** Formats a tick compactly, from `0.000005` to `1e+42`. */
export function formatTick(value: number): string {
  if (value !== 0 && (value >= 1e15 || value < 1e-4)) return value.toExponential().replace('e+', 'e');
  return compact.format(value);
}

const MAX_LABELS = 8;

/** Picks at most eight labels. Every second one is shown only on wide screens. */
function pickLabels(labels: string[]): { index: number; label: string; isMinor: boolean }[] {
  const every = Math.ceil(labels.length / MAX_LABELS);
  return labels.flatMap((label, index) =>
    index % every === 0 ? [{ index, label, isMinor: (index / every) % 2 === 1 }] : [],
  );
}
