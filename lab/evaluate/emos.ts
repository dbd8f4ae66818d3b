import { crpsAndGradient } from '../../src/markets/learning/crps.js';
import { minimize, type Minimum, type Objective } from '../../src/markets/learning/minimize.js';

const ROUNDING = 1e-12;
/** Residual variance given to the constant c; the rest goes to the ensemble-variance term. */
const SPLITS = [0.5, 0.95, 0.05] as const;
/** For √c and √d: the gradient vanishes at 0. */
const SMALLEST_START = 0.1;

/** Search variables of about 1. */
interface Scale {
  /** Ensemble means. */
  centre: number;
  width: number;
  /** Least-squares line: value at `centre`, slope per `width`, and residual standard deviation. */
  level: number;
  slope: number;
  residual: number;
  /** 0 if all variances are equal and therefore uninformative. */
  variance: number;
}

function scaleOf(cases: readonly EmosCase[]): Scale | NoFitReason {
  const n = cases.length;
  const centre = meanOf(cases, ({ mean }) => mean);
  const level = meanOf(cases, ({ observed }) => observed);
  const width = Math.sqrt(meanOf(cases, ({ mean }) => (mean - centre) ** 2));
  const deviation = Math.sqrt(meanOf(cases, ({ observed }) => (observed - level) ** 2));
  // Squaring very large values overflows to Infinity.
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

/** Near the given coefficients, then on the least-squares line with several variance splits. */
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

function toCoefficients(point: Float64Array, scale: Scale): EmosCoefficients {
  const { centre, width, level, residual, variance } = scale;
  const [alpha = 0, beta = 0, rootC = 0, rootD = 0] = point;
  const b = (beta * residual) / width;
  const a = level + alpha * residual - b * centre;
  const c = (rootC * residual) ** 2;
  return { a, b, c, d: variance === 0 ? 0 : (rootD * residual) ** 2 / variance };
}

export interface EmosCase {
  mean: number;
  /** 0 for a single member. */
  variance: number;
  observed: number;
}

export interface EmosFit {
  coefficients: EmosCoefficients;
  trainingCrps: number;
  /** True if the optimality conditions hold; otherwise the fit is the best one found. */
  hasConverged: boolean;
}

/**
 * `constant_mean`: the same ensemble mean in all cases. `no_errors`: observations exactly on the line leave no errors
 * to fit a spread to.
 */
export type NoFitReason = 'too_few_cases' | 'not_finite' | 'constant_mean' | 'no_errors';

type EmosFitResult = EmosFit | { reason: NoFitReason };

/** Two more than the number of coefficients. Callers decide how many cases a reliable forecast needs. */
export const MIN_FIT_CASES = 6;
/** With variables and observations scaled to about 1. */
const TOLERANCE = 1e-8;
/** Still converged when rounding stops the search. */
const LOOSE_TOLERANCE = 1e-6;
/** Steepest downward slope. */
const BOUND_TOLERANCE = 1e-4;
/** Keeps slopes finite. */
const SMALLEST = 1e-9;

/** The error is observed − mean; derivatives with respect to mean and standard deviation. */
export type ScoreKernel = (
  error: number,
  deviation: number,
) => { crps: number; byMean: number; byDeviation: number };

interface FitOptions {
  /** Fitted to almost the same cases. */
  near?: EmosCoefficients | undefined;
  /** Default: normal. */
  kernel?: ScoreKernel;
}

/**
 * T. Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Mon. Wea. Rev. 133 (2005), section 3, with c and d as squares
 * so that they stay nonnegative. If the ensemble variance is the same in all cases, d is zero. The same cases in the
 * same order give bitwise equal coefficients.
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
 * A function of (α, β, c, d) in scaled units. Partial derivatives by the chain rule: σ = √(c + d s²), ∂σ/∂c = 1/(2σ)
 * and ∂σ/∂d = s²/(2σ).
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

/** (α, β, √c, √d), or (α, β, √c) for three coordinates. */
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

/** Karush-Kuhn-Tucker. The derivative with respect to a root is always 0 at 0, so a search can wrongly stop there. */
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
 * Normal with mean a + b·x̄ and variance c + d·s², from the members' mean x̄ and sample variance s². T. Gneiting, A. E.
 * Raftery, A. H. Westveld, T. Goldman, Mon. Wea. Rev. 133 (2005).
 */
export interface EmosCoefficients {
  a: number;
  b: number;
  /** At least 0. */
  c: number;
  d: number;
}

export function predictEmos(
  { a, b, c, d }: EmosCoefficients,
  mean: number,
  variance: number,
): { mean: number; deviation: number } {
  return { mean: a + b * mean, deviation: Math.sqrt(c + d * variance) };
}
