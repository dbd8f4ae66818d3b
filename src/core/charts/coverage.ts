import { formatCount } from '../pages/format.js';
import { binomialRange } from './binomial.js';
import { toDiagonalChart, type DiagonalChart, type DiagonalSide } from './diagonal.js';
import { formatPercent, type ChartTable } from './text.js';

/** Where a calibrated forecast is found this often. */
const CHANCE = 0.9;

/** How often the outcome lay in the central interval of a nominal probability. */
export interface CoverageSide {
  name: DiagonalSide['name'];
  label: string;
  n: number;
  levels: readonly { nominal: number; actual: number }[];
}

/** Nominal against actual coverage of central prediction intervals. Null while nothing has been counted. */
export function toCoverageChart(sides: readonly CoverageSide[]): DiagonalChart | null {
  return toDiagonalChart({
    title: 'Coverage of the prediction intervals',
    summary: sides.map(describe).join(' '),
    xLabel: 'Nominal coverage',
    yLabel: 'Actual coverage',
    sides: sides.map(({ name, label, n, levels }) => ({
      name,
      label,
      spots: levels.map(({ nominal, actual }) => ({
        given: nominal,
        found: actual,
        n,
        expected: binomialRange(n, nominal, CHANCE),
        label: `${label}: the ${formatPercent(nominal, 0)} interval held ${formatPercent(actual)} of the observations`,
      })),
    })),
    tables: sides.filter(({ levels }) => levels.length > 0).map(toTable),
  });
}

function describe({ label, n, levels }: CoverageSide): string {
  const widest = levels.at(-1);
  if (!widest || n === 0) return `${label}: no interval to look at.`;
  return `${label}: the central ${formatPercent(widest.nominal, 0)} interval held ${formatPercent(widest.actual)} of ${formatCount(n, 'observation')}.`;
}

const toTable = ({ label, n, levels }: CoverageSide): ChartTable => ({
  caption: label,
  columns: ['Nominal', 'Actual', 'Expected if calibrated'],
  rows: levels.map(({ nominal, actual }) => {
    const { low, high } = binomialRange(n, nominal, CHANCE);
    return [formatPercent(nominal), formatPercent(actual), `${formatPercent(low)} to ${formatPercent(high)}`];
  }),
});
