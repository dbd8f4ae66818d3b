import { quoteSale } from '../ledger/valuation.js';
import { otherSide, sidePrice, type Side, type OrderBook } from '../market/book.js';
import { isCount, subtractCounts, sumCounts, valueOf } from '../market/contracts.js';
import { type EventEnds, endsOf } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { HeldPosition, PendingOrder, RiskFacts } from './facts.js';
import type { ListedMarket } from '../market/market.js';
import type { OrderInput } from '../ledger/order-input.js';
import type { LargestOrders } from './queries.js';

/** Read under the lock on the account's row. */
export interface RiskInput {
  order: OrderInput;
  market: ListedMarket;
  /** The venue's book minus what the Organization's paper orders have taken. */
  book: OrderBook;
  snapshot: Snapshot;
  /** At the limit price, fee included. Less for an order that closes pairs, 0 for a sale. */
  worstCost: Micros;
  at: Date;
}

export interface CandidateOrder {
  input: RiskInput;
  facts: RiskFacts;
  /** A sale, or a purchase that only closes pairs. */
  isReducing: boolean;
  /** Contracts that pending orders do not close already. */
  closable: number;
}

/** @throws RangeError for an invalid order */
export function toCandidate(input: RiskInput, facts: RiskFacts): CandidateOrder {
  const { ticker, side, action, contracts, limitPrice } = input.order;
  if (!(isCount(contracts) && contracts > 0 && limitPrice > 0n && limitPrice < DOLLAR))
    throw new RangeError('the order has no number of contracts or no price');
  if (ticker !== input.market.ticker) throw new RangeError('the market is not that of the order');
  const held = heldOf(facts, ticker);
  const closes = action === 'sell' ? side : otherSide[side];
  const closing = facts.pending.filter((order) => order.ticker === ticker && closedSide(order) === closes);
  const closable = subtractCounts(held?.side === closes ? held.contracts : 0, sumContracts(closing));
  return { input, facts, isReducing: contracts <= closable, closable: Math.max(0, closable) };
}

/** On the order's side, with pending orders in the same direction. */
export function positionAfter({ order: { ticker, side, contracts } }: RiskInput, facts: RiskFacts): number {
  const held = heldOf(facts, ticker);
  const own = held === undefined ? 0 : held.side === side ? held.contracts : -held.contracts;
  const sameWay = facts.pending.filter((order) => order.ticker === ticker && closedSide(order) !== side);
  return Math.max(0, sumCounts([own, sumContracts(sameWay), contracts]));
}

export const closedSide = ({ side, action }: Pick<PendingOrder, 'side' | 'action'>) =>
  action === 'sell' ? side : otherSide[side];

const heldOf = ({ positions }: RiskFacts, ticker: string) =>
  positions.find((position) => position.ticker === ticker);

const sumContracts = (orders: readonly PendingOrder[]) => sumCounts(orders.map(({ contracts }) => contracts));

export function toLeg({ ticker, side, action, contracts, limitPrice }: PendingOrder): Leg {
  const signed = action === 'buy' ? contracts : -contracts;
  return { ticker, side, contracts: signed, cost: valueOf(limitPrice, signed) };
}

type ListedMarkets = Pick<Snapshot, 'markets' | 'data'>;

/**
 * The proceeds from the bids after fees; contracts without a bid count as zero, as do unlisted markets. In a closed
 * market, the payout or, if unknown, the lesser of cost and last price: a winner's close must not look like a loss, nor
 * a loser's hide one.
 * @throws if the book or the fee of an open market is not known
 */
function markOf({ ticker, side, contracts, cost }: HeldPosition, { markets, data }: ListedMarkets): Micros {
  const market = markets.get(ticker);
  if (!market) return 0n;
  if (market.status !== 'active') {
    const valueOfYes = market.settlementValue ?? market.lastPrice;
    if (valueOfYes === null) return 0n;
    const value = valueOf(sidePrice(side, valueOfYes), contracts);
    return market.settlementValue !== null || value < cost ? value : cost;
  }
  const [book, feeRule] = [data.books.get(ticker), feeRuleOf(data, market)];
  if (!book || !feeRule) throw new RangeError(`${ticker} has no book or no fee, so it cannot be valued`);
  const { balanceChange } = quoteSale(book, feeRule, { side, contracts });
  return balanceChange > 0n ? balanceChange : 0n;
}

