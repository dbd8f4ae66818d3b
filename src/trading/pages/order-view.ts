import type { OrderStatus } from '../ledger/orders-table.js';
import type { LedgerKind, SettlementState } from '../ledger/portfolio-table.js';
import { perContract, valueOf } from '../market/contracts.js';
import { nameMarket, type MarketName } from '../market/market-name.js';
import type { Micros } from '../market/money.js';
import type { SettlementSource } from '../market/rules.js';
import type { SettlementEventRow } from '../portfolio/history-queries.js';
import type { ListedOrder, listFills, listPostings } from '../portfolio/order-queries.js';
import { isFairPrice } from '../settlement/settlement-event.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import {
  ORDERS_PATH,
  formatMoney,
  formatPrice,
  marketStatuses,
  toChange,
  toMarketView,
} from './portfolio-view-text.js';

const orderStatuses: Record<OrderStatus, { label: string; tone: string }> = {
  pending: { label: 'Pending', tone: 'warn' },
  filled: { label: 'Filled', tone: 'good' },
  partially_filled: { label: 'Partly filled', tone: 'info' },
  cancelled: { label: 'Cancelled', tone: '' },
  rejected: { label: 'Rejected', tone: 'bad' },
};

/** A line of the list of orders. */
export const toOrderView = (order: ListedOrder, snapshot: Snapshot | undefined) => ({
  id: order.id,
  href: `${ORDERS_PATH}/${order.id}`,
  market: toMarketView(nameMarket(order.ticker, snapshot?.markets.get(order.ticker), order.label)),
  /** `Bought`, `Sold`: what was asked for. */
  verb: order.action === 'buy' ? 'Buy' : 'Sell',
  side: order.side,
  contracts: order.contracts,
  filledContracts: order.filledContracts,
  limitPrice: formatPrice(order.limitPrice),
  averagePrice:
    order.filledContracts === 0 ? null : formatPrice(perContract(order.value, order.filledContracts)),
  fees: formatMoney(order.fees),
  balanceChange: toChange(order.balanceChange),
  realised: order.realised === 0n ? undefined : toChange(order.realised),
  status: orderStatuses[order.status],
  reason: order.reason,
  createdAt: order.createdAt,
  placedBy: toPlacedBy(order),
});

/** The key or the person that placed an order, with a link while there is something to look at. */
function toPlacedBy({ apiKeyId, userId, keyName, keyPrefix, personName }: ListedOrder) {
  if (apiKeyId !== null)
    return {
      kind: 'API key' as const,
      name: keyName ?? 'Unknown key',
      prefix: keyPrefix,
      href: keyName === null ? undefined : `/dashboard/api-keys/${apiKeyId}`,
    };
  return {
    kind: 'Person' as const,
    name: personName ?? 'A former member',
    prefix: null,
    href: personName === null ? undefined : `/dashboard/members/${userId}`,
  };
}

type FillRow = Awaited<ReturnType<typeof listFills>>[number];
type PostingRow = Awaited<ReturnType<typeof listPostings>>[number];

const kinds: Record<LedgerKind, string> = {
  deposit: 'Deposit',
  fill: 'Fill',
  settlement: 'Settlement',
  correction: 'Correction',
  adjustment: 'Adjustment',
};

/** An order's own page. */
export const toOrderPage = (
  order: ListedOrder,
  fills: FillRow[],
  postings: PostingRow[],
  snapshot: Snapshot | undefined,
) => ({
  order: {
    ...toOrderView(order, snapshot),
    mode: order.mode,
    value: formatMoney(order.value),
    reserved: order.reserved === 0n ? undefined : formatMoney(order.reserved),
    timeInForce:
      order.timeInForce === 'fill_or_kill' ? 'All at once or nothing' : 'What can be filled at once',
    idempotencyKey: order.idempotencyKey,
    clientOrderId: order.clientOrderId,
    venueOrderId: order.venueOrderId,
    bookFetchedAt: order.bookFetchedAt,
    finishedAt: order.finishedAt,
    isPending: order.status === 'pending',
  },
  fills: fills.map((fill) => ({
    n: fill.n,
    price: formatPrice(fill.price),
    contracts: fill.contracts,
    value: formatMoney(valueOf(fill.price, fill.contracts)),
    fee: formatMoney(fill.fee),
    balanceChange: toChange(fill.balanceChange),
    filledAt: fill.filledAt,
  })),
  postings: postings.map((posting) => ({
    name: `${kinds[posting.kind]}${posting.fillN === null ? '' : ` ${posting.fillN}`}`,
    memo: posting.memo,
    at: posting.at,
    amounts: (['cash', 'positions', 'fees', 'realised', 'capital'] as const).map((account) => ({
      account,
      amount: toPlain(posting[account]),
    })),
  })),
});

/** In a ledger a sign says where money flows, not whether that is good. */
const toPlain = (micros: Micros): string | null => (micros === 0n ? null : formatMoney(micros));

const states: Record<SettlementState, { label: string; tone: string }> = {
  ...marketStatuses,
  provisional: { label: 'Provisional', tone: 'warn' },
  finalized: { label: 'Final', tone: 'good' },
  void: { label: 'Void', tone: 'bad' },
};

/** One word of the venue about a market's end, and why it pays what it pays. */
export function toSettlementView(word: SettlementEventRow, snapshot: Snapshot | undefined) {
  const { ticker, label, side, contracts } = word;
  const valueOfYes = word.value === null ? null : BigInt(word.value);
  const [cost, cashChange] = [BigInt(word.cost), BigInt(word.cashChange)];
  const name = nameMarket(ticker, snapshot?.markets.get(ticker), label);
  const isPaid = ['finalized', 'void'].includes(word.state) && !word.isCorrection;
  return {
    market: toMarketView(name),
    at: new Date(word.at),
    state: states[word.state],
    isCorrection: word.isCorrection && cashChange !== 0n,
    why: whyOf(word, valueOfYes, name),
    held: `${contracts} ${side.toUpperCase()}`,
    cost: formatMoney(cost),
    /** Null for what is only a word. */
    moved: cashChange === 0n && !isPaid ? null : toChange(cashChange),
    result: isPaid ? toChange(cashChange - cost) : undefined,
  };
}

function whyOf(
  { state, temperature }: SettlementEventRow,
  valueOfYes: Micros | null,
  { label, source }: MarketName,
): string {
  if (state === 'void')
    return 'The venue has declared the market void: it gives back what the contracts cost.';
  if (valueOfYes !== null && isFairPrice(valueOfYes))
    return `${state === 'finalized' ? 'Settled' : 'To be settled'} at a last fair price of ${formatMoney(valueOfYes)}: YES of ${label} pays that, NO the rest of the dollar.`;
  const reported =
    temperature === null
      ? 'No temperature is reported'
      : `${sayers[source ?? 'null']} says ${temperature} °F`;
  if (valueOfYes === null) return `${reported}; what ${label} pays is not known yet.`;
  return `${reported}: YES of ${label} pays ${formatMoney(valueOfYes)}.`;
}

const sayers: Record<SettlementSource | 'null', string> = {
  'National Weather Service': 'The report of the National Weather Service',
  'The Weather Company': 'The Weather Company',
  'Kalshi Weather Index': 'The Kalshi Weather Index',
  AccuWeather: 'AccuWeather',
  null: 'The report',
};
