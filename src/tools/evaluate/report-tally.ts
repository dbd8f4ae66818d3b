import type { CoverageSide } from '../../core/charts/diagonal.js';
import type { Pair } from '../../core/charts/scatter.js';
import type { SeriesPoint } from '../../core/charts/series.js';
import type { EvaluatedCase, Evaluation } from './evaluation.js';

const PIT_BINS = 10;
const LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9] as const;

export interface ScoreSums {
  n: number;
  raw: number;
  emos: number;
  climate: number;
}

/** What the report says of the cases, gathered while they are read once. */
export interface Tally {
  total: ScoreSums;
  /** In the order of days. */
  days: SeriesPoint[];
  /** By the value of the column that was fitted by, in the order in which they came. */
  groups: Map<string, ScoreSums>;
  pitCounts: number[];
  /** How often the observation had 0, 1, … members below it. */
  rankCounts: number[];
  coverage: CoverageSide[];
  pairs: Pair[];
}

export function tallyCases({ cases, memberCount }: Pick<Evaluation, 'cases' | 'memberCount'>): Tally {
  const total = newSums();
  const days = new Map<string, ScoreSums>();
  const groups = new Map<string, ScoreSums>();
  const pitCounts = LEVELS.map(() => 0).concat(0);
  const rankCounts = Array.from({ length: memberCount + 1 }, () => 0);
  const covered = LEVELS.map(() => 0);
  const pairs: Pair[] = [];
  for (const each of cases) {
    add(total, each);
    add(sumsOf(days, each.date), each);
    if (each.by !== null) add(sumsOf(groups, each.by), each);
    pitCounts[Math.min(PIT_BINS - 1, Math.floor(each.pit * PIT_BINS))]! += 1;
    rankCounts[each.rawRank]! += 1;
    for (const [i, level] of LEVELS.entries()) if (Math.abs(2 * each.pit - 1) <= level) covered[i]! += 1;
    pairs.push({ forecast: each.mean, observed: each.observed });
  }
  const { n } = total;
  return {
    total,
    days: [...days].sort(([a], [b]) => (a < b ? -1 : 1)).map(([date, sums]) => toPoint(date, sums)),
    groups,
    pitCounts,
    rankCounts,
    coverage:
      n === 0
        ? []
        : [
            {
              name: 'model',
              label: 'EMOS',
              n,
              levels: LEVELS.map((nominal, i) => ({ nominal, actual: covered[i]! / n })),
            },
            { name: 'raw', label: 'Raw ensemble', n, levels: rankCoverage(rankCounts, n) },
          ],
    pairs,
  };
}

const newSums = (): ScoreSums => ({ n: 0, raw: 0, emos: 0, climate: 0 });

function sumsOf(map: Map<string, ScoreSums>, key: string): ScoreSums {
  const found = map.get(key);
  if (found) return found;
  const sums = newSums();
  map.set(key, sums);
  return sums;
}

function add(sums: ScoreSums, { rawCrps, emosCrps, climateCrps }: EvaluatedCase): void {
  sums.n += 1;
  sums.raw += rawCrps;
  sums.emos += emosCrps;
  sums.climate += climateCrps;
}

const toPoint = (date: string, { n, raw, emos, climate }: ScoreSums): SeriesPoint => ({
  date,
  n,
  values: { model: emos / n, raw: raw / n, climate: climate / n },
});

/**
 * How often the observation lay between the members with as many below the lower as above the upper. Where observation and
 * members are drawn from one distribution all m + 1 ranks are as likely, so the nominal coverage is the share of the ranks
 * within. T. M. Hamill, Interpretation of Rank Histograms for Verifying Ensemble Forecasts, Mon. Wea. Rev. 129 (2001).
 */
function rankCoverage(counts: readonly number[], n: number): { nominal: number; actual: number }[] {
  const ranks = counts.length;
  const widest = Math.floor((ranks - 1) / 2);
  const every = Math.max(1, Math.ceil(widest / LEVELS.length));
  const levels: { nominal: number; actual: number }[] = [];
  for (let out = 1; out <= widest; out += every) {
    const within = counts.slice(out, ranks - out);
    levels.push({
      nominal: within.length / ranks,
      actual: within.reduce((sum, count) => sum + count, 0) / n,
    });
  }
  return levels.toReversed();
}
