import { formatCount, formatDecimal } from '../../core/pages/format.js';
import { formatPercent, toPercent, toPixels, type ChartTable } from '../../core/charts/text.js';
import type { ReliabilityBin } from '../scores/schema.js';

/** Both shares are from 0 to 1. */
interface Spot {
  given: number;
  found: number;
  n: number;
  /** The observed share of a reliable forecast falls into this range in 90% of cases. */
  expected: { low: number; high: number } | null;
  label: string;
}

export interface DiagonalSide {
  name: 'model' | 'market' | 'raw';
  label: string;
  spots: readonly Spot[];
}

const HEIGHT = 320;
const WIDTH = 1000;
const MIN_RADIUS = 3;
const MAX_RADIUS = 8;

interface DiagonalInput {
  title: string;
  summary: string;
  xLabel: string;
  yLabel: string;
  sides: readonly DiagonalSide[];
  tables: ChartTable[];
}

/** X is in percent of the width, y in pixels. Null if there is nothing to draw. */
export function toDiagonalChart({ sides, ...words }: DiagonalInput) {
  const most = Math.max(0, ...sides.flatMap(({ spots }) => spots.map(({ n }) => n)));
  if (most === 0) return null;
  return {
    ...words,
    height: HEIGHT,
    ticks: [0, 0.2, 0.4, 0.6, 0.8, 1].map((share) => ({
      x: toPercent(share),
      y: toPixels(toY(share)),
      label: formatPercent(share, 0),
      isMinor: share !== 0 && share !== 1,
    })),
    sides: sides
      .filter(({ spots }) => spots.length > 0)
      .map(({ name, label, spots }) => ({
        name,
        label,
        line: `M${spots.map(({ given, found }) => `${toPixels(given * WIDTH)} ${toPixels(toY(found))}`).join('L')}`,
        points: spots.map((spot) => toPoint(spot, most)),
      })),
  };
}

const toY = (share: number): number => HEIGHT * (1 - share);

const toPoint = ({ given, found, n, expected, label }: Spot, most: number) => ({
  x: toPercent(given),
  y: toPixels(toY(found)),
  /** The point's area grows with the number of forecasts. */
  radius: toPixels(MIN_RADIUS + (MAX_RADIUS - MIN_RADIUS) * Math.sqrt(n / most)),
  bar: expected && {
    y: toPixels(toY(expected.high)),
    // A very narrow range stays visible.
    height: toPixels(Math.max(2, HEIGHT * (expected.high - expected.low))),
  },
  label,
});

const isOutside = ({ found, expected }: Pick<Spot, 'found' | 'expected'>): boolean =>
  expected !== null && (found < expected.low - 1e-12 || found > expected.high + 1e-12);

interface ReliabilitySide extends Pick<DiagonalSide, 'name' | 'label'> {
  bins: readonly ReliabilityBin[];
}

type FullBin = ReliabilityBin & { meanProbability: number; frequency: number };

/** Null while nothing has been counted. */
export function toReliabilityChart(sides: readonly ReliabilitySide[]) {
  const full = sides.map(({ bins, ...side }) => ({ ...side, bins: bins.filter(isFull) }));
  return toDiagonalChart({
    title: 'Observed frequency',
    summary: `Within the 90% range of a reliable forecast:  ${full.map(describeBins).join(', ')}.`,
    xLabel: 'Forecast probability',
    yLabel: 'Observed frequency',
    sides: full.map(({ name, label, bins }) => ({
      name,
      label,
      spots: bins.map((bin) => ({
        given: bin.meanProbability,
        found: bin.frequency,
        n: bin.n,
        expected: bin.expected,
        label: `${label}: forecast ${formatPercent(bin.meanProbability)} on average, observed ${formatPercent(bin.frequency)} of ${formatDecimal(bin.n)} times`,
      })),
    })),
    tables: full.map(toBinTable),
  });
}

const isFull = (bin: ReliabilityBin): bin is FullBin =>
  bin.n > 0 && bin.meanProbability !== null && bin.frequency !== null;

function describeBins({ label, bins }: { label: string; bins: readonly FullBin[] }): string {
  const name = label.toLowerCase();
  if (bins.length === 0) return `${name} no data yet`;
  const inside = bins.filter(({ frequency, expected }) => !isOutside({ found: frequency, expected })).length;
  const total = bins.reduce((sum, { n }) => sum + n, 0);
  return `${name} ${inside} of ${formatCount(bins.length, 'group')} (${formatDecimal(total)} probabilities)`;
}

const toBinTable = ({ label, bins }: { label: string; bins: readonly FullBin[] }): ChartTable => ({
  caption: label,
  columns: ['Probability', 'Count', 'Mean forecast', 'Observed', 'Expected if reliable'],
  rows: bins.map(({ from, to, n, meanProbability, frequency, expected }) => [
    `${formatPercent(from, 0).replace(/\D+$/, '')}–${formatPercent(to, 0)}`,
    formatDecimal(n),
    formatPercent(meanProbability),
    formatPercent(frequency),
    expected ? `${formatPercent(expected.low)} to ${formatPercent(expected.high)}` : '–',
  ]),
});
