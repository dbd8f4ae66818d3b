import { normalCdf } from '../../../src/core/statistics/distributions.js';
import { chiSquareTail, MIN_PER_BIN } from '../../../lab/evaluate/scoring-rules.js';
import { probabilityOf, type TemperatureDistribution } from '../../../src/markets/market/distribution.js';

/** Distance from the mean, in standard deviations, beyond which whole degrees are grouped together. */
const REACH = 6;

/** @param probability of a value at or below the outcome */
const continuousPit = (probability: number): PitValue => ({
  below: probability,
  atMost: probability,
  steps: [],
});

export function pitOfNormal(mean: number, deviation: number, observed: number): PitValue {
  if (deviation === 0) return continuousPit(observed < mean ? 0 : 1);
  return continuousPit(normalCdf((observed - mean) / deviation));
}

/**
 * PIT of a forecast over ordered outcomes: a ladder's brackets, or whole degrees.
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
 * Probability integral transform: the forecast probabilities of a value below the outcome and of a value at or below
 * the outcome. For a continuous forecast they are equal, and uniformly distributed if the forecast is calibrated.
 */
export interface PitValue {
  below: number;
  atMost: number;
  /**
   * Cumulative probabilities of the possible outcomes in order, ascending to 1; empty if the outcome is treated as
   * continuous.
   */
  steps: readonly number[];
}

interface PitShares {
  n: number;
  shares: number[];
  pFlat: number | null;
}

const PIT_BINS = 10;

/**
 * Returns the PIT histogram: flat for a calibrated forecast, U-shaped for an overconfident one, hump-shaped for an
 * underconfident one. An outcome that covers a range of probabilities is spread over the bins in proportion. C. Czado,
 * T. Gneiting, L. Held, Predictive Model Assessment for Count Data, Biometrics 65 (2009), section 2.1.
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
  // The last bin is determined by the others.
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

/** Spreads a weight over the bins between `below` and `atMost`, in proportion to their overlap. */
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

/** Adds one forecast's Σₖ pₖ wₖ wₖᵀ. Without steps, each outcome falls into one bin and all bins are equally likely. */
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

/** Returns vᵀ A⁻¹ v for positive definite A by Cholesky decomposition, overwriting A; undefined if A is singular. */
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
