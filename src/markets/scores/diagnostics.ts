import { binomialRange } from '../../core/statistics/distributions.js';
import { bracketPays } from '../market/brackets.js';
import type { ReliabilityBin } from './schema.js';
import { recordedBracket } from './score.js';
import type { ForecastRecord } from '../learning/table.js';

const BINS = 10;

export type ForecastOutcome = Pick<ForecastRecord, 'kind' | 'brackets'> & { outcome: number };
export type Side = 'model' | 'market';

export type ReliabilityCount = ReturnType<typeof countReliability>[number];

/** All records of one market must be in the same call. */
export function countReliability(records: readonly ForecastOutcome[], side: Side) {
  const bins = Array.from({ length: BINS }, (_, bin) => ({
    bin,
    n: 0,
    probabilitySum: 0,
    wins: 0,
    /** Variance of `wins`, if every probability is right. One market's forecasts count as fully dependent. */
    variance: 0,
  }));
  const deviations = bins.map(() => new Map<string, number>());
  for (const { kind, brackets, outcome } of records)
    for (const bracket of brackets) {
      const probability = bracket[side];
      if (probability === null) continue;
      const bin = Math.min(BINS - 1, Math.floor(probability * BINS));
      const count = bins[bin]!;
      count.n++;
      count.probabilitySum += probability;
      if (bracketPays(recordedBracket(bracket, kind), outcome)) count.wins++;
      const ofMarkets = deviations[bin]!;
      const deviation = Math.sqrt(Math.max(0, probability * (1 - probability)));
      ofMarkets.set(bracket.ticker, (ofMarkets.get(bracket.ticker) ?? 0) + deviation);
    }
  for (const { bin } of bins)
    for (const deviation of deviations[bin]!.values()) bins[bin]!.variance += deviation ** 2;
  return bins.filter(({ n }) => n > 0);
}

/**
 * Consistency ranges after J. Bröcker & L. A. Smith, Weather and Forecasting 22 (2007).
 * @param counts no market may be in more than one
 */
export function toReliability(counts: readonly ReliabilityCount[]): ReliabilityBin[] {
  return Array.from({ length: BINS }, (_, bin) => {
    const ofBin = counts.filter((count) => count.bin === bin);
    const sumOf = (part: (count: ReliabilityCount) => number) =>
      ofBin.reduce((sum, count) => sum + part(count), 0);
    const range = { from: bin / BINS, to: (bin + 1) / BINS };
    const n = sumOf((count) => count.n);
    if (n === 0) return { ...range, n, meanProbability: null, frequency: null, expected: null };
    const meanProbability = sumOf((count) => count.probabilitySum) / n;
    const frequency = sumOf((count) => count.wins) / n;
    const variance = sumOf((count) => count.variance) / n ** 2;
    return { ...range, n, meanProbability, frequency, expected: consistent(meanProbability, variance) };
  });
}

/** Central 90%, from the binomial distribution with this mean and variance. */
function consistent(mean: number, variance: number): { low: number; high: number } {
  if (!(variance > 0)) return { low: mean, high: mean };
  const tries = Math.max(1, Math.round((mean * (1 - mean)) / variance));
  return binomialRange(tries, mean, 0.9);
}
