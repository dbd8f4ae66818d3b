import { normalCdf, normalDensity } from '../../core/statistics/normal.js';

/*
 * Scores of forecasts against what was observed, all negatively oriented: less is better. CRPS is in the unit of the
 * forecast and is the absolute error for a forecast without spread.
 */

const INV_SQRT_PI = 1 / Math.sqrt(Math.PI);

/**
 * The continuous ranked probability score of a normal forecast: σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − μ)/σ.
 * T. Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Mon. Wea. Rev. 133 (2005), equation 5.
 * @param deviation 0 or more
 */
export function crpsOfNormal(mean: number, deviation: number, observed: number): number {
  const error = observed - mean;
  return deviation === 0 ? Math.abs(error) : crpsAndGradient(error, deviation).crps;
}

/**
 * The same for an error of observed − mean, with how it changes with the forecast: by mean 1 − 2Φ(z), by deviation
 * 2φ(z) − 1/√π.
 * @param deviation above 0
 */
export function crpsAndGradient(error: number, deviation: number) {
  const z = error / deviation;
  const byMean = 1 - 2 * normalCdf(z);
  const byDeviation = 2 * normalDensity(z) - INV_SQRT_PI;
  return { crps: deviation * byDeviation - error * byMean, byMean, byDeviation };
}

/**
 * The CRPS of an ensemble as it is, that of its members' empirical distribution: mean |xᵢ − y| − ½ mean |xᵢ − xⱼ|, the
 * second over all m² pairs. In sorted order the pairs sum to 2 Σ (2i − m − 1) xᵢ, i from 1.
 * T. Gneiting, A. E. Raftery, Strictly Proper Scoring Rules, J. Amer. Statist. Assoc. 102 (2007), equation 21.
 * @param sorted the members, ascending, at least one
 */
export function crpsOfEnsemble(sorted: ArrayLike<number>, observed: number): number {
  const m = sorted.length;
  let error = 0;
  let pairs = 0;
  for (let i = 0; i < m; i++) {
    // Seen from the observation, so that a large common level costs no digits.
    const distance = sorted[i]! - observed;
    error += Math.abs(distance);
    pairs += (2 * i + 1 - m) * distance;
  }
  return error / m - pairs / (m * m);
}

/** The log score of a normal forecast, −log of its density where the observation is: ln σ + ½ ln 2π + ½ z². */
export function logScoreOfNormal(mean: number, deviation: number, observed: number): number {
  const z = (observed - mean) / deviation;
  return Math.log(deviation) + 0.5 * Math.log(2 * Math.PI) + 0.5 * z * z;
}
