import type { Steps } from '../../core/steps.js';
import { minimizeInSteps, type Objective } from './minimize.js';

/*
 * Location and ln scale of a logistic distribution are linear in the variables, and each case has its own
 * bound. J. W. Messner, G. J. Mayr, A. Zeileis, Heteroscedastic Censored and Truncated Regression with crch,
 * R J. 8 (2016), by minimum mean CRPS.
 */

export interface LinearCase {
  /** Nonzero variables, first for the location, then for ln scale. */
  places: ArrayLike<number>;
  values: ArrayLike<number>;
  /** Relative to the location's origin. The bound is −Infinity without censoring. */
  observed: number;
  bound: number;
  /** Default: 1. */
  weight?: number | undefined;
}

export interface LinearRule {
  ofLocation: number;
  /** In the absence of data. */
  prior: ArrayLike<number>;
  /** For a distance of one from the prior, as a CRPS in units of one case. */
  ridge: ArrayLike<number>;
  /** Regardless of the coefficients. */
  scale: { lowest: number; highest: number };
  tolerance?: number;
}

interface LinearFit {
  coefficients: Float64Array;
  trainingCrps: number;
  /** If false, the fit is the best point found. */
  hasConverged: boolean;
}

/** For the gradient of the mean CRPS, with each variable scaled to its own width. */
const TOLERANCE = 1e-5;
/** Still converged when rounding stops the search. */
const LOOSE_TOLERANCE = 1e-3;

/** @param near starting point: a fit to almost the same cases */
export function* fitLinearInSteps(
  cases: readonly LinearCase[],
  rule: LinearRule,
  near: ArrayLike<number> = rule.prior,
): Steps<LinearFit> {
  const rows = toRows(cases, rule);
  const axes = yield* axesOf(rows, rule);
  const found = yield* minimizeInSteps(
    scoreOf(cases, rows, rule, axes),
    axes.fromCoefficients(near),
    rule.tolerance ?? TOLERANCE,
  );
  const coefficients = new Float64Array(rule.prior.length);
  axes.toCoefficients(found.point, coefficients);
  return {
    coefficients,
    trainingCrps: found.value,
    hasConverged: found.gradient.every((slope) => Math.abs(slope) <= LOOSE_TOLERANCE),
  };
}

/** The location has the same origin as the case's `observed`. */
export function predictLinear(
  coefficients: ArrayLike<number>,
  variables: ArrayLike<number>,
  { ofLocation, scale: { lowest, highest } }: Pick<LinearRule, 'ofLocation' | 'scale'>,
): { location: number; scale: number } {
  let location = 0;
  let logScale = 0;
  for (let k = 0; k < ofLocation; k++) location += coefficients[k]! * variables[k]!;
  for (let k = ofLocation; k < variables.length; k++) logScale += coefficients[k]! * variables[k]!;
  return { location, scale: Math.min(highest, Math.max(lowest, Math.exp(logScale))) };
}

/** Sparse: with a bias for each of 160 stations, nearly all variables are 0. */
interface Rows {
  /** In `places` and `values`, followed by the end of the last row. */
  begins: Int32Array;
  scaleBegins: Int32Array;
  places: Int32Array;
  values: Float64Array;
}

function toRows(cases: readonly LinearCase[], { ofLocation }: LinearRule): Rows {
  const n = cases.length;
  const begins = new Int32Array(n + 1);
  const scaleBegins = new Int32Array(n);
  for (const [i, { places }] of cases.entries()) begins[i + 1] = begins[i]! + places.length;
  const places = new Int32Array(begins[n]!);
  const values = new Float64Array(begins[n]!);
  for (const [i, each] of cases.entries()) {
    const begin = begins[i]!;
    places.set(each.places, begin);
    values.set(each.values, begin);
    let end = begin;
    while (end < begins[i + 1]! && places[end]! < ofLocation) end++;
    scaleBegins[i] = end;
  }
  return { begins, scaleBegins, places, values };
}

