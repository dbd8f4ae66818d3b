import { crpsAndGradient, logScoreOfNormal } from '../trading/forecast/crps.js';
import type { ScoreKernel } from '../trading/forecast/emos-fit.js';
import { normalCdf, normalQuantile } from '../core/statistics/normal.js';

/** A family of symmetric distributions with mean and deviation; z is in deviations from the mean. */
export interface Distribution {
  kernel: ScoreKernel;
  /** The probability of at most z. */
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
const SCALE = Math.sqrt(3) / Math.PI;

/**
 * The logistic distribution: as symmetric as the normal one, with heavier tails. CRPS: s (z − 2 ln F(z) − 1) for scale s,
 * A. Jordan, F. Krüger, S. Lerch, Evaluating Probabilistic Forecasts with scoringRules, J. Stat. Softw. 90 (2019), A.2;
 * for temperature: M. Gebetsberger, R. Stauffer, G. J. Mayr, A. Zeileis, Skewed Logistic Distribution for Statistical
 * Temperature Post-processing in Mountainous Areas, Adv. Stat. Clim. Meteorol. Oceanogr. 5 (2019).
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

const sigmoid = (z: number): number => 1 / (1 + Math.exp(-z));

export const distributions = { normal, logistic };
