import { isOpen, type CancelCause, type OrderStatus } from '../ledger/orders-table.js';
import type { SettlementState } from '../ledger/portfolio-table.js';
import { sidePrice, type TimeInForce } from '../market/book.js';
import { perContract, subtractCounts, valueOf } from '../market/contracts.js';
import { bracketPays } from '../market/brackets.js';
import { nameMarket, type MarketName } from '../market/market-name.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import type { SettlementSource } from '../market/rules.js';
import type { SettlementEventRow } from '../portfolio/history-queries.js';
import type { ListedOrder, findChanges, findPlace, listFills } from '../portfolio/order-queries.js';
import { isFairPrice } from '../settlement/settlement-event.js';
import { mayReplace } from '../orders/order.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { inCents, ORDERS_PATH, ticketAddress } from './addresses.js';
import { findMarketView, marketStatusLabels, toMarketView } from './labels.js';
import { closingText } from './review.js';
import { formatDecimal, formatMoney, formatPrice, formatTime } from '../../core/pages/format.js';

const orderStatuses: Record<OrderStatus, { label: string; tone: string }> = {
  pending: { label: 'Pending', tone: 'warn' },
  resting: { label: 'Open', tone: 'info' },
  filled: { label: 'Filled', tone: 'good' },
  partially_filled: { label: 'Partially filled', tone: 'info' },
  cancelled: { label: 'Cancelled', tone: '' },
  rejected: { label: 'Rejected', tone: 'bad' },
};

export const toOrderView = (order: ListedOrder, snapshot: Snapshot | undefined) => ({
  ...order,
  href: `${ORDERS_PATH}/${order.id}`,
  changeHref: mayReplace(order) ? `${ticketAddress(order.ticker, { replaces: order.id })}#ticket-head` : null,
  market: findMarketView(order.ticker, snapshot, order.label, order.side),
  verb: order.action === 'buy' ? 'Buy' : 'Sell',
  averagePrice: order.filledContracts === 0 ? null : perContract(order.value, order.filledContracts),
  status: statusOf(order),
  isOpen: isOpen(order.status),
  result: resultOf(order),
  /** The status says how much of the others was filled. */
  why: order.filledContracts === 0 ? order.reason : null,
  placedBy: toPlacedBy(order),
});

function statusOf({ status, filledContracts, contracts }: ListedOrder) {
  const { label, tone } = orderStatuses[status];
  const isPart = filledContracts > 0 && filledContracts < contracts;
  const part = `${formatDecimal(filledContracts)} of ${formatDecimal(contracts)} filled`;
  return { label: isPart ? (status === 'resting' ? `Open, ${part}` : part) : label, tone };
}

export function describePlaced(order: ListedOrder): string {
  const { status, action, side, contracts, filledContracts, balanceChange, limitPrice } = order;
  const until = order.cancelRequestedAt === null ? '' : ' until its cancellation takes effect';
  if (status === 'pending') return 'Order placed. Its outcome is not known yet.';
  if (status === 'resting' && filledContracts === 0)
    return `${action === 'buy' ? 'Buy' : 'Sell'} ${formatDecimal(contracts)} ${side.toUpperCase()} at ${formatPrice(limitPrice)} rests in the book${until}.`;
  if (filledContracts === 0) return `Order ${orderStatuses[status].label.toLowerCase()}. Nothing was filled.`;
  const part = filledContracts < contracts ? `${formatDecimal(filledContracts)} of ` : '';
  const count = `${part}${formatDecimal(contracts)} ${side.toUpperCase()}`;
  const rest =
    part === ''
      ? ''
      : status === 'resting'
        ? ` The other ${formatDecimal(subtractCounts(contracts, filledContracts))} rest in the book at ${formatPrice(limitPrice)}${until}.`
        : ' The rest was cancelled.';
  const closed = closedBy(order);
  if (closed > 0 && closed === filledContracts)
    return `Bought ${count}, which closed ${closingText({ closed, received: balanceChange, result: resultOf(order) ?? 0n }, side, 'received')}${rest}`;
  if (action === 'buy' && balanceChange > 0n)
    return `Bought ${count}. The pairs that it closed paid ${formatMoney(balanceChange)} more than it cost, fee included.${rest}`;
  return action === 'buy'
    ? `Bought ${count} for ${formatMoney(-balanceChange)}, fee included.${rest}`
    : `Sold ${count} for ${formatMoney(balanceChange)} after the fee.${rest}`;
}

/** Pairs of YES and NO, each of which paid a dollar at once. */
const closedBy = ({ action, value, fees, balanceChange }: ListedOrder): number =>
  action === 'buy' ? Number((balanceChange + value + fees) / CENT) / 100 : 0;

/** After fees; null if the order closed nothing. */
function resultOf(order: ListedOrder): Micros | null {
  const isClosing = order.action === 'sell' ? order.filledContracts > 0 : closedBy(order) > 0;
  return isClosing ? order.realised - order.fees : null;
}

/** If the key or person still has a page. */
function toPlacedBy({ apiKeyId, userId, keyName, keyPrefix, personName }: ListedOrder) {
  if (apiKeyId !== null)
    return {
      isKey: true,
      name: keyName ?? 'Unknown key',
      prefix: keyPrefix,
      href: keyName === null ? undefined : `/dashboard/api-keys/${apiKeyId}`,
    };
  return {
    isKey: false,
    name: personName ?? 'A former member',
    prefix: null,
    href: personName === null ? undefined : `/dashboard/members/${userId}`,
  };
}