/**
 * Coordinates in which the variables are uncorrelated and of unit size, so that a search takes a few steps instead of a
 * hundred. The triangular factor of the QR decomposition, computed separately for location and scale, is the Cholesky
 * factor of the matrix of products, so the rotated variables, which are dense, are never stored.
 */
interface Axes {
  fromCoefficients(values: ArrayLike<number>): Float64Array;
  toCoefficients(point: ArrayLike<number>, values: Float64Array): void;
  toSlopes(byCoefficient: ArrayLike<number>, slopes: Float64Array): void;
}

/** Rounding error is about 1e-14 of a variable's mean square for 167 stations. */
const ROUNDING = 1e-10;

function* axesOf(rows: Rows, { ofLocation, prior: { length: size } }: LinearRule): Steps<Axes> {
  // Upper triangular, row-major.
  const triangle = productsOf(rows, size);
  const squares = Float64Array.from({ length: size }, (_, j) => triangle[j * size + j]!);
  for (let i = 0; i < size; i++) {
    const end = i < ofLocation ? ofLocation : size;
    const left = Math.max(0, triangle[i * size + i]!);
    const isOwn = left > ROUNDING * squares[i]!;
    const length = isOwn ? Math.sqrt(left) : 1;
    triangle[i * size + i] = length;
    for (let j = i + 1; j < end; j++) triangle[i * size + j]! *= isOwn ? 1 / length : 0;
    if (isOwn) subtractProjection(triangle, size, i, end);
    yield;
  }
  return {
    fromCoefficients(values) {
      const point = new Float64Array(size);
      for (let i = 0; i < size; i++)
        for (let j = i; j < size; j++) point[i]! += triangle[i * size + j]! * values[j]!;
      return point;
    },
    toCoefficients(point, values) {
      for (let i = size - 1; i >= 0; i--) {
        const end = i < ofLocation ? ofLocation : size;
        let value = point[i]!;
        for (let j = i + 1; j < end; j++) value -= triangle[i * size + j]! * values[j]!;
        values[i] = value / triangle[i * size + i]!;
      }
    },
    toSlopes(byCoefficient, slopes) {
      slopes.set(byCoefficient);
      for (let i = 0; i < size; i++) {
        const end = i < ofLocation ? ofLocation : size;
        const slope = slopes[i]! / triangle[i * size + i]!;
        slopes[i] = slope;
        for (let j = i + 1; j < end; j++) slopes[j]! -= triangle[i * size + j]! * slope;
      }
    },
  };
}

/** Upper triangle only, separate for location and scale variables. */
function productsOf({ begins, scaleBegins, places, values }: Rows, size: number): Float64Array {
  const n = scaleBegins.length;
  const products = new Float64Array(size * size);
  const add = (from: number, to: number) => {
    for (let a = from; a < to; a++)
      for (let b = from; b < to; b++)
        if (places[a]! <= places[b]!) products[places[a]! * size + places[b]!]! += values[a]! * values[b]!;
  };
  for (let i = 0; i < n; i++) {
    add(begins[i]!, scaleBegins[i]!);
    add(scaleBegins[i]!, begins[i + 1]!);
  }
  // Counts of a station's rows stay exact.
  return products.map((sum) => sum / n);
}

function subtractProjection(triangle: Float64Array, size: number, i: number, end: number): void {
  for (let k = i + 1; k < end; k++) {
    const share = triangle[i * size + k]!;
    if (share === 0) continue;
    for (let j = k; j < end; j++) triangle[k * size + j]! -= share * triangle[i * size + j]!;
  }
}

