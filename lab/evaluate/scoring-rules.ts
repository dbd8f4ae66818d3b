import { normalCdf } from '../../src/core/statistics/distributions.js';

/* Forecast scores, all negatively oriented: lower is better. CRPS is in the unit of the forecast and equals the
   absolute error for a forecast without spread. */

/**
 * CRPS of a raw ensemble, from the members' empirical distribution: mean |xᵢ − y| − ½ mean |xᵢ − xⱼ|, where the second
 * mean is over all m² pairs. In sorted order the pairs sum to 2 Σ (2i − m − 1) xᵢ, with i from 1. T. Gneiting, A. E.
 * Raftery, Strictly Proper Scoring Rules, J. Amer. Statist. Assoc. 102 (2007), equation 21.
 * @param sorted at least one member, ascending
 */
export function crpsOfEnsemble(sorted: ArrayLike<number>, observed: number): number {
  const m = sorted.length;
  let error = 0;
  let pairs = 0;
  for (let i = 0; i < m; i++) {
    // Computed relative to the observation, so that a large common level loses no precision.
    const distance = sorted[i]! - observed;
    error += Math.abs(distance);
    pairs += (2 * i + 1 - m) * distance;
  }
  return error / m - pairs / (m * m);
}

/** Log score of a normal forecast, −log of the density at the observation: ln σ + ½ ln 2π + ½ z². */
export function logScoreOfNormal(mean: number, deviation: number, observed: number): number {
  const z = (observed - mean) / deviation;
  return Math.log(deviation) + 0.5 * Math.log(2 * Math.PI) + 0.5 * z * z;
}

/**
 * Returns the probability that a chi-square variable with an integer number of degrees of freedom exceeds x. M.
 * Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), 26.4.4 and 26.4.5.
 */
export function chiSquareTail(x: number, degreesOfFreedom: number): number {
  if (x <= 0) return 1;
  const isOdd = degreesOfFreedom % 2 === 1;
  let tail = isOdd ? 2 * normalCdf(-Math.sqrt(x)) : Math.exp(-x / 2);
  let term = isOdd ? Math.sqrt((2 * x) / Math.PI) * Math.exp(-x / 2) : (x / 2) * Math.exp(-x / 2);
  for (let k = isOdd ? 3 : 4; k <= degreesOfFreedom; k += 2) {
    tail += term;
    term *= x / k;
  }
  return Math.min(1, tail);
}

/** Minimum expected count per bin, so that the bins' sums are approximately normal. */
export const MIN_PER_BIN = 5;

/** Applies Pearson's test to shares; it is too lenient for whole degrees. */
export function flatnessOfShares(shares: readonly number[], n: number): number | null {
  const bins = shares.length;
  if (n < MIN_PER_BIN * bins) return null;
  const statistic = shares.reduce((sum, share) => sum + n * bins * (share - 1 / bins) ** 2, 0);
  return chiSquareTail(statistic, bins - 1);
}
