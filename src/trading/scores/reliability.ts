import { binomialRange } from '../../core/charts/binomial.js';
import type { ReliabilityBin } from '../../core/charts/reliability.js';
import type { ForecastRecord } from './records.js';
import { bracketOf } from './score-record.js';
import { bracketPays } from '../market/brackets.js';

const BINS = 10;

/** A settled record, as far as it says how likely each bracket was. */
export type SaidRecord = Pick<ForecastRecord, 'kind' | 'brackets'> & { outcome: number };
export type Side = 'model' | 'market';

/** What was said and what came, of the probabilities of one bin. */
export interface ReliabilityCount {
  /** From 0. */
  bin: number;
  n: number;
  probabilitySum: number;
  wins: number;
  /** Of the number of wins, if each probability is right: what was said about one market at several leads depends on each other entirely. */
  variance: number;
}

/** Counts what was said of markets and what came of them. Records of the same market must be in the same call. */
export function countReliability(records: readonly SaidRecord[], side: Side): ReliabilityCount[] {
  const bins = Array.from({ length: BINS }, (_, bin) => ({
    bin,
    n: 0,
    probabilitySum: 0,
    wins: 0,
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
      if (bracketPays(bracketOf(bracket, kind), outcome)) count.wins++;
      const ofMarkets = deviations[bin]!;
      const deviation = Math.sqrt(Math.max(0, probability * (1 - probability)));
      ofMarkets.set(bracket.ticker, (ofMarkets.get(bracket.ticker) ?? 0) + deviation);
    }
  for (const { bin } of bins)
    for (const deviation of deviations[bin]!.values()) bins[bin]!.variance += deviation ** 2;
  return bins.filter(({ n }) => n > 0);
}

/**
 * The bins of a reliability diagram, of counts that are of different markets. J. Bröcker & L. A. Smith, Increasing the Reliability of Reliability Diagrams, Weather and
 * Forecasting 22 (2007).
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

/** Where a frequency of this mean and variance is nine times of ten: that of the binomial distribution which has both. */
function consistent(mean: number, variance: number): { low: number; high: number } {
  if (!(variance > 0)) return { low: mean, high: mean };
  const tries = Math.max(1, Math.round((mean * (1 - mean)) / variance));
  return binomialRange(tries, mean, 0.9);
}
