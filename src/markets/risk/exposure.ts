import { quoteSale } from '../ledger/valuation.js';
import { otherSide, type Side } from '../market/book.js';
import { isCount, subtractCounts, sumCounts, valueOf } from '../market/contracts.js';
import type { EventEnds } from '../market/event.js';
import { feeRuleOf } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import type { HeldPosition, PendingOrder, RiskFacts } from './facts.js';
import type { RiskInput } from './gate.js';

export interface CandidateOrder {
  input: RiskInput;
  facts: RiskFacts;
  /** Only gives up what is held: a sale, or a purchase of the other side that closes pairs. */
  isReducing: boolean;
  /** Contracts that the order could close, without those that pending orders close already. */
  closable: number;
}

/** @throws RangeError for an order that is none */
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

/** Contracts of the order's side that are held once it and what is pending in its direction are filled. */
export function positionAfter({ order: { ticker, side, contracts } }: RiskInput, facts: RiskFacts): number {
  const held = heldOf(facts, ticker);
  const own = held === undefined ? 0 : held.side === side ? held.contracts : -held.contracts;
  const sameWay = facts.pending.filter((order) => order.ticker === ticker && closedSide(order) !== side);
  return Math.max(0, sumCounts([own, sumContracts(sameWay), contracts]));
}

/** The side of which an order takes contracts away, if they are held. */
export const closedSide = ({ side, action }: Pick<PendingOrder, 'side' | 'action'>) =>
  action === 'sell' ? side : otherSide[side];

const heldOf = ({ positions }: RiskFacts, ticker: string) =>
  positions.find((position) => position.ticker === ticker);

const sumContracts = (orders: readonly PendingOrder[]): number =>
  sumCounts(orders.map(({ contracts }) => contracts));

/** A sale gives contracts away and brings its price. */
export function toLeg({ ticker, side, action, contracts, limitPrice }: PendingOrder): Leg {
  const signed = action === 'buy' ? contracts : -contracts;
  return { ticker, side, contracts: signed, cost: valueOf(limitPrice, signed) };
}

type ListedMarkets = Pick<Snapshot, 'markets' | 'data'>;

/**
 * What a position is worth at this moment: what it could be sold for to those who bid, after fees; nothing for the
 * contracts without a bid, and nothing for a market that the venue no longer shows. A market that is closed for
 * trading is worth what it will pay. Until that is known, there is no bid, which is no loss yet: the lesser of its cost and its last
 * price counts, so that neither the close of a winner looks like a loss nor that of a loser makes one be forgotten.
 * @throws if the book or the fee of an open market is not known
 */
function markOf({ ticker, side, contracts, cost }: HeldPosition, { markets, data }: ListedMarkets): Micros {
  const market = markets.get(ticker);
  if (!market) return 0n;
  if (market.status !== 'active') {
    const valueOfYes = market.settlementValue ?? market.lastPrice;
    if (valueOfYes === null) return 0n;
    const value = valueOf(side === 'yes' ? valueOfYes : DOLLAR - valueOfYes, contracts);
    return market.settlementValue !== null || value < cost ? value : cost;
  }
  const [book, feeRule] = [data.books.get(ticker), feeRuleOf(data, market)];
  if (!book || !feeRule) throw new RangeError(`${ticker} has no book or no fee, so it cannot be valued`);
  const { balanceChange } = quoteSale(book, feeRule, { side, contracts });
  return balanceChange > 0n ? balanceChange : 0n;
}

/** What was lost since midnight UTC: realised, in fees and by the change of the mark. Negative for a profit. */
export function dayLossOf(
  { cash, positions, dayStart }: Pick<RiskFacts, 'cash' | 'positions' | 'dayStart'>,
  view: ListedMarkets,
): Micros {
  const marked = positions.reduce((sum, position) => sum + markOf(position, view), 0n);
  if (dayStart.kind === 'equity') return dayStart.equity + dayStart.deposits - (cash + marked);
  const cost = positions.reduce((sum, position) => sum + position.cost, 0n);
  return dayStart.spent + (cost - marked);
}

/** Contracts of one market and what was paid for them; both negative for what is sold. */
export interface Leg {
  ticker: string;
  side: Side;
  contracts: number;
  cost: Micros;
}

/**
 * What an event loses in its worst outcome, 0 if it cannot lose. `possible` are legs that may come or not (orders that are
 * out): of each the worse of both counts, outcome by outcome. Markets that are not known to exclude or include others are not
 * netted with them: each counts by its own worst.
 */
export function worstCaseLoss(
  { outcomes, free }: EventEnds,
  certain: readonly Leg[],
  possible: readonly Leg[],
): Micros {
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
