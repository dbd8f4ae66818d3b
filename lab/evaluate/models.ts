import {
  fitAhead,
  predictAhead,
  type AheadCase,
  type AheadDesign,
  type AheadFit,
} from '../../src/markets/learning/day-ahead.js';
import {
  fitEmos,
  predictEmos,
  type EmosCase,
  type EmosCoefficients,
  type EmosFit,
  type NoFitReason,
} from './emos.js';
import type { EvaluateOptions } from './evaluation.js';
import { distributions, INTERVAL, type Distribution } from './training.js';

export interface FittedModel<Coefficients> {
  predict(row: AheadCase): { mean: number; deviation: number };
  coefficients: Coefficients;
  /** Fitted to almost the same rows. */
  start: Coefficients;
}

export interface Model<Coefficients = unknown> {
  /** Regardless of the `--by` column. */
  isPooled: boolean;
  distribution: Distribution;
  /** The fit, or the reason why there is none. */
  fit(
    rows: readonly AheadCase[],
    near: FittedModel<Coefficients> | undefined,
  ): FittedModel<Coefficients> | NoFitReason | undefined;
}

export const modelNames = ['emos', 'shrunk', 'seasonal'] as const;
export type ModelName = (typeof modelNames)[number];

export function createEmos({
  distribution: name,
  isWidened,
}: Pick<EvaluateOptions, 'distribution' | 'isWidened'>): Model<EmosCoefficients> {
  const distribution = distributions[name];
  return {
    isPooled: false,
    distribution,
    fit(rows, near) {
      const found = fitEmos(rows, { near: near?.start, kernel: distribution.kernel });
      if ('reason' in found) return found.reason;
      const coefficients = isWidened ? widen(found, rows, distribution) : found.coefficients;
      return {
        predict: ({ mean, variance }) => predictEmos(coefficients, mean, variance),
        coefficients,
        start: found.coefficients,
      };
    },
  };
}

/**
 * Minimizing CRPS rewards sharpness: with heavier tails than the distribution, intervals are too narrow. The smallest
 * factor, at least 1, with which the interval covers 90% of the training cases, as in split conformal prediction: the
 * ⌈(n + 1) · 0.9⌉-th smallest of |observed − mean| / deviation. J. Lei et al., J. Amer. Statist. Assoc. 113 (2018);
 * their guarantee does not hold, because the same cases are used for fit and factor.
 */
function widen(
  { coefficients: fitted }: EmosFit,
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

const createLogistic = (design: AheadDesign, isPooled: boolean): Model<AheadFit['coefficients']> => ({
  isPooled,
  distribution: distributions.logistic,
  fit(rows, near) {
    const found = fitAhead(rows, design, near?.start);
    if (!found) return undefined;
    const { coefficients } = found;
    return { predict: (row) => predictAhead(coefficients, row), coefficients, start: coefficients };
  },
});

export const models: Readonly<Record<ModelName, Model & { title: string }>> = {
  emos: {
    title: 'EMOS, separate for each value of --by, normal',
    ...createEmos({ distribution: 'normal', isWidened: false }),
  },
  shrunk: {
    title: 'all values of --by together; the bias and spread of each and the slope are shrunk, logistic',
    ...createLogistic('shrunk', true),
  },
  seasonal: {
    title: 'bias, slope and spread vary with the season, separate for each value of --by, logistic',
    ...createLogistic('seasonal', false),
  },
};
