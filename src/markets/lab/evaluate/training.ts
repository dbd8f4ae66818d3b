import { DAY_MS } from '../../../core/time.js';
import {
  LOGISTIC_DEVIATION,
  sigmoid,
  normalCdf,
  normalQuantile,
} from '../../../core/statistics/distributions.js';
import {
  predictEmos,
  type EmosCoefficients,
  fitEmos,
  type EmosCase,
  type NoFitReason,
  type ScoreKernel,
} from './emos.js';
import type { FixedTraining, RollingTraining } from './evaluation.js';
import { logScoreOfNormal, crpsAndGradient } from '../../learning/pit.js';

/** 2010-03-01, alone or before a time; / and . may replace the dashes. */
const separated = /^(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\d.*)?$/;
/** 20100301, alone or before hours, minutes and seconds. */
const compact = /^(\d{4})(\d{2})(\d{2})(?:\d{2}){0,3}(?:Z|T\d.*)?$/;

/** Day number, 0 for 1970-01-01, without the time. Undefined for other text and ambiguous orders of day and month. */
export function parseDay(text: string): number | undefined {
  const found = separated.exec(text);
  if (found) return dayOf(Number(found[1]), Number(found[3]), Number(found[4]));
  const other = compact.exec(text);
  return other ? dayOf(Number(other[1]), Number(other[2]), Number(other[3])) : undefined;
}

function dayOf(year: number, month: number, day: number): number | undefined {
  const date = new Date(Date.UTC(year, month - 1, day));
  const isReal = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1;
  return isReal ? date.getTime() / DAY_MS : undefined;
}

/** 1 to 12. */
export const monthNumberOf = (day: number): number => new Date(day * DAY_MS).getUTCMonth() + 1;

/** YYYY-MM-DD. */
export const formatEpochDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** Positions from `from` (inclusive) to `to` (exclusive) in the rows of a group, in date order. */
export interface RowRange {
  from: number;
  to: number;
}

/** Rows of one or more days tested with the same fit. */
interface Step {
  /** Null if there are too few earlier dates. */
  training: RowRange | null;
  test: RowRange;
}

/** @param days of the rows of a group, ascending */
export function planWindows(days: ArrayLike<number>, training: RollingTraining | FixedTraining): Step[] {
  if ('until' in training) {
    const until = parseDay(training.until)!;
    const test = { from: firstFrom(days, until), to: days.length };
    return test.from === test.to
      ? []
      : [{ training: { from: 0, to: firstFrom(days, until - training.lagDays) }, test }];
  }
  return rollingSteps(days, training);
}

function rollingSteps(days: ArrayLike<number>, { days: length, lagDays }: RollingTraining): Step[] {
  const dates = datesOf(days);
  const steps: Step[] = [];
  // Number of dates already known on the tested day; never decreases.
  let known = 0;
  for (const [i, { day, from }] of dates.entries()) {
    while (dates[known]!.day < day - lagDays) known++;
    const training = known < length ? null : { from: dates[known - length]!.from, to: dates[known - 1]!.to };
    steps.push({ training, test: { from, to: dates[i]!.to } });
  }
  return steps;
}

function datesOf(days: ArrayLike<number>): { day: number; from: number; to: number }[] {
  const dates: { day: number; from: number; to: number }[] = [];
  for (let i = 0; i < days.length; i++) {
    const last = dates.at(-1);
    if (last?.day === days[i]) last!.to = i + 1;
    else dates.push({ day: days[i]!, from: i, to: i + 1 });
  }
  return dates;
}

function firstFrom(days: ArrayLike<number>, day: number): number {
  let position = 0;
  while (position < days.length && days[position]! < day) position++;
  return position;
}

export interface Trained {
  coefficients: EmosCoefficients;
  /** Coefficients before the spread was widened; the next window starts its search here. */
  fitted: EmosCoefficients;
  /** Mean and sample deviation of the window's observations, the forecast without an ensemble. */
  climate: { mean: number; deviation: number };
}

/** Nominal coverage of the central interval. */
export const INTERVAL = 0.9;

interface TrainingRule {
  distribution: Distribution;
  isWidened: boolean;
}

