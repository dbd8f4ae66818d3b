import { normalCdf, normalDensity } from '../../core/statistics/distributions.js';

const INV_SQRT_PI = 1 / Math.sqrt(Math.PI);

/**
 * Continuous ranked probability score of a normal forecast: σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) with z = (y − μ)/σ. T.
 * Gneiting, A. E. Raftery, A. H. Westveld, T. Goldman, Mon. Wea. Rev. 133 (2005), equation 5.
 * @param deviation 0 or more
 */
export function crpsOfNormal(mean: number, deviation: number, observed: number): number {
  const error = observed - mean;
  return deviation === 0 ? Math.abs(error) : crpsAndGradient(error, deviation).crps;
}

/**
 * CRPS for an error (observed − mean) and its derivatives: 1 − 2Φ(z) with respect to the mean, and 2φ(z) − 1/√π with
 * respect to the standard deviation.
 * @param deviation above 0
 */
export function crpsAndGradient(error: number, deviation: number) {
  const z = error / deviation;
  const byMean = 1 - 2 * normalCdf(z);
  const byDeviation = 2 * normalDensity(z) - INV_SQRT_PI;
  return { crps: deviation * byDeviation - error * byMean, byMean, byDeviation };
}