/** Realised losses, fees and changes in marks since midnight UTC. Negative for a profit. */
export function dayLossOf(
  { cash, positions, dayStart }: Pick<RiskFacts, 'cash' | 'positions' | 'dayStart'>,
  view: ListedMarkets,
): Micros {
  const marked = positions.reduce((sum, position) => sum + markOf(position, view), 0n);
  if (dayStart.kind === 'equity') return dayStart.equity + dayStart.deposits - (cash + marked);
  const cost = positions.reduce((sum, position) => sum + position.cost, 0n);
  return dayStart.spent + (cost - marked);
}

/** Negative for a sale. */
export interface Leg {
  ticker: string;
  side: Side;
  contracts: number;
  cost: Micros;
}

/** 0 if the event cannot lose. `possible` legs (open orders) may not fill. Unrelated markets are not netted. */
export function worstCaseLoss(ends: EventEnds, certain: readonly Leg[], possible: readonly Leg[]): Micros {
  const { outcomes, free } = ends;
  const lossIf = (paying: ReadonlySet<string>, isCounted: (ticker: string) => boolean): Micros => {
    let loss: Micros = 0n;
    for (const leg of certain) if (isCounted(leg.ticker)) loss -= profitOf(leg, paying);
    for (const leg of possible) {
      const ifFilled = isCounted(leg.ticker) ? profitOf(leg, paying) : 0n;
      if (ifFilled < 0n) loss -= ifFilled;
    }
    return loss;
  };
  const isBound = (ticker: string) => !free.has(ticker);
  let worst = highest(outcomes.map(({ paying }) => lossIf(paying, isBound)));
  for (const ticker of free) {
    const isOwn = (other: string) => other === ticker;
    worst += highest([lossIf(free, isOwn), lossIf(new Set(), isOwn)]);
  }
  return worst > 0n ? worst : 0n;
}

const highest = (amounts: readonly Micros[]): Micros =>
  amounts.length === 0 ? 0n : amounts.reduce((most, next) => (next > most ? next : most));

function profitOf({ ticker, side, contracts, cost }: Leg, paying: ReadonlySet<string>): Micros {
  const pays = paying.has(ticker) === (side === 'yes');
  return (pays ? valueOf(DOLLAR, contracts) : 0n) - cost;
}

export type LimitUse = ReturnType<typeof toLimitUse>;

/** The gate's own computations, so that the page never disagrees with a refusal. */
export function toLimitUse(
  facts: RiskFacts,
  { largestOrder, dearestOrder }: LargestOrders,
  snapshot: Snapshot | undefined,
) {
  const { positions, pending } = facts;
  const events = new Set([...positions, ...pending].map(({ eventTicker }) => eventTicker));
  const losses = [...events].map((eventTicker) => {
    const held = positions.filter((one) => one.eventTicker === eventTicker);
    const out = pending.filter((one) => one.eventTicker === eventTicker).map(toLeg);
    const event = snapshot?.events.find((one) => one.eventTicker === eventTicker);
    const tickers = [...held, ...out].map(({ ticker }) => ticker);
    return { eventTicker, loss: worstCaseLoss(endsOf(eventTicker, event, tickers), held, out) };
  });
  return {
    largestOrder,
    dearestOrder,
    largestPosition: positions.toSorted((a, b) => b.contracts - a.contracts)[0],
    worstEvent: losses.toSorted((a, b) => (a.loss < b.loss ? 1 : -1))[0],
    dayLoss: dayLossOrUndefined(facts, snapshot),
    openOrders: pending.length,
  };
}

/** Undefined if it cannot be computed; buying is then refused. */
function dayLossOrUndefined(facts: RiskFacts, snapshot: Snapshot | undefined): Micros | undefined {
  try {
    return snapshot && dayLossOf(facts, snapshot);
  } catch {
    return undefined;
  }
}
