import type { Steps } from '../../core/steps.js';
import { minimizeInSteps, type Objective } from './minimize.js';

/*
 * Censored regression: location and ln of the scale of a logistic distribution are linear in some variables. J. W. Messner,
 * G. J. Mayr, A. Zeileis, Heteroscedastic Censored and Truncated Regression with crch, R J. 8 (2016), by least mean CRPS; the bound is
 * each case's own.
 */

export interface LinearCase {
  /** Variables of the location, then those of ln of the scale. */
  variables: Float64Array;
  /** What came, and what could not be gone below, less what the location is counted from; −Infinity for no bound. */
  observed: number;
  bound: number;
}

export interface LinearRule {
  /** How many of the variables are of the location. */
  ofLocation: number;
  /** By variable: its coefficient where nothing is known. */
  prior: ArrayLike<number>;
  /** By variable: how firmly: a coefficient that is off by one costs this much CRPS in one case. */
  ridge: ArrayLike<number>;
  /** Of the scale itself, whatever the coefficients say. */
  scale: { lowest: number; highest: number };
  /** How flat it must be where a search ends. */
  tolerance?: number;
}

interface LinearFit {
  /** By variable. */
  coefficients: Float64Array;
  /** Mean CRPS of the cases, with the ridge. */
  trainingCrps: number;
  /** Whether nothing lies lower near by; if not, it is the best that was found. */
  hasConverged: boolean;
}

/** Of the gradient, of mean CRPS by a variable's own width, where a rule does not say another one. */
const TOLERANCE = 1e-5;
/** What is still taken for converged where rounding has ended the search. */
const LOOSE_TOLERANCE = 1e-3;

/**
 * A step of the search at a time.
 * @param near coefficients of a fit to almost the same cases, at which it starts
 */
export function* fitLinearInSteps(
  cases: readonly LinearCase[],
  rule: LinearRule,
  near: ArrayLike<number> = rule.prior,
): Steps<LinearFit> {
  const axes = yield* axesOf(cases, rule);
  const found = yield* minimizeInSteps(
    scoreOf(cases, rule, axes),
    axes.fromCoefficients(near),
    rule.tolerance ?? TOLERANCE,
  );
  return {
    coefficients: axes.toCoefficients(found.point),
    trainingCrps: found.value,
    hasConverged: found.gradient.every((slope) => Math.abs(slope) <= LOOSE_TOLERANCE),
  };
}

/** Where a case is expected, and how far around: the location counted from where the case's `observed` is. */
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

/**
 * The variables turned so that none says what another does, each of size 1, in which a search takes a few steps where it would take
 * a hundred: Gram and Schmidt's QR decomposition, of the location's and of the scale's for themselves.
 */
interface Axes {
  /** Row by row. */
  table: Float64Array;
  fromCoefficients(values: ArrayLike<number>): Float64Array;
  toCoefficients(point: ArrayLike<number>): Float64Array;
  /** Adds how something changes with coefficients to how it changes with the point. */
  addSlopes(byCoefficient: ArrayLike<number>, gradient: Float64Array): void;
}

/** Shares of a variable's size below which it is rounding that the others have left of it. */
const ROUNDING = 1e-6;

function* axesOf(cases: readonly LinearCase[], { ofLocation }: LinearRule): Steps<Axes> {
  const n = cases.length;
  const size = cases[0]!.variables.length;
  const columns = Array.from({ length: size }, (_, j) =>
    Float64Array.from(cases, (each) => each.variables[j]!),
  );
  // Upper triangular: column j of the variables is the sum of triangle[i][j] times axis i.
  const triangle = Array.from({ length: size }, () => new Float64Array(size));
  for (const [j, column] of columns.entries()) {
    const before = lengthOf(column);
    for (let k = j < ofLocation ? 0 : ofLocation; k < j; k++) {
      const axis = columns[k]!;
      let dot = 0;
      for (let i = 0; i < n; i++) dot += column[i]! * axis[i]!;
      triangle[k]![j] = dot / n;
      for (let i = 0; i < n; i++) column[i]! -= (dot / n) * axis[i]!;
    }
    const left = lengthOf(column);
    const isOwn = left > ROUNDING * before;
    triangle[j]![j] = isOwn ? left : 1;
    for (let i = 0; i < n; i++) column[i] = isOwn ? column[i]! / left : 0;
    yield;
  }
  const table = new Float64Array(n * size);
  for (const [j, column] of columns.entries()) for (let i = 0; i < n; i++) table[i * size + j] = column[i]!;
  return {
    table,
    fromCoefficients: (values) =>
      Float64Array.from(triangle, (row) => row.reduce((sum, r, j) => sum + r * values[j]!, 0)),
    toCoefficients(point) {
      const values = Float64Array.from(point);
      for (let i = size - 1; i >= 0; i--) {
        for (let j = i + 1; j < size; j++) values[i]! -= triangle[i]![j]! * values[j]!;
        values[i]! /= triangle[i]![i]!;
      }
      return values;
    },
    addSlopes(byCoefficient, gradient) {
      const solved = Float64Array.from(byCoefficient);
      for (let j = 0; j < size; j++) {
        for (let i = 0; i < j; i++) solved[j]! -= triangle[i]![j]! * solved[i]!;
        solved[j]! /= triangle[j]![j]!;
        gradient[j]! += solved[j]!;
      }
    },
  };
}

