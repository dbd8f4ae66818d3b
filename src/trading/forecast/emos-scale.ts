import type { EmosCoefficients } from './emos.js';
import type { EmosCase, NoFitReason } from './emos-fit.js';

/** A share of the range that is rounding. */
const ROUNDING = 1e-12;
/** The residual variance split between constant and ensemble: where a search starts. */
const SPLITS = [0.5, 0.95, 0.05] as const;
/** Roots are not started nearer to 0, where the slope vanishes. */
const SMALLEST_START = 0.1;

/** The units in which the variables of the search are about 1: those of the least-squares line. */
export interface Scale {
  /** Of the members' means: their mean and deviation over the cases. */
  centre: number;
  width: number;
  /** Of the observations: the line's value at the centre, its slope per width, and the deviation from it. */
  level: number;
  slope: number;
  residual: number;
  /** The mean of the members' variances; 0 where they are all the same, and say nothing. */
  variance: number;
}

export function scaleOf(cases: readonly EmosCase[]): Scale | NoFitReason {
  const n = cases.length;
  const centre = meanOf(cases, ({ mean }) => mean);
  const level = meanOf(cases, ({ observed }) => observed);
  const width = Math.sqrt(meanOf(cases, ({ mean }) => (mean - centre) ** 2));
  const deviation = Math.sqrt(meanOf(cases, ({ observed }) => (observed - level) ** 2));
  // Squares of very large numbers are none.
  if (!Number.isFinite(width)) return 'not_finite';
  if (width <= ROUNDING * (Math.abs(centre) + width)) return 'constant_mean';
  const slope = meanOf(cases, ({ mean, observed }) => ((mean - centre) / width) * (observed - level));
  const line = ({ mean }: EmosCase) => level + (slope * (mean - centre)) / width;
  const squares = meanOf(cases, (each) => (each.observed - line(each)) ** 2) * n;
  const residual = Math.sqrt(squares / (n - 2));
  if (!Number.isFinite(residual)) return 'not_finite';
  if (residual <= ROUNDING * (Math.abs(level) + deviation)) return 'no_errors';
  const variance = meanOf(cases, ({ variance }) => variance);
  const varies = cases.some((each) => Math.abs(each.variance - variance) > ROUNDING * variance);
  return { centre, width, level, slope, residual, variance: varies ? variance : 0 };
}

function meanOf(cases: readonly EmosCase[], read: (each: EmosCase) => number): number {
  let sum = 0;
  for (const each of cases) sum += read(each);
  return sum / cases.length;
}

/** Where searches start: near what is known, then at the line with the spread split in several ways. */
export function startsFor(scale: Scale, near: EmosCoefficients | undefined): number[][] {
  const { centre, width, level, slope, residual, variance } = scale;
  const hasSpread = variance > 0;
  const line = [0, slope / residual];
  const starts = hasSpread
    ? SPLITS.map((split) => [...line, Math.sqrt(split), Math.sqrt(1 - split)])
    : [[...line, 1]];
  if (!near) return starts;
  const root = (share: number) => Math.max(SMALLEST_START, Math.sqrt(share));
  const nearby = [
    (near.a + near.b * centre - level) / residual,
    (near.b * width) / residual,
    root(near.c / residual ** 2),
  ];
  if (hasSpread) nearby.push(root((near.d * variance) / residual ** 2));
  return [nearby, ...starts];
}

/** From (α, β, √c, √d) in the units of the scale. */
export function toCoefficients(point: Float64Array, scale: Scale): EmosCoefficients {
  const { centre, width, level, residual, variance } = scale;
  const [alpha = 0, beta = 0, rootC = 0, rootD = 0] = point;
  const b = (beta * residual) / width;
  const a = level + alpha * residual - b * centre;
  const c = (rootC * residual) ** 2;
  return { a, b, c, d: variance === 0 ? 0 : (rootD * residual) ** 2 / variance };
}
