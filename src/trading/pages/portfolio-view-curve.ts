import { toAddress } from '../../core/pages/address.js';
import { formatTime } from '../../core/pages/format.js';
import { formatTick } from '../../usage/chart.js';
import { CENT } from '../market/money.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { toLineChart } from '../../core/charts/line-chart.js';
import { curveRanges, type CurvePoint, type CurveRange } from '../portfolio/portfolio-curve.js';
import { formatMoney, PORTFOLIO_PATH, toChange, toChangeOrNull } from './portfolio-view-text.js';

const axisOf = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', ...options });
const hour = axisOf({ hour: '2-digit', minute: '2-digit' });
const day = axisOf({ day: 'numeric', month: 'short' });

/** The curve with its drawing, its table and the ranges to choose from; no drawing where there is no line to draw. */
export function toCurveView(
  points: readonly CurvePoint[],
  { mode, range }: { mode: TradeMode; range: CurveRange },
) {
  const last = points.at(-1);
  return {
    ranges: Object.entries(curveRanges).map(([name, { label }]) => ({
      label,
      href: toAddress(PORTFOLIO_PATH, { mode: mode === 'paper' ? undefined : mode, range: name }),
      isCurrent: name === range,
    })),
    chart: points.length < 2 || !hasAny(points) ? undefined : drawCurve(points, range),
    rangeName: curveRanges[range].label,
    last: last && toRow(last),
    rows: points.toReversed().map(toRow),
  };
}

const hasAny = (points: readonly CurvePoint[]): boolean =>
  points.some(
    ({ realised, fees, unrealised }) => realised !== 0n || fees !== 0n || (unrealised ?? 0n) !== 0n,
  );

const toRow = ({ at, realised, unrealised, fees, total }: CurvePoint) => ({
  at,
  realised: toChange(realised),
  unrealised: toChangeOrNull(unrealised),
  fees: formatMoney(fees),
  total: toChangeOrNull(total),
});

/** Whole cents are exact enough for a pixel. */
const toNumber = (micros: bigint): number => Number(micros / CENT) / 100;

function drawCurve(points: readonly CurvePoint[], range: CurveRange) {
  const last = points.at(-1)!;
  const total = last.total === null ? 'not known at the moment' : toChange(last.total).text;
  return toLineChart({
    summary: `Profit and loss, ${curveRanges[range].label}: ${total} in the end. The numbers are in the table below.`,
    labels: points.map(
      (point) =>
        `${formatTime(point.at)}: ${point.total === null ? 'not known' : toChange(point.total).text}, of it booked ${toChange(point.realised - point.fees).text}`,
    ),
    axis: points.map(({ at }) => (range === 'day' ? hour : day).format(at)),
    lines: [
      { name: 'booked', values: points.map(({ realised, fees }) => toNumber(realised - fees)) },
      { name: 'total', values: points.map(({ total }) => (total === null ? null : toNumber(total))) },
    ],
    formatTick: (value) => `${value < 0 ? '−' : ''}$${formatTick(Math.abs(value))}`,
  });
}
