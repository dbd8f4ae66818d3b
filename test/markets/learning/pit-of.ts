import { normalCdf } from '../../../src/core/statistics/distributions.js';
import type { PitValue } from '../../../src/markets/learning/pit.js';
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