function scoreOf(cases: readonly LinearCase[], rows: Rows, rule: LinearRule, axes: Axes): Objective {
  const n = cases.length;
  const { begins, scaleBegins, places, values } = rows;
  const size = rule.prior.length;
  const [lowest, highest] = [Math.log(rule.scale.lowest), Math.log(rule.scale.highest)];
  const observed = Float64Array.from(cases, (each) => each.observed);
  const bounds = Float64Array.from(cases, (each) => each.bound);
  const weights = Float64Array.from(cases, ({ weight = 1 }) => weight);
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const out = new Float64Array(3);
  const coefficients = new Float64Array(size);
  const slopes = new Float64Array(size);
  return (point, gradient) => {
    let sum = 0;
    axes.toCoefficients(point, coefficients);
    slopes.fill(0);
    for (let i = 0; i < n; i++) {
      const [begin, scaleBegin, end] = [begins[i]!, scaleBegins[i]!, begins[i + 1]!];
      let location = 0;
      let logScale = 0;
      for (let k = begin; k < scaleBegin; k++) location += coefficients[places[k]!]! * values[k]!;
      for (let k = scaleBegin; k < end; k++) logScale += coefficients[places[k]!]! * values[k]!;
      const held = Math.min(highest, Math.max(lowest, logScale));
      const scale = Math.exp(held);
      crpsOfCensored(observed[i]! - location, bounds[i]! - location, scale, out);
      const weight = weights[i]!;
      sum += weight * out[0]!;
      const byLocation = weight * out[1]!;
      const byLogScale = held === logScale ? weight * out[2]! * scale : 0;
      for (let k = begin; k < scaleBegin; k++) slopes[places[k]!]! += byLocation * values[k]!;
      for (let k = scaleBegin; k < end; k++) slopes[places[k]!]! += byLogScale * values[k]!;
    }
    for (let k = 0; k < size; k++) {
      const off = coefficients[k]! - rule.prior[k]!;
      sum += rule.ridge[k]! * off * off;
      slopes[k]! += 2 * rule.ridge[k]! * off;
    }
    axes.toSlopes(slopes, gradient);
    for (let k = 0; k < size; k++) gradient[k]! /= total;
    return sum / total;
  };
}

/**
 * CRPS of a logistic distribution censored at the extreme reached so far, and its derivatives. All mass below the bound
 * is moved onto the bound. Written for maxima; for minima, all signs are reversed.
 *
 * For max(reached, R) with R logistic and A(z) = ln(1 + eᶻ) − F(z), the integral of F² up to z, the CRPS is s (A(z) −
 * A(l) + A(−z)) with z = (y − m)/s and l = (reached − m)/s. A. Jordan, F. Krüger, S. Lerch, Evaluating Probabilistic
 * Forecasts with scoringRules, J. Stat. Softw. 90 (2019), A.2.
 * @param error observed − location, at least `bound`
 * @param bound reached − location; −Infinity without a bound
 * @param scale above 0
 * @param out receives the score and its derivatives with respect to location and scale
 */
export function crpsOfCensored(error: number, bound: number, scale: number, out: Float64Array): void {
  const z = error / scale;
  const l = bound / scale;
  // Computes only one exponential, because a search calls this millions of times. Its exponent is never positive, so it
  // cannot overflow, and all other terms follow from it.
  const tail = Math.exp(-Math.abs(z));
  const most = 1 / (1 + tail);
  const atMost = z > 0 ? most : tail * most;
  const above = z > 0 ? tail * most : most;
  // F and A at the bound; both are 0 without a bound, as for future days.
  let [below, least] = [0, 0];
  if (l !== -Infinity) {
    const boundTail = Math.exp(-Math.abs(l));
    below = l > 0 ? 1 / (1 + boundTail) : boundTail / (1 + boundTail);
    least = Math.max(l, 0) + Math.log1p(boundTail) - below;
  }
  const logs = Math.log1p(tail);
  const upTo = Math.max(z, 0) + logs - atMost - least;
  const height = upTo + Math.max(-z, 0) + logs - above;
  const squares = z * atMost * atMost - (below > 0 ? l * below * below : 0) - z * above * above;
  out[0] = scale * height;
  out[1] = below * below + above * above - atMost * atMost;
  out[2] = height - squares;
}
