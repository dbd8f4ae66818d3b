import { normalCdf, normalDensity } from '../../core/statistics/distributions.js';

/**
 * For an integer number of degrees of freedom. M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964),
 * 26.4.4 and 26.4.5.
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

/*
 * Lower scores are better. CRPS is in the unit of the forecast and equals the absolute error for a forecast
 * without spread.
 */

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

/** −log of the density at the observation: ln σ + ½ ln 2π + ½ z². */
export function logScoreOfNormal(mean: number, deviation: number, observed: number): number {
  const z = (observed - mean) / deviation;
  return Math.log(deviation) + 0.5 * Math.log(2 * Math.PI) + 0.5 * z * z;
}

/**
 * Probabilities of a value below the outcome, and at or below it. Equal for a continuous forecast, and uniformly
 * distributed if it is calibrated.
 */
export interface PitValue {
  below: number;
  atMost: number;
  /** Cumulative, one per possible outcome; empty if the outcome is treated as continuous. */
  steps: readonly number[];
}

interface PitShares {
  n: number;
  shares: number[];
  pFlat: number | null;
}

const PIT_BINS = 10;
/** The bins' sums are then approximately normal. */
const MIN_PER_BIN = 5;
/**
 * An outcome that covers a range of probabilities is spread over the bins. C. Czado, T. Gneiting, L. Held, Predictive
 * Model Assessment for Count Data, Biometrics 65 (2009), section 2.1.
 */
export function pitHistogram(values: readonly PitValue[], bins = PIT_BINS): PitShares {
  const n = values.length;
  const shares = Array.from({ length: bins }, () => 0);
  for (const { below, atMost } of values) addShares(shares, below, atMost, 1 / n);
  return { n, shares, pFlat: flatness(values, bins) };
}

/**
 * Returns the probability that a calibrated forecast has a histogram at least this uneven; null for too few cases.
 *
 * For a continuous forecast this is Pearson's chi-square test. Outcomes in whole degrees are spread over several bins,
 * so their histograms are smoother than counts of independent draws, and Pearson's test misses miscalibration. The
 * bins' deviations are therefore measured with their covariance under calibrated forecasts, Σ (Σₖ pₖ wₖ wₖᵀ − 11ᵀ/B²),
 * where outcome k has probability pₖ and the shares wₖ in the B bins. By the central limit theorem the quadratic form
 * is chi-square with B − 1 degrees of freedom.
 */
export function flatness(values: readonly PitValue[], bins = PIT_BINS): number | null {
  const n = values.length;
  if (n < MIN_PER_BIN * bins) return null;
  // The others determine the last bin.
  const size = bins - 1;
  const deviations = Array.from({ length: bins }, () => -n / bins);
  const covariance = Array.from({ length: size }, () => new Float64Array(size).fill(-n / bins ** 2));
  for (const value of values) {
    addShares(deviations, value.below, value.atMost, 1);
    addCovariance(covariance, value.steps, bins);
  }
  const statistic = quadraticForm(covariance, deviations.slice(0, size));
  return statistic === undefined ? null : chiSquareTail(statistic, size);
}

/** Pearson's test: too lenient for whole degrees. Use `flatness` if forecasts are available. */
export function flatnessOfShares(shares: readonly number[], n: number): number | null {
  const bins = shares.length;
  if (n < MIN_PER_BIN * bins) return null;
  const statistic = shares.reduce((sum, share) => sum + n * bins * (share - 1 / bins) ** 2, 0);
  return chiSquareTail(statistic, bins - 1);
}

/** In proportion to their overlap. */
function addShares(shares: number[], below: number, atMost: number, weight: number): void {
  const bins = shares.length;
  const first = Math.min(bins - 1, Math.floor(below * bins));
  const width = atMost - below;
  if (!(width > 0)) {
    shares[first]! += weight;
    return;
  }
  for (let bin = first; bin < bins && bin / bins < atMost; bin++) {
    const from = Math.max(below, bin / bins);
    const to = bin === bins - 1 ? atMost : Math.min(atMost, (bin + 1) / bins);
    shares[bin]! += (weight * (to - from)) / width;
  }
}

/** Σₖ pₖ wₖ wₖᵀ of one forecast. Without steps, all bins are equally likely. */
function addCovariance(covariance: Float64Array[], steps: readonly number[], bins: number): void {
  const size = covariance.length;
  if (steps.length === 0) for (let i = 0; i < size; i++) covariance[i]![i]! += 1 / bins;
  const shares = Array.from({ length: bins }, () => 0);
  let below = 0;
  for (const atMost of steps) {
    const probability = atMost - below;
    if (probability > 0) {
      addShares(shares, below, atMost, 1);
      const first = Math.floor(below * bins);
      const last = Math.min(size, Math.ceil(atMost * bins));
      for (let i = first; i < last; i++)
        for (let j = first; j < last; j++) covariance[i]![j]! += probability * shares[i]! * shares[j]!;
      shares.fill(0);
    }
    below = atMost;
  }
}

/** vᵀ A⁻¹ v for positive definite A by Cholesky decomposition, overwriting A; undefined if A is singular. */
function quadraticForm(matrix: Float64Array[], vector: readonly number[]): number | undefined {
  const solved: number[] = [];
  for (const [i, row] of matrix.entries()) {
    const scale = row[i]!;
    for (let j = 0; j <= i; j++) {
      let sum = row[j]!;
      for (let k = 0; k < j; k++) sum -= row[k]! * matrix[j]![k]!;
      if (j < i) row[j] = sum / matrix[j]![j]!;
      else if (!(sum > 1e-9 * Math.abs(scale))) return undefined;
      else row[j] = Math.sqrt(sum);
    }
    const dot = solved.reduce((sum, x, k) => sum + x * row[k]!, 0);
    solved.push((vector[i]! - dot) / row[i]!);
  }
  return solved.reduce((sum, x) => sum + x * x, 0);
}
