import { toPercent, type Anchor } from './text.js';

/** Input of a line chart. Doubles are precise enough for pixel positions; the table holds the exact numbers. */

export interface LineChartInput {
  summary: string;
  /** Full text of each point, such as `21 Nov 2026, 12:00 UTC: …`. */
  labels: string[];
  /** Hour or day of each point, shown below the drawing where a new one begins. */
  axis: string[];
  /** From back to front. A null value leaves a gap in the line. */
  lines: { name: string; values: (number | null)[] }[];
  formatTick: (value: number) => string;
  /** Without zero, the drawing shows the range of the values. */
  hasZero?: boolean;
}

const HEIGHT = 200;
const WIDTH = 1000;
const AXIS_LABELS = 4;

/** Only the lines stretch with the drawing; text size and line width stay the same. */
export function toLineChart({ summary, labels, axis, lines, formatTick, hasZero = true }: LineChartInput) {
  const values = lines.flatMap((line) => line.values.filter((value) => value !== null));
  const isFlat = new Set(values).size < 2;
  const shown = hasZero || isFlat ? [0, ...values] : values;
  const ticks = ticksAround(Math.min(...shown), Math.max(...shown));
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const count = labels.length;
  const toX = (index: number) => (count === 1 ? WIDTH / 2 : (index / (count - 1)) * WIDTH);
  const toY = (value: number) => HEIGHT * (1 - (value - low) / (high - low));
  return {
    summary,
    height: HEIGHT,
    width: WIDTH,
    lines: lines.map(({ name, values: lineValues }) => {
      const last = lineValues.findLast((value) => value !== null);
      /** `end`: height of the last value; null for a line without values. */
      return {
        name,
        paths: toPaths(lineValues, toX, toY),
        bridges: toBridges(lineValues, toX, toY),
        end: last === undefined ? null : toY(last),
      };
    }),
    ticks: ticks.map((value) => ({
      y: toY(value).toFixed(1),
      label: formatTick(value),
      isZero: value === 0,
    })),
    axis: pickIndexes(axis).map((index, place) => ({
      x: toPercent(toX(index) / WIDTH),
      anchor: anchorAt(toX(index) / WIDTH),
      label: axis[index]!,
      isMinor: place % 2 === 1,
    })),
    hits: labels.map((label, index) => ({
      x: toPercent(Math.max(0, (index - 0.5) / Math.max(1, count - 1))),
      width: toPercent(1 / Math.max(1, count - 1)),
      label,
    })),
  };
}

/** One path per stretch without a gap. An isolated point becomes a stroke so short that only its round caps show. */
export function toPaths(
  values: (number | null)[],
  toX: (index: number) => number,
  toY: (value: number) => number,
): string[] {
  const paths: string[][] = [];
  let isDrawing = false;
  for (const [index, value] of values.entries()) {
    if (value === null) {
      isDrawing = false;
      continue;
    }
    if (!isDrawing) paths.push([]);
    isDrawing = true;
    paths.at(-1)!.push(`${toX(index).toFixed(1)} ${toY(value).toFixed(1)}`);
  }
  return paths.map((points) => `M${points.join('L')}${points.length === 1 ? 'h0' : ''}`);
}

/** One path across each gap, from the last value before it to the first one after it. */
function toBridges(
  values: (number | null)[],
  toX: (index: number) => number,
  toY: (value: number) => number,
): string[] {
  const known = values.flatMap((value, index) => (value === null ? [] : [{ index, value }]));
  const pointOf = ({ index, value }: { index: number; value: number }) =>
    `${toX(index).toFixed(1)} ${toY(value).toFixed(1)}`;
  return known.flatMap((end, i) => {
    const start = known[i - 1];
    return start && end.index - start.index > 1 ? [`M${pointOf(start)}L${pointOf(end)}`] : [];
  });
}

/** Evenly spaced round ticks that include zero and cover `min` to `max`, seven at most. */
export function ticksAround(min: number, max: number): number[] {
  const span = max - min;
  if (!(span > 0)) return [-1, 0, 1];
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9))!;
  const [first, last] = [Math.floor(min / step + 1e-9), Math.ceil(max / step - 1e-9)];
  // Multiplies rather than adds: adding 0.1 and 0.2 would not give 0.3.
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const tick = Number(((first + i) * step).toPrecision(12));
    return tick === 0 ? 0 : tick;
  });
}

/** Picks a few evenly spaced points where an hour or day begins, or if hardly any begins, both end points. */
function pickIndexes(axis: readonly string[]): number[] {
  const isOther = (i: number) => axis[i] !== axis[i - 1];
  // The first point counts as a beginning only where each point is one.
  const begins = axis.flatMap((_, i) => ((i > 0 ? isOther(i) : isOther(1) && isOther(2)) ? [i] : []));
  if (begins.length < 2) return axis.length > 1 ? [0, axis.length - 1] : axis.map((_, i) => i);
  const stride = Math.ceil(begins.length / AXIS_LABELS);
  return begins.filter((_, i) => i % stride === 0);
}

/** Share of the axis: about half the width of a label in a narrow drawing. */
const EDGE = 0.06;

const anchorAt = (share: number): Anchor => (share < EDGE ? 'start' : share > 1 - EDGE ? 'end' : 'middle');
