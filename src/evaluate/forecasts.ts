import { crpsOfNormal } from '../trading/forecast/pit.js';
import { predictEmos } from '../trading/forecast/emos.js';
import type { CaseTable } from './case-table.js';
import { formatDay } from './dates.js';
import { distributions } from './distributions.js';
import type { EvaluatedCase, EvaluateOptions } from './evaluation.js';
import { INTERVAL, type Trained } from './train.js';

/** A tested case with what only its sums are needed of. */
export interface ScoredCase extends EvaluatedCase {
  logScore: number;
  isRawCovered: boolean;
}

/** The forecasts that were made, in the order of dates. They are worked out while they are read. */
export interface Forecasts extends Iterable<ScoredCase> {
  readonly length: number;
  add(row: number, trained: Trained): void;
}

export function createForecasts(
  table: CaseTable,
  groups: readonly string[],
  options: Pick<EvaluateOptions, 'by' | 'distribution'>,
): Forecasts {
  const distribution = distributions[options.distribution];
  const rows: number[] = [];
  const fits: Trained[] = [];

  function scored(row: number, { coefficients, climate }: Trained): ScoredCase {
    const read = (name: Parameters<CaseTable['get']>[0]) => table.get(name, row);
    const observed = read('observed');
    const { mean, deviation } = predictEmos(coefficients, read('mean'), read('variance'));
    const half = deviation * distribution.quantile((1 + INTERVAL) / 2);
    return {
      date: formatDay(read('day')),
      by: options.by === null ? null : groups[read('group')]!,
      observed,
      members: {
        mean: read('mean'),
        deviation: Math.sqrt(read('variance')),
        lowest: read('lowest'),
        highest: read('highest'),
      },
      mean,
      deviation,
      low: mean - half,
      high: mean + half,
      rawCrps: read('crps'),
      emosCrps:
        deviation === 0 ? Math.abs(observed - mean) : distribution.kernel(observed - mean, deviation).crps,
      climateCrps: crpsOfNormal(climate.mean, climate.deviation, observed),
      pit: deviation === 0 ? Number(observed >= mean) : distribution.cdf((observed - mean) / deviation),
      rawRank: read('rank'),
      logScore: distribution.logScore(mean, deviation, observed),
      isRawCovered: observed >= read('low') && observed <= read('high'),
    };
  }

  function* inOrder(): Generator<ScoredCase> {
    const order = Uint32Array.from(rows.keys()).sort(
      (i, j) => table.get('day', rows[i]!) - table.get('day', rows[j]!) || i - j,
    );
    for (const i of order) yield scored(rows[i]!, fits[i]!);
  }

  return {
    get length() {
      return rows.length;
    },
    add(row, trained) {
      rows.push(row);
      fits.push(trained);
    },
    [Symbol.iterator]: inOrder,
  };
}
