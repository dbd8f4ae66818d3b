import type { CaseTable } from './case-table.js';
import { INTERVAL, type Distribution } from './training.js';

export interface RawScores {
  crps: number;
  /** `bias`: the distribution's mean minus the observation. */
  mae: number;
  bias: number;
  /** In the central 90% interval, from 0 to 1. */
  coverage: number;
}

export interface ForecastScores extends RawScores {
  /** −ln of the density at the observation. */
  logScore: number;
}

export function scoreRaw(table: CaseTable, row: number): RawScores {
  const read = (name: Parameters<CaseTable['get']>[0]) => table.get(name, row);
  const [observed, bias] = [read('observed'), read('mean') - read('observed')];
  return {
    crps: read('crps'),
    mae: Math.abs(bias),
    bias,
    coverage: Number(observed >= read('low') && observed <= read('high')),
  };
}

export function scoreForecast(
  { kernel, quantile, logScore }: Distribution,
  { mean, deviation }: { mean: number; deviation: number },
  observed: number,
): ForecastScores {
  const error = observed - mean;
  return {
    crps: deviation === 0 ? Math.abs(error) : kernel(error, deviation).crps,
    mae: Math.abs(error),
    bias: -error,
    logScore: logScore(mean, deviation, observed),
    coverage: Number(Math.abs(error) <= quantile((1 + INTERVAL) / 2) * deviation),
  };
}

export function meanScores<Item, Scores extends object>(
  items: Iterable<Item>,
  score: (item: Item) => Scores,
): Scores {
  const sums: Record<string, number> = {};
  let count = 0;
  for (const item of items) {
    count++;
    for (const [name, value] of Object.entries<number>(score(item) as Record<string, number>))
      sums[name] = (sums[name] ?? 0) + value;
  }
  return Object.fromEntries(Object.entries(sums).map(([name, sum]) => [name, sum / count])) as Scores;
}
