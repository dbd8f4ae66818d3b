import { DOLLAR } from '../market/money.js';
import type { Leg } from './exposure.js';
import type { PendingOrder, RiskFacts } from './facts.js';
import type { RiskInput } from './gate.js';
import { isCount, subtractCounts, sumCounts, valueOf } from '../market/contracts.js';

/** An order and what it means for what is held. */
export interface Deal {
  input: RiskInput;
  facts: RiskFacts;
  /** Only gives up what is held: a sale, or a purchase of the other side that closes pairs. */
  isReducing: boolean;
  /** Contracts that the order could close, without those that pending orders close already. */
  closable: number;
}

/** @throws RangeError for an order that is none */
export function toDeal(input: RiskInput, facts: RiskFacts): Deal {
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

const otherSide = { yes: 'no', no: 'yes' } as const;

/** The side of which an order takes contracts away, if they are held. */
const closedSide = ({ side, action }: Pick<PendingOrder, 'side' | 'action'>) =>
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
