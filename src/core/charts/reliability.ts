import { formatCount, formatDecimal } from '../pages/format.js';
import { isOutside, toDiagonalChart, type DiagonalChart, type DiagonalSide } from './diagonal.js';
import { formatPercent, type ChartTable } from './text.js';

/** How often what was given about the same probability came true. */
export interface ReliabilityBin {
  /** Probabilities of at least `from` and below `to` (the last bin: at most). */
  from: number;
  to: number;
  n: number;
  /** Both null for an empty bin. */
  meanProbability: number | null;
  frequency: number | null;
  /** Where the frequency of a reliable forecast is found nine times of ten, by the bin's own probabilities. Null for an empty bin. */
  expected: { low: number; high: number } | null;
}

interface Side {
  name: DiagonalSide['name'];
  label: string;
  bins: readonly ReliabilityBin[];
}

type FullBin = ReliabilityBin & { meanProbability: number; frequency: number };

/** How often came true what was given a probability, group by group. Null while nothing has been counted. */
export function toReliabilityChart(sides: readonly Side[]): DiagonalChart | null {
  const full = sides.map(({ bins, ...side }) => ({ ...side, bins: bins.filter(isFull) }));
  return toDiagonalChart({
    title: 'How often it came true',
    summary: `Found where a reliable forecast is nine times of ten: ${full.map(describe).join(', ')}.`,
    xLabel: 'Probability given',
    yLabel: 'Came true',
    sides: full.map(({ name, label, bins }) => ({
      name,
      label,
      spots: bins.map((bin) => ({
        given: bin.meanProbability,
        found: bin.frequency,
        n: bin.n,
        expected: bin.expected,
        label: `${label}: given ${formatPercent(bin.meanProbability)} on average, came true ${formatPercent(bin.frequency)} of ${formatDecimal(bin.n)} times`,
      })),
    })),
    tables: full.map(toTable),
  });
}

const isFull = (bin: ReliabilityBin): bin is FullBin =>
  bin.n > 0 && bin.meanProbability !== null && bin.frequency !== null;

function describe({ label, bins }: { label: string; bins: readonly FullBin[] }): string {
  const name = label.toLowerCase();
  if (bins.length === 0) return `${name} nothing to count yet`;
  const inside = bins.filter(({ frequency, expected }) => !isOutside({ found: frequency, expected })).length;
  const total = bins.reduce((sum, { n }) => sum + n, 0);
  return `${name} ${inside} of ${formatCount(bins.length, 'group')} (${formatDecimal(total)} probabilities)`;
}

const toTable = ({ label, bins }: { label: string; bins: readonly FullBin[] }): ChartTable => ({
  caption: label,
  columns: ['Probability', 'Count', 'Given on average', 'Came true', 'Expected if reliable'],
  rows: bins.map(({ from, to, n, meanProbability, frequency, expected }) => [
    `${formatPercent(from, 0).replace(/\D+$/, '')}–${formatPercent(to, 0)}`,
    formatDecimal(n),
    formatPercent(meanProbability),
    formatPercent(frequency),
    expected ? `${formatPercent(expected.low)} to ${formatPercent(expected.high)}` : '–',
  ]),
});
