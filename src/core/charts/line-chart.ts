import { toPercent, type Anchor } from './text.js';

export interface LineChartInput {
  summary: string;
  /** Full text of each point, such as `21 Nov 2026, 12:00 UTC: …`. */
  labels: string[];
  /** Hour or day of each point, printed below the chart where it changes. */
  axis: string[];
  /** A null value leaves a gap. */
  lines: { name: string; values: (number | null)[] }[];
  formatTick: (value: number) => string;
  /** At a point of the axis and a value, such as a fill. */
  marks?: { index: number; value: number; name: string }[];
  /** Points on the axis. Default: one per label. */
  count?: number;
  /** If false, the y axis covers only the range of the values. Default: it includes zero. */
  hasZero?: boolean;
  /** Only whole numbers on the y axis. */
  isWhole?: boolean;
  /** In pixels. */
  height?: number;
}

const WIDTH = 1000;
const AXIS_LABELS = 4;

/** Only the lines stretch with the chart's width; text size and stroke width do not. */
export function toLineChart(input: LineChartInput) {
  const {
    summary,
    labels,
    axis,
    lines,
    formatTick,
    marks = [],
    count = labels.length,
    hasZero = true,
    isWhole = false,
    height = 200,
  } = input;
  const values = lines.flatMap((line) => line.values.filter((value) => value !== null));
  values.push(...marks.map(({ value }) => value));
  const isFlat = new Set(values).size < 2;
  const shown = hasZero || isFlat ? [0, ...values] : values;
  const ticks = ticksAround(Math.min(...shown), Math.max(...shown), isWhole);
  const [low, high] = [ticks[0]!, ticks.at(-1)!];
  const toX = (index: number) => (count === 1 ? WIDTH / 2 : (index / (count - 1)) * WIDTH);
  const toY = (value: number) => height * (1 - (value - low) / (high - low));
  return {
    summary,
    height,
    width: WIDTH,
    lines: lines.map(({ name, values: lineValues }) => {
      const last = lineValues.findLast((value) => value !== null);
      /** `end` is the y position of the last value; null for a line without values. */
      return {
        name,
        paths: toPaths(lineValues, toX, toY),
        bridges: toBridges(lineValues, toX, toY),
        end: last === undefined ? null : toY(last),
      };
    }),
    marks: marks.map(({ index, value, name }) => ({
      name,
      x: toPercent(toX(index) / WIDTH),
      y: toY(value).toFixed(1),
    })),
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

/** An isolated point becomes a zero-length stroke, visible through its round caps. */
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

export function ticksAround(min: number, max: number, isWhole = false): number[] {
  const span = max - min;
  if (!(span > 0)) return [-1, 0, 1];
  const rough = span / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [1, 2, 2.5, 5, 10].map((factor) => factor * power);
  const step = steps.find((size) => size >= rough * (1 - 1e-9) && (!isWhole || Number.isInteger(size)))!;
  const [first, last] = [Math.floor(min / step + 1e-9), Math.ceil(max / step - 1e-9)];
  // Repeated addition would accumulate rounding errors.
  return Array.from({ length: last - first + 1 }, (_, i) => {
    const tick = Number(((first + i) * step).toPrecision(12));
    return tick === 0 ? 0 : tick;
  });
}

function pickIndexes(axis: readonly string[]): number[] {
  const isOther = (i: number) => axis[i] !== axis[i - 1];
  // The first point may lie in the middle of its hour or day, so it counts only if each of the next two points begins a
  // new hour or day.
  const begins = axis.flatMap((_, i) => ((i > 0 ? isOther(i) : isOther(1) && isOther(2)) ? [i] : []));
  if (begins.length < 2) return axis.length > 1 ? [0, axis.length - 1] : axis.map((_, i) => i);
  const stride = Math.ceil(begins.length / AXIS_LABELS);
  return begins.filter((_, i) => i % stride === 0);
}

/** Fraction of the axis that is about half a label wide in a narrow chart. */
const EDGE = 0.06;

const anchorAt = (share: number): Anchor => (share < EDGE ? 'start' : share > 1 - EDGE ? 'end' : 'middle');
