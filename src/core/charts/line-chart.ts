import { toPercent, type Anchor } from './text.js';

/** What a line chart is drawn from. Doubles serve here: they only say where a pixel is; the exact numbers are in the table. */

export interface LineChartInput {
  summary: string;
  /** In full, for each point: `21 Nov 2026, 12:00 UTC: …`. */
  labels: string[];
  /** Below the drawing, for each point: the hour or day that it belongs to. It is shown where that begins. */
  axis: string[];
  /** From back to front. Null where there is no value: the line has a gap. */
  lines: { name: string; values: (number | null)[] }[];
  formatTick: (value: number) => string;
}

const HEIGHT = 200;
const WIDTH = 1000;
const AXIS_LABELS = 4;

/** The lines stretch with the drawing; letters and the width of lines keep their size. */
export function toLineChart({ summary, labels, axis, lines, formatTick }: LineChartInput) {
  const values = lines.flatMap((line) => line.values.filter((value) => value !== null));
  const ticks = ticksAround(Math.min(0, ...values), Math.max(0, ...values));
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const count = labels.length;
  const toX = (index: number) => (count === 1 ? WIDTH / 2 : (index / (count - 1)) * WIDTH);
  const toY = (value: number) => HEIGHT * (1 - (value - low) / (high - low));
  return {
    summary,
    height: HEIGHT,
    /** The user units of the lines: 0 to this from left to right. */
    width: WIDTH,
    lines: lines.map(({ name, values: ofLine }) => {
      const last = ofLine.findLast((value) => value !== null);
      /** `end`: the height at which its last value lies; null for a line without any. */
      return { name, paths: toPaths(ofLine, toX, toY), end: last === undefined ? null : toY(last) };
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

/** One path for each stretch without a gap. A point that stands alone is a stroke too short to be seen but for its round ends. */
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

/** Equal, round steps that reach from at or below `min` to at or above `max`, with zero among them; seven at the most. */
export function ticksAround(min: number, max: number): number[] {
  const span = max - min;
  if (!(span > 0)) return [-1, 0, 1];
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough * (1 - 1e-9))!;
  const [first, last] = [Math.floor(min / step + 1e-9), Math.ceil(max / step - 1e-9)];
  // Multiplied, not added up: 0.1 and 0.2 would not make 0.3.
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const tick = Number(((first + i) * step).toPrecision(12));
    return tick === 0 ? 0 : tick;
  });
}

/** A few of the points at which another hour or day begins, at even distances; where that is hardly seen, the first and the last point. */
function pickIndexes(axis: readonly string[]): number[] {
  const isOther = (i: number) => axis[i] !== axis[i - 1];
  // The first point begins something only where each point does.
  const begins = axis.flatMap((_, i) => ((i > 0 ? isOther(i) : isOther(1) && isOther(2)) ? [i] : []));
  if (begins.length < 2) return axis.length > 1 ? [0, axis.length - 1] : axis.map((_, i) => i);
  const stride = Math.ceil(begins.length / AXIS_LABELS);
  return begins.filter((_, i) => i % stride === 0);
}

/** About half of a label, of a narrow drawing. */
const EDGE = 0.06;

const anchorAt = (share: number): Anchor => (share < EDGE ? 'start' : share > 1 - EDGE ? 'end' : 'middle');
