import { crpsAndGradient } from '../../learning/pit.js';
import { minimize, type Minimum, type Objective } from '../../learning/minimize.js';

/** A share of the range that is rounding. */
const ROUNDING = 1e-12;
/** The residual variance split between constant and ensemble: where a search starts. */
const SPLITS = [0.5, 0.95, 0.05] as const;
/** Roots are not started nearer to 0, where the slope vanishes. */
const SMALLEST_START = 0.1;

/** The units in which the variables of the search are about 1: those of the least-squares line. */
interface Scale {
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

function scaleOf(cases: readonly EmosCase[]): Scale | NoFitReason {
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
function startsFor(scale: Scale, near: EmosCoefficients | undefined): number[][] {
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
function toCoefficients(point: Float64Array, scale: Scale): EmosCoefficients {
  const { centre, width, level, residual, variance } = scale;
  const [alpha = 0, beta = 0, rootC = 0, rootD = 0] = point;
  const b = (beta * residual) / width;
  const a = level + alpha * residual - b * centre;
  const c = (rootC * residual) ** 2;
  return { a, b, c, d: variance === 0 ? 0 : (rootD * residual) ** 2 / variance };
}

/** What an ensemble said, and what came. */
export interface EmosCase {
  /** Of the members. */
  mean: number;
  /** Sample variance of the members; 0 where there is one member only. */
  variance: number;
  observed: number;
}

export interface EmosFit {
  coefficients: EmosCoefficients;
  /** Mean CRPS over the cases that were fitted. */
  trainingCrps: number;
  /** Whether the optimality conditions hold; if not, it is the best that was found. */
  hasConverged: boolean;
}

/**
 * Why there is no fit: fewer cases than `MIN_FIT_CASES`; a number that is none, or a variance below 0; members whose
 * mean is the same in all cases; observations that lie on the line exactly, which leaves nothing to learn a spread from.
 */
export type NoFitReason = 'too_few_cases' | 'not_finite' | 'constant_mean' | 'no_errors';

type EmosFitResult = EmosFit | { reason: NoFitReason };

/** Two more than there are coefficients. How many are enough for a forecast to rely on is the caller's matter. */
export const MIN_FIT_CASES = 6;
/** Of the gradient, for variables and observations scaled to about 1: 1e-8 of the residuals' deviation. */
const TOLERANCE = 1e-8;
/** What is still taken for converged where rounding has ended the search. */
const LOOSE_TOLERANCE = 1e-6;
/** How far down a slope at a bound may lead. */
const BOUND_TOLERANCE = 1e-4;
/** No deviation is less than this while searching, which keeps the slopes finite. */
const SMALLEST = 1e-9;

/** The CRPS of a forecast that is off by observed − mean, and how it changes with the forecast's mean and deviation. */
export type ScoreKernel = (
  error: number,
  deviation: number,
) => { crps: number; byMean: number; byDeviation: number };

interface FitOptions {
  /** Coefficients to start from, of a fit to almost the same cases. */
  near?: EmosCoefficients | undefined;
  /** Of the distribution that is fitted, normal unless said otherwise. */
  kernel?: ScoreKernel;
}

/**
 * The coefficients of least mean CRPS over the cases: T. Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Mon. Wea.
 * Rev. 133 (2005), section 3, with c and d as squares to keep them from below 0. Starts from least squares. Where the
 * members' variance is the same in all cases it cannot be told from the constant, and d is 0.
 * The same cases in the same order give the same coefficients, to the last bit.
 */
export function fitEmos(
  cases: readonly EmosCase[],
  { near, kernel = crpsAndGradient }: FitOptions = {},
): EmosFitResult {
  if (cases.length < MIN_FIT_CASES) return { reason: 'too_few_cases' };
  if (!cases.every(isFinite)) return { reason: 'not_finite' };
  const scale = scaleOf(cases);
  if (typeof scale === 'string') return { reason: scale };
  const score = scoreOf(cases, scale, kernel);
  const objective = inRoots(score);
  let best: Minimum | undefined;
  let hasConverged = false;
  for (const start of startsFor(scale, near)) {
    const found = minimize(objective, start, TOLERANCE);
    if (best && best.value <= found.value) continue;
    best = found;
    hasConverged = isOptimal(score, found.point);
    if (hasConverged) break;
  }
  const { point, value } = best!;
  return { coefficients: toCoefficients(point, scale), trainingCrps: value * scale.residual, hasConverged };
}

const isFinite = ({ mean, variance, observed }: EmosCase): boolean =>
  Number.isFinite(mean) && Number.isFinite(observed) && variance >= 0 && variance < Infinity;

/**
 * The mean CRPS as a function of (α, β, c, d) in the units of the scale, which writes how it changes with each:
 * through σ = √(c + d s²), ∂σ/∂c = 1/(2σ) and ∂σ/∂d = s²/(2σ).
 */
type Score = (alpha: number, beta: number, c: number, d: number, slopes: Float64Array) => number;

function scoreOf(cases: readonly EmosCase[], scale: Scale, kernel: ScoreKernel): Score {
  const { centre, width, level, residual, variance } = scale;
  const n = cases.length;
  const x = Float64Array.from(cases, ({ mean }) => (mean - centre) / width);
  const v = Float64Array.from(cases, (each) => (variance === 0 ? 0 : each.variance / variance));
  const y = Float64Array.from(cases, ({ observed }) => (observed - level) / residual);
  return (alpha, beta, c, d, slopes) => {
    let sum = 0;
    slopes.fill(0);
    for (let i = 0; i < n; i++) {
      const error = y[i]! - alpha - beta * x[i]!;
      const deviation = Math.max(SMALLEST, Math.sqrt(c + d * v[i]!));
      const { crps, byMean, byDeviation } = kernel(error, deviation);
      sum += crps;
      slopes[0]! += byMean;
      slopes[1]! += byMean * x[i]!;
      slopes[2]! += (0.5 * byDeviation) / deviation;
      slopes[3]! += (0.5 * byDeviation * v[i]!) / deviation;
    }
    for (let i = 0; i < 4; i++) slopes[i]! /= n;
    return sum / n;
  };
}

/** The score of (α, β, √c, √d), or of the first three. */
function inRoots(score: Score): Objective {
  const slopes = new Float64Array(4);
  return (point, gradient) => {
    const [alpha, beta, rootC, rootD = 0] = point as unknown as [number, number, number, number?];
    const value = score(alpha, beta, rootC * rootC, rootD * rootD, slopes);
    gradient[0] = slopes[0]!;
    gradient[1] = slopes[1]!;
    gradient[2] = 2 * rootC * slopes[2]!;
    if (gradient.length > 3) gradient[3] = 2 * rootD * slopes[3]!;
    return value;
  };
}

/**
 * Karush, Kuhn and Tucker's conditions: no slope along a coefficient that is free, and none that leads down from a
 * bound. A root of 0 is flat whether or not that holds, so that a search can end there by mistake.
 */
function isOptimal(score: Score, [alpha = 0, beta = 0, rootC = 0, rootD]: Float64Array): boolean {
  const slopes = new Float64Array(4);
  score(alpha, beta, rootC ** 2, (rootD ?? 0) ** 2, slopes);
  const [byAlpha = 0, byBeta = 0, byC = 0, byD = 0] = slopes;
  const isFlat = (slope: number) => Math.abs(slope) <= LOOSE_TOLERANCE;
  const isBest = (root: number, slope: number) => isFlat(root * slope) && slope > -BOUND_TOLERANCE;
  return (
    isFlat(byAlpha) && isFlat(byBeta) && isBest(rootC, byC) && (rootD === undefined || isBest(rootD, byD))
  );
}

/**
 * A temperature is normal with mean a + b·x̄ and variance c + d·s², where x̄ and s² are mean and sample variance of an
 * ensemble's members. T. Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Calibrated Probabilistic Forecasting Using
 * Ensemble Model Output Statistics and Minimum CRPS Estimation, Mon. Wea. Rev. 133 (2005).
 */
export interface EmosCoefficients {
  a: number;
  b: number;
  /** At least 0, as is d. */
  c: number;
  d: number;
}

/** The normal distribution that the coefficients make of an ensemble's mean and sample variance. */
export function predictEmos(
  { a, b, c, d }: EmosCoefficients,
  mean: number,
  variance: number,
): { mean: number; deviation: number } {
  return { mean: a + b * mean, deviation: Math.sqrt(c + d * variance) };
}