export function train(
  cases: readonly EmosCase[],
  { distribution, isWidened }: TrainingRule,
  near: EmosCoefficients | undefined,
): Trained | NoFitReason {
  const fit = fitEmos(cases, { near, kernel: distribution.kernel });
  if ('reason' in fit) return fit.reason;
  const fitted = fit.coefficients;
  const coefficients = isWidened ? widened(fitted, cases, distribution) : fitted;
  return { coefficients, fitted, climate: climateOf(cases) };
}

/**
 * Minimum CRPS rewards sharpness: if errors have heavier tails than the distribution, its intervals cover too little.
 * Multiplies the deviation by the least factor, at least 1, with which the interval covers its share of the training
 * cases, counted as in split conformal prediction: the ⌈(n + 1) · 0.9⌉-th smallest of |observed − mean| / deviation.
 * J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman, Distribution-Free Predictive Inference for
 * Regression, J. Amer. Statist. Assoc. 113 (2018). Their guarantee does not hold here, because the same cases are
 * fitted and counted.
 */
function widened(
  fitted: EmosCoefficients,
  cases: readonly EmosCase[],
  distribution: Distribution,
): EmosCoefficients {
  const distances = Float64Array.from(cases, ({ mean, variance, observed }) => {
    const forecast = predictEmos(fitted, mean, variance);
    return Math.abs(observed - forecast.mean) / forecast.deviation;
  }).sort();
  const rank = Math.min(distances.length, Math.ceil((distances.length + 1) * INTERVAL));
  const factor = distances[rank - 1]! / distribution.quantile((1 + INTERVAL) / 2);
  if (!(factor > 1 && factor < Infinity)) return fitted;
  return { ...fitted, c: fitted.c * factor ** 2, d: fitted.d * factor ** 2 };
}

function climateOf(cases: readonly EmosCase[]): Trained['climate'] {
  const n = cases.length;
  const mean = cases.reduce((sum, { observed }) => sum + observed, 0) / n;
  const squares = cases.reduce((sum, { observed }) => sum + (observed - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / (n - 1)) };
}

/** A family of symmetric distributions with mean and deviation; z counts deviations from the mean. */
interface Distribution {
  kernel: ScoreKernel;
  cdf: (z: number) => number;
  quantile: (probability: number) => number;
  logScore: (mean: number, deviation: number, observed: number) => number;
}

const normal: Distribution = {
  kernel: crpsAndGradient,
  cdf: normalCdf,
  quantile: normalQuantile,
  logScore: logScoreOfNormal,
};

/** The logistic distribution's scale for a deviation of 1. */
const SCALE = 1 / LOGISTIC_DEVIATION;

/**
 * The logistic distribution: symmetric like the normal one, with heavier tails. CRPS: s (z − 2 ln F(z) − 1) for scale
 * s, A. Jordan, F. Krüger, S. Lerch, Evaluating Probabilistic Forecasts with scoringRules, J. Stat. Softw. 90 (2019),
 * A.2; for temperature: M. Gebetsberger, R. Stauffer, G. J. Mayr, A. Zeileis, Skewed Logistic Distribution for
 * Statistical Temperature Post-processing in Mountainous Areas, Adv. Stat. Clim. Meteorol. Oceanogr. 5 (2019).
 */
const logistic: Distribution = {
  kernel: (error, deviation) => {
    const scale = deviation * SCALE;
    const z = error / scale;
    const below = sigmoid(z);
    // z − 2 ln F(z), written so that neither end overflows.
    const height = Math.abs(z) + 2 * Math.log1p(Math.exp(-Math.abs(z))) - 1;
    return {
      crps: scale * height,
      byMean: 1 - 2 * below,
      byDeviation: (height - z * (2 * below - 1)) * SCALE,
    };
  },
  cdf: (z) => sigmoid(z / SCALE),
  quantile: (probability) => SCALE * Math.log(probability / (1 - probability)),
  logScore: (mean, deviation, observed) => {
    const z = Math.abs(observed - mean) / (deviation * SCALE);
    return Math.log(deviation * SCALE) + z + 2 * Math.log1p(Math.exp(-z));
  },
};

export const distributions = { normal, logistic };