export const timesInForce: Record<TimeInForce, string> = {
  immediate_or_cancel: 'Immediate or cancel',
  fill_or_kill: 'Fill or kill',
  good_till_cancelled: 'Good till cancelled',
  good_till_time: 'Good till time',
};

const causeNames: Record<CancelCause, string> = {
  observation: 'a weather report',
  stale: 'unreliable prices',
  gate_closed: 'a closed gate',
};

/** Why no other order is sent in the market. Undefined if the outcome of the last request is known. */
function describeUnresolved({ status, unknownSince, sentAt }: ListedOrder): string | undefined {
  const since = unknownSince ?? (status === 'pending' ? sentAt : null);
  if (since === null) return undefined;
  return `The outcome of the last request to the venue has been unknown since ${formatTime(since)}. Gauge keeps checking. Until it knows, it sends no other order in this market, and it never sends this one again.`;
}

export const toOrderPage = (
  order: ListedOrder,
  fills: Awaited<ReturnType<typeof listFills>>,
  snapshot: Snapshot | undefined,
  place: Awaited<ReturnType<typeof findPlace>>,
  changes: Awaited<ReturnType<typeof findChanges>>,
) => ({
  changes: changes.map((one) => one && toOrderView(one, snapshot)),
  queue: place && place.venueAhead !== null ? place : undefined,
  order: {
    ...toOrderView(order, snapshot),
    timeInForce: `${timesInForce[order.timeInForce]}${order.postOnly ? ', post only' : ''}`,
    isPending: order.status === 'pending',
    unresolved: describeUnresolved(order),
    isResting: order.status === 'resting',
    // A live fill appears on the page within a second. Paper fills are booked by a periodic job.
    pollSeconds: !isOpen(order.status) ? null : order.mode === 'live' ? 0.5 : 5,
    remaining: subtractCounts(order.contracts, order.filledContracts),
    limit: inCents(order.limitPrice),
    cancelOn: order.cancelOn.map((cause) => causeNames[cause]),
  },
  fills: fills.map((fill) => ({ ...fill, value: valueOf(fill.price, fill.contracts) })),
});

const states: Record<SettlementState, { label: string; tone: string }> = {
  ...marketStatusLabels,
  provisional: { label: 'Reported', tone: 'info' },
  finalized: { label: 'Final', tone: 'good' },
  void: { label: 'Void', tone: 'bad' },
};

export function toSettlementView(settlement: SettlementEventRow, snapshot: Snapshot | undefined) {
  const { ticker, label, side, contracts, temperature } = settlement;
  const name = nameMarket(ticker, snapshot?.markets.get(ticker), label);
  const booked = settlement.value === null ? null : BigInt(settlement.value);
  const { bracket } = name;
  const reported =
    temperature === null || bracket === null ? null : bracketPays(bracket, temperature) ? DOLLAR : 0n;
  const valueOfYes = settlement.state === 'void' ? null : (booked ?? reported);
  const [fees, cashChange] = [BigInt(settlement.fees), BigInt(settlement.cashChange)];
  const paid = BigInt(settlement.cost) + fees;
  const { isCorrection } = settlement;
  const isExpected = !['finalized', 'void'].includes(settlement.state) && !isCorrection;
  const expected = valueOfYes === null ? null : valueOf(sidePrice(side, valueOfYes), contracts);
  const moved = isExpected ? expected : cashChange;
  return {
    market: toMarketView({ ...name, side }),
    at: new Date(settlement.at),
    state: states[settlement.state],
    isCorrection,
    why: { short: outcomeOf(settlement, valueOfYes), full: whyOf(settlement, valueOfYes, name) },
    held: `${contracts} ${side.toUpperCase()}`,
    paid,
    fees,
    /** Announced but not made. */
    isExpected,
    /** Null if unknown. */
    moved,
    result: moved === null || isCorrection ? moved : moved - paid,
  };
}

function outcomeOf({ state, temperature }: SettlementEventRow, valueOfYes: Micros | null): string {
  if (state === 'void') return 'Void, cost refunded';
  if (valueOfYes !== null && isFairPrice(valueOfYes)) return `Last fair price, ${formatPrice(valueOfYes)}`;
  const reported = temperature === null ? 'No temperature' : `${temperature}°F`;
  return valueOfYes === null
    ? `${reported}, payout not known`
    : `${reported}: ${valueOfYes === 0n ? 'NO' : 'YES'} wins`;
}

function whyOf(
  { state, temperature }: SettlementEventRow,
  valueOfYes: Micros | null,
  { label, source }: MarketName,
): string {
  if (state === 'void') return 'The venue voided the market and refunds the cost of the contracts.';
  if (valueOfYes !== null && isFairPrice(valueOfYes))
    return `${state === 'finalized' ? 'Settled' : 'To be settled'} at the last fair price of ${formatPrice(valueOfYes)}: YES of ${label} pays that, and NO pays the rest of the dollar.`;
  const reported =
    temperature === null
      ? 'No temperature was reported'
      : `${reporters[source ?? 'null']} says ${temperature}°F`;
  if (valueOfYes === null) return `${reported}; the payout of ${label} is not known yet.`;
  const stands = state === 'finalized' ? '' : ' if this stands';
  return `${reported}: each ${valueOfYes === 0n ? 'NO' : 'YES'} of ${label} pays ${formatPrice(DOLLAR)}${stands}.`;
}

const reporters: Record<SettlementSource | 'null', string> = {
  'National Weather Service': 'The report of the National Weather Service',
  'The Weather Company': 'The Weather Company',
  'Kalshi Weather Index': 'The Kalshi Weather Index',
  AccuWeather: 'AccuWeather',
  null: 'The report',
};
