import { formatChange, formatCount, formatDecimal, formatPrice } from '../../core/pages/format.js';
import { horizons, type FillSums, type ShadowedOrder } from '../execution/queries.js';
import type { ExecutionReport } from '../execution/report.js';
import { DAY_MS } from '../../core/time.js';
import { perContract, subtractCounts } from '../market/contracts.js';
import { CENT, type Micros } from '../market/money.js';
import { ORDERS_PATH } from './addresses.js';
import { findMarketView } from './labels.js';

export function toExecutionPage({ period, paper, nearExtreme, live }: ExecutionReport) {
  const fills = [
    { name: 'Paper', sums: paper },
    { name: 'Paper, near the extreme', sums: nearExtreme },
    ...(live ? [{ name: 'Live', sums: live.fills }] : []),
  ];
  const shown = fills.filter(({ sums }) => sums.fills > 0);
  const day = (at: Date) => at.toISOString().slice(0, 10);
  const shadow = live && live.shadow.orders > 0 ? live.shadow : undefined;
  const queue = live && live.queue.places > 0 ? live.queue : undefined;
  return {
    days: { from: day(period.from), to: day(new Date(period.until.getTime() - DAY_MS)) },
    isEmpty: shown.length === 0 && !shadow && !queue,
    queue,
    horizons,
    finding: shown[0] && toFinding(shown[0].name, shown[0].sums),
    fills: shown.map(({ name, sums }) => toFillsRow(name, sums)),
    results: shown.flatMap(({ name, sums }) => toResults(name, sums)),
    shadow: shadow && {
      count: formatCount(shadow.orders, 'live order'),
      roundTripMs: shadow.roundTripMs,
      rows: [
        { name: 'Live', ...shadow.live, pnl: shadow.pnl.map((one) => one.live) },
        { name: 'Paper', ...shadow.paper, pnl: shadow.pnl.map((one) => one.paper) },
      ],
      known: shadow.pnl.map(({ orders }) => `of ${formatCount(orders, 'order')}`),
      orders: live!.orders.map(toShadowedRow),
    },
  };
}

const toFillsRow = (name: string, { fills, contracts, fees, judged, missed, after }: FillSums) => ({
  name,
  fills,
  contracts,
  fees,
  missed: judged === 0 ? null : `${formatDecimal(missed)} of ${formatDecimal(judged)} checked`,
  missedNote: judged === 0 || judged === fills ? null : `${formatDecimal(fills - judged)} not checkable`,
  moves: after.map(({ fills: known, contracts: count, gain }) => ({
    move: gain === null ? null : formatMove(perContract(gain, count)),
    known: gain === null ? null : `of ${formatCount(known, 'fill')}`,
  })),
});

/** By the longest horizon. */
function toFinding(name: string, { judged, missed, after }: FillSums): string | null {
  const { gain, contracts } = after.at(-1)!;
  if (gain === null) return null;
  const move = perContract(gain, contracts);
  const words =
    move === 0n
      ? 'not moved'
      : `moved ${formatPrice(move < 0n ? -move : move)} ${move < 0n ? 'against' : 'in favour of'} the order`;
  const misses =
    judged === 0 ? '' : `; ${Math.round((missed / judged) * 100)}% of the checked fills would have missed`;
  return `${name}: ${horizons.at(-1)} seconds after a fill, the price has ${words} on average${misses}.`;
}

/** With two decimals, so that a column has one precision. */
const formatMove = (move: Micros): string =>
  `${move < 0n ? '−' : move > 0n ? '+' : ''}${Math.abs(Number(move) / Number(CENT)).toFixed(2)}¢`;

/** After a minute and at settlement, where known. */
const toResults = (name: string, { pnl }: FillSums) =>
  pnl
    .map(({ fills, all, missed }, i) => ({
      name: `${name}, ${i === 0 ? 'for a minute' : 'to the end'}`,
      fills,
      all,
      missed,
      without: all === null ? null : all - (missed ?? 0n),
    }))
    .filter(({ fills }) => fills > 0);

function toShadowedRow({ id, ticker, label, side, contracts, ...order }: ShadowedOrder) {
  const { action, live, paper } = order;
  const isEqual =
    live.contracts === paper.contracts && live.value === paper.value && live.fees === paper.fees;
  return {
    href: `${ORDERS_PATH}/${id}`,
    name: `${action === 'buy' ? 'Buy' : 'Sell'} ${formatDecimal(contracts)} ${side.toUpperCase()}`,
    market: findMarketView(ticker, undefined, label),
    at: order.at,
    live: describeSide(live),
    paper: describeSide(paper),
    difference: isEqual ? 'The same' : describeDifference({ action, live, paper }),
    after60: order.after60,
  };
}

const describeSide = ({ contracts, value }: ShadowedOrder['live']): string =>
  contracts === 0
    ? 'Nothing'
    : `${formatDecimal(contracts)} at ${formatPrice(perContract(value, contracts))}`;

/** Per contract if both filled, otherwise in filled contracts. */
function describeDifference(order: Pick<ShadowedOrder, 'action' | 'live' | 'paper'>): string {
  const { action, live, paper } = order;
  const parts: string[] = [];
  if (live.contracts !== paper.contracts) {
    const more = live.contracts > paper.contracts;
    const count = formatCount(Math.abs(subtractCounts(live.contracts, paper.contracts)), 'contract');
    parts.push(`${count} ${more ? 'more' : 'fewer'} live`);
  }
  if (live.contracts > 0 && paper.contracts > 0) {
    const dearer = perContract(live.value, live.contracts) - perContract(paper.value, paper.contracts);
    const worse = action === 'buy' ? dearer : -dearer;
    if (worse !== 0n)
      parts.push(
        `${formatPrice(worse < 0n ? -worse : worse)} per contract ${worse > 0n ? 'worse' : 'better'}`,
      );
  }
  if (parts.length === 0) parts.push(`fees ${formatChange(live.fees - paper.fees)}`);
  return parts.join(', ');
}
