import { chiSquareTail } from './chi-square.js';
import { probabilityOf, type TemperatureDistribution } from '../market/distribution.js';
import { normalCdf } from '../../core/statistics/normal.js';

/**
 * Where an observation lies in its forecast distribution (probability integral transform): between the probabilities of
 * less, and of at most what came. For a continuous forecast both are the same, and uniform if it is calibrated.
 */
export interface PitValue {
  below: number;
  atMost: number;
  /** Of a forecast of ordered outcomes: the probability of at most each of them, ascending to 1. Else empty. */
  steps: readonly number[];
}

/** Shares of a PIT histogram, which sum to one. */
export interface PitShares {
  n: number;
  shares: number[];
  /** See `flatness`. */
  pFlat: number | null;
}

const PIT_BINS = 10;
/** Expected in each bin at the least, so that sums over the cases are about normal. */
const MIN_PER_BIN = 5;
/** In deviations from the mean: degrees further out are taken together. */
const REACH = 6;

/** The PIT of a continuous forecast, whose probability of at most what came is this. */
export const continuousPit = (probability: number): PitValue => ({
  below: probability,
  atMost: probability,
  steps: [],
});

/** The PIT of a normal forecast. */
export function pitOfNormal(mean: number, deviation: number, observed: number): PitValue {
  if (deviation === 0) return continuousPit(observed < mean ? 0 : 1);
  return continuousPit(normalCdf((observed - mean) / deviation));
}

/**
 * The PIT of a forecast of ordered outcomes, one of which came: brackets of a ladder, or whole degrees.
 * @param probabilities in order, summing to one
 */
export function pitOfOutcome(probabilities: readonly number[], outcome: number): PitValue {
  const steps: number[] = [];
  let sum = 0;
  for (const probability of probabilities) {
    sum += probability;
    steps.push(Math.min(1, sum));
  }
  steps[steps.length - 1] = 1;
  return { below: outcome === 0 ? 0 : steps[outcome - 1]!, atMost: steps[outcome]!, steps };
}

/** The PIT of a day's settled maximum. */
export function pitOfMaximum(distribution: TemperatureDistribution, reportedF: number): PitValue {
  const { mean, deviation, atLeast } = distribution;
  const reach = Math.ceil(REACH * deviation) + 1;
  const lowest = Math.max(atLeast ?? -Infinity, Math.round(mean) - reach);
  const highest = Math.max(lowest, Math.round(mean)) + reach;
  const probabilities = [
    probabilityOf(distribution, { kind: 'less', floor: null, cap: lowest }),
    ...Array.from({ length: highest - lowest }, (_, i) =>
      probabilityOf(distribution, { kind: 'between', floor: lowest + i, cap: lowest + i }),
    ),
    probabilityOf(distribution, { kind: 'greater', floor: highest - 1, cap: null }),
  ];
  const outcome = Math.round(reportedF) - lowest + 1;
  return pitOfOutcome(probabilities, Math.max(0, Math.min(probabilities.length - 1, outcome)));
}

/**
 * The PIT histogram: flat for a calibrated forecast, a bowl for one that is too sure of itself, a hill for one that is
 * not sure enough. An outcome that covers a range of probabilities counts in each bin with its share of the range.
 * C. Czado, T. Gneiting, L. Held, Predictive Model Assessment for Count Data, Biometrics 65 (2009), section 2.1.
 */
export function pitHistogram(values: readonly PitValue[], bins = PIT_BINS): PitShares {
  const n = values.length;
  const shares = Array.from({ length: bins }, () => 0);
  for (const { below, atMost } of values) addShares(shares, below, atMost, 1 / n);
  return { n, shares, pFlat: flatness(values, bins) };
}

/**
 * The probability that the histogram of a calibrated forecast is as uneven as this one or more; null for too few cases.
 *
 * For a continuous forecast it is Pearson's chi-square test. Whole degrees are spread over bins, which makes histograms
 * smoother than counts of draws, and Pearson's test blind: so the bins' deviations are measured with the covariance that
 * they have if each forecast is right, Σ (Σₖ pₖ wₖ wₖᵀ − 11ᵀ/B²) with wₖ the shares of outcome k, of probability pₖ, in the
 * B bins. The quadratic form is chi-square with B − 1 degrees of freedom by the central limit theorem.
 */
export function flatness(values: readonly PitValue[], bins = PIT_BINS): number | null {
  const n = values.length;
  if (n < MIN_PER_BIN * bins) return null;
  // The last bin is what the others leave.
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

/**
 * Pearson's test for a histogram of which only the shares are left: exact for continuous forecasts; for whole degrees it
 * finds too little. `flatness` knows better where the forecasts themselves are at hand.
 */
export function flatnessOfShares(shares: readonly number[], n: number): number | null {
  const bins = shares.length;
  if (n < MIN_PER_BIN * bins) return null;
  const statistic = shares.reduce((sum, share) => sum + n * bins * (share - 1 / bins) ** 2, 0);
  return chiSquareTail(statistic, bins - 1);
}

/** Adds a weight to the bins, by the part of the range from `below` to `atMost` that lies in each. */
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

/** Adds Σₖ pₖ wₖ wₖᵀ of one forecast; without steps every outcome lies in one bin, and all bins are as likely. */
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

/** vᵀ A⁻¹ v for a symmetric positive A by Cholesky's decomposition, which is left in A; undefined if A is singular. */
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
