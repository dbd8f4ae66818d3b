import { chiSquareTail } from '../forecast/chi-square.js';
import { pitHistogram } from '../forecast/pit.js';
import type { PitHistogram } from '../../core/charts/histogram.js';

const PIT_BINS = 10;
/** With fewer days nothing is said about flatness. */
const MIN_PIT_DAYS = 20;

/** Where an outcome lies in its forecast: the probability of less, and of at most what came. */
export interface DatedPit {
  date: string;
  below: number;
  atMost: number;
}

/** See `PitHistogram`. The test takes days as the unit: stations and leads of one day have their errors in common. */
export function toPitHistogram(values: readonly DatedPit[]): PitHistogram {
  const byDay = new Map<string, DatedPit[]>();
  for (const value of values) {
    const found = byDay.get(value.date);
    if (found) found.push(value);
    else byDay.set(value.date, [value]);
  }
  const days = [...byDay.values()].map(countBins);
  const n = values.length;
  const shares = Array.from({ length: PIT_BINS }, (_, bin) =>
    n === 0 ? 0 : days.reduce((sum, { counts }) => sum + counts[bin]!, 0) / n,
  );
  return { n, shares, pFlat: days.length < MIN_PIT_DAYS ? null : testFlatness(days, shares, n) };
}

interface DayCounts {
  n: number;
  /** A whole degree counts in each bin with its share. */
  counts: readonly number[];
}

function countBins(pits: readonly DatedPit[]): DayCounts {
  const n = pits.length;
  const { shares } = pitHistogram(
    pits.map(({ below, atMost }) => ({ below, atMost, steps: [] })),
    PIT_BINS,
  );
  return { n, counts: shares.map((share) => share * n) };
}

/**
 * Pearson's χ² for equal shares, divided by how much more (or less: whole degrees are spread over bins) the shares vary
 * between days than those of independent values would. J. N. K. Rao & A. J. Scott, The Analysis of Categorical Data from
 * Complex Sample Surveys, JASA 76 (1981), the first-order correction.
 */
function testFlatness(days: readonly DayCounts[], shares: readonly number[], total: number): number {
  const even = 1 / PIT_BINS;
  let distance = 0;
  let variance = 0;
  for (const [bin, share] of shares.entries()) {
    distance += (share - even) ** 2 / even;
    for (const { n, counts } of days) variance += (counts[bin]! - share * n) ** 2 / even;
  }
  const unit = (variance * days.length) / (days.length - 1) / total ** 2 / (PIT_BINS - 1);
  if (!(unit > 0)) return distance > 1e-12 ? 0 : 1;
  return chiSquareTail(distance / unit, PIT_BINS - 1);
}
