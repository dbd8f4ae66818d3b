import { toDiagonalChart, type DiagonalSide } from '../../src/markets/charts/diagonal.js';
import { formatPercent, type ChartTable } from '../../src/core/charts/text.js';
import { formatCount } from '../../src/core/pages/format.js';
import { binomialRange } from '../../src/core/statistics/distributions.js';

/** A calibrated forecast is within the plotted range with this probability. */
const CHANCE = 0.9;

/** Outcomes inside the central interval of each nominal probability. */
export interface CoverageSide extends Pick<DiagonalSide, 'name' | 'label'> {
  n: number;
  levels: readonly { nominal: number; actual: number }[];
}

/** Null while nothing has been counted. */
export function toCoverageChart(sides: readonly CoverageSide[]) {
  return toDiagonalChart({
    title: 'Coverage of the prediction intervals',
    summary: sides.map(describeLevels).join(' '),
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
        label: `${label}: the ${formatPercent(nominal, 0)} interval covered ${formatPercent(actual)} of the observations`,
      })),
    })),
    tables: sides.filter(({ levels }) => levels.length > 0).map(toLevelTable),
  });
}

function describeLevels({ label, n, levels }: CoverageSide): string {
  const widest = levels.at(-1);
  if (!widest || n === 0) return `${label}: no intervals yet.`;
  return `${label}: the central ${formatPercent(widest.nominal, 0)} interval covered ${formatPercent(widest.actual)} of ${formatCount(n, 'observation')}.`;
}

const toLevelTable = ({ label, n, levels }: CoverageSide): ChartTable => ({
  caption: label,
  columns: ['Nominal', 'Actual', 'Expected if calibrated'],
  rows: levels.map(({ nominal, actual }) => {
    const { low, high } = binomialRange(n, nominal, CHANCE);
    return [formatPercent(nominal), formatPercent(actual), `${formatPercent(low)} to ${formatPercent(high)}`];
  }),
});
