import { allAtOnce, type Steps } from '../../core/steps.js';
import { crpsOfCensored } from './censored.js';
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
}

interface LinearFit {
  /** By variable. */
  coefficients: Float64Array;
  /** Mean CRPS of the cases, with the ridge. */
  trainingCrps: number;
}

/** Of the gradient, of mean CRPS by a variable's own width. */
const TOLERANCE = 1e-5;

/** @param near coefficients of a fit to almost the same cases, at which the search starts */
export const fitLinear = (...input: Parameters<typeof fitLinearInSteps>): LinearFit =>
  allAtOnce(fitLinearInSteps(...input));

/** The same, a step of the search at a time. */
export function* fitLinearInSteps(
  cases: readonly LinearCase[],
  rule: LinearRule,
  near: ArrayLike<number> = rule.prior,
): Steps<LinearFit> {
  const axes = axesOf(cases, rule);
  yield;
  const found = yield* minimizeInSteps(scoreOf(cases, rule, axes), axes.fromCoefficients(near), TOLERANCE);
  return { coefficients: axes.toCoefficients(found.point), trainingCrps: found.value };
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

function axesOf(cases: readonly LinearCase[], { ofLocation }: LinearRule): Axes {
  const n = cases.length;
  const size = cases[0]!.variables.length;
  const table = new Float64Array(n * size);
  for (const [i, { variables }] of cases.entries()) table.set(variables, i * size);
  // Upper triangular: column j of the variables is the sum of triangle[i][j] times axis i.
  const triangle = Array.from({ length: size }, () => new Float64Array(size));
  for (let j = 0; j < size; j++) {
    const before = lengthOf(table, j, size);
    for (let k = j < ofLocation ? 0 : ofLocation; k < j; k++) {
      let dot = 0;
      for (let at = 0; at < table.length; at += size) dot += table[at + j]! * table[at + k]!;
      triangle[k]![j] = dot / n;
      for (let at = 0; at < table.length; at += size) table[at + j]! -= (dot / n) * table[at + k]!;
    }
    const left = lengthOf(table, j, size);
    const isOwn = left > ROUNDING * before;
    triangle[j]![j] = isOwn ? left : 1;
    for (let at = j; at < table.length; at += size) table[at] = isOwn ? table[at]! / left : 0;
  }
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

function lengthOf(table: Float64Array, column: number, size: number): number {
  let squares = 0;
  for (let at = column; at < table.length; at += size) squares += table[at]! * table[at]!;
  return Math.sqrt((squares * size) / table.length);
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
