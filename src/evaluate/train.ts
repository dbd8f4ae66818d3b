import {
  fitEmos,
  predictEmos,
  type EmosCase,
  type EmosCoefficients,
  type NoFitReason,
} from '../trading/forecast/emos.js';
import type { Distribution } from './distributions.js';

/** What was learned from a training window. */
export interface Trained {
  coefficients: EmosCoefficients;
  /** As fitted, before the spread was widened: the next window starts its search here. */
  fitted: EmosCoefficients;
  /** Mean and sample deviation of the window's observations: what is known without any forecast. */
  climate: { mean: number; deviation: number };
}

/** Of the central interval whose coverage is looked at. */
export const INTERVAL = 0.9;

export interface TrainingRule {
  distribution: Distribution;
  isWidened: boolean;
}

/** Fits a window, or says why that cannot be done. */
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
 * Minimum CRPS rewards sharpness: where errors have heavier tails than the distribution, its intervals cover too little.
 * This multiplies the deviation by the least factor, 1 or more, with which the interval covers its share of what was
 * trained on, counted as in split conformal prediction: the ⌈(n + 1) · 0.9⌉-th smallest of |observed − mean| / deviation.
 * J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani, L. Wasserman, Distribution-Free Predictive Inference for Regression,
 * J. Amer. Statist. Assoc. 113 (2018). Without their guarantee: the same cases are fitted and counted.
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