function lengthOf(column: Float64Array): number {
  let squares = 0;
  for (const value of column) squares += value * value;
  return Math.sqrt(squares / column.length);
}

function scoreOf(cases: readonly LinearCase[], rule: LinearRule, axes: Axes): Objective {
  const n = cases.length;
  const { table } = axes;
  const size = rule.prior.length;
  const { ofLocation } = rule;
  const [lowest, highest] = [Math.log(rule.scale.lowest), Math.log(rule.scale.highest)];
  const observed = Float64Array.from(cases, (each) => each.observed);
  const bounds = Float64Array.from(cases, (each) => each.bound);
  const out = new Float64Array(3);
  const ridge = new Float64Array(size);
  return (point, gradient) => {
    let sum = 0;
    gradient.fill(0);
    for (let i = 0, at = 0; i < n; i++, at += size) {
      let location = 0;
      let logScale = 0;
      for (let k = 0; k < ofLocation; k++) location += point[k]! * table[at + k]!;
      for (let k = ofLocation; k < size; k++) logScale += point[k]! * table[at + k]!;
      const held = Math.min(highest, Math.max(lowest, logScale));
      const scale = Math.exp(held);
      crpsOfCensored(observed[i]! - location, bounds[i]! - location, scale, out);
      sum += out[0]!;
      const byLogScale = held === logScale ? out[2]! * scale : 0;
      for (let k = 0; k < ofLocation; k++) gradient[k]! += out[1]! * table[at + k]!;
      for (let k = ofLocation; k < size; k++) gradient[k]! += byLogScale * table[at + k]!;
    }
    for (const [k, value] of axes.toCoefficients(point).entries()) {
      const off = value - rule.prior[k]!;
      sum += rule.ridge[k]! * off * off;
      ridge[k] = 2 * rule.ridge[k]! * off;
    }
    axes.addSlopes(ridge, gradient);
    for (let k = 0; k < size; k++) gradient[k]! /= n;
    return sum / n;
  };
}

/**
 * The logistic distribution censored at what has been reached: what may come is logistic, and all of it that lies below is
 * what has been reached. Temperatures that rise; of a minimum all signs are changed.
 *
 * The CRPS of max(reached, R) with R logistic, and how it changes with location and scale. With A(z) = ln(1 + eᶻ) − F(z), the
 * integral of F² up to z, it is s (A(z) − A(l) + A(−z)) for z = (y − m)/s and l = (reached − m)/s.
 * A. Jordan, F. Krüger, S. Lerch, Evaluating Probabilistic Forecasts with scoringRules, J. Stat. Softw. 90 (2019), A.2.
 * @param error observed − location, at least `bound`
 * @param bound reached − location; −Infinity where nothing has been reached
 * @param scale above 0
 * @param out gets the score, its change with the location and with the scale
 */
export function crpsOfCensored(error: number, bound: number, scale: number, out: Float64Array): void {
  const z = error / scale;
  const l = bound / scale;
  // Of each the smaller exponential, from which all else follows without overflow: a search does this millions of times.
  const tail = Math.exp(-Math.abs(z));
  const most = 1 / (1 + tail);
  const atMost = z > 0 ? most : tail * most;
  const above = z > 0 ? tail * most : most;
  // F and A of the bound; nothing where there is none, as with days to come.
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
