import { DOLLAR, type Micros } from './money.js';
import { addCounts } from './contracts.js';

export type Side = 'yes' | 'no';

/** Contracts that somebody offers to buy at a price. */
export interface Level {
  price: Micros;
  contracts: number;
}

/** Bids of both sides, best first. There are no asks: who sells YES at 60 cents is who bids 40 for NO. */
export interface OrderBook {
  yes: readonly Level[];
  no: readonly Level[];
}

export const emptyBook: OrderBook = { yes: [], no: [] };

const opposite = { yes: 'no', no: 'yes' } as const;

/** What can be bought of a side, cheapest first: the other side's bids, turned around. */
export const asksOf = (book: OrderBook, side: Side): Level[] =>
  book[opposite[side]].map(({ price, contracts }) => ({ price: DOLLAR - price, contracts }));

/** What the side can be sold for, dearest first. */
export const bidsOf = (book: OrderBook, side: Side): readonly Level[] => book[side];

/**
 * Bids as an order book has them: best first, one level per price, none that is empty or outside of the dollar.
 * A price of nothing or of a whole dollar is how the venue writes that there is no bid.
 */
export function toLevels(levels: Iterable<Level>): Level[] {
  const byPrice = new Map<Micros, number>();
  for (const { price, contracts } of levels) {
    if (price <= 0n || price >= DOLLAR || contracts <= 0) continue;
    byPrice.set(price, addCounts(byPrice.get(price) ?? 0, contracts));
  }
  return [...byPrice]
    .map(([price, contracts]) => ({ price, contracts }))
    .sort((a, b) => (a.price > b.price ? -1 : 1));
}

/** True if somebody bids as much for YES as somebody asks, or more: such a book is about to change, or wrong. */
export function isCrossed({ yes, no }: OrderBook): boolean {
  const [bid, otherBid] = [yes[0], no[0]];
  return bid !== undefined && otherBid !== undefined && bid.price + otherBid.price >= DOLLAR;
}

export const isSameBook = (a: OrderBook, b: OrderBook): boolean =>
  isSameSide(a.yes, b.yes) && isSameSide(a.no, b.no);

const isSameSide = (a: readonly Level[], b: readonly Level[]): boolean =>
  a.length === b.length &&
  a.every(({ price, contracts }, i) => price === b[i]!.price && contracts === b[i]!.contracts);
