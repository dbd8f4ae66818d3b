import { otherSide, sidePrice, type Side } from '../market/book.js';
import { addCounts, partOf, subtractCounts, valueOf } from '../market/contracts.js';
import type { Fill } from '../market/fees.js';
import { DOLLAR, type Micros } from '../market/money.js';

export interface Position extends Holding {
  /** Before fees; losses are negative. */
  realised: Micros;
  fees: Micros;
}

/** @throws RangeError if more is sold than held */
export function bookFills(
  held: Position | undefined,
  fills: readonly BookedFill[],
  apply: (held: Holding | undefined, fill: BookedFill) => Booking = applyFill,
) {
  let position = held;
  const postings: Postings[] = [];
  for (const fill of fills) {
    const booking = apply(position, fill);
    const { realised, fees } = position ?? { realised: 0n, fees: 0n };
    position = {
      ...booking.holding,
      realised: realised - booking.postings.realised,
      fees: fees + booking.postings.fees,
    };
    postings.push(booking.postings);
  }
  return { position, postings, cashChange: postings.reduce((sum, { cash }) => sum + cash, 0n) };
}

/** It has happened, so the ledger books it in any case. Selling more than is held buys the other side. */
export function applyVenueFill(held: Holding | undefined, fill: BookedFill): Booking {
  const own = held?.side === fill.side ? held.contracts : 0;
  if (fill.action === 'buy' || own >= fill.contracts) return applyFill(held, fill);
  const turned: BookedFill = {
    side: otherSide[fill.side],
    action: 'buy',
    price: DOLLAR - fill.price,
    contracts: subtractCounts(fill.contracts, own),
    fee: fill.fee,
  };
  if (own === 0) return applyFill(held, turned);
  const sold = applyFill(held, { ...fill, contracts: own, fee: 0n });
  const bought = applyFill(sold.holding, turned);
  return { holding: bought.holding, postings: addPostings(sold.postings, bought.postings) };
}

const addPostings = (a: Postings, b: Postings): Postings => ({
  cash: a.cash + b.cash,
  positions: a.positions + b.positions,
  fees: a.fees + b.fees,
  realised: a.realised + b.realised,
  capital: a.capital + b.capital,
});

/** `cost` is without fees. */
export interface Holding {
  side: Side;
  contracts: number;
  cost: Micros;
}

/** Millionths of a dollar, summing to zero. See `ledgerEntries`. */
export interface Postings {
  cash: Micros;
  positions: Micros;
  fees: Micros;
  /** Negative for a profit: `realised` is a source account. */
  realised: Micros;
  capital: Micros;
}

export interface Booking {
  holding: Holding;
  postings: Postings;
}

export interface BookedFill extends Omit<Fill, 'isMaker'> {
  side: Side;
  fee: Micros;
}

/**
 * At average cost. Buying the side that is not held closes pairs: the venue pays a dollar for each YES and NO together.
 * @throws RangeError if more is sold than held
 */
export function applyFill(held: Holding | undefined, fill: BookedFill): Booking {
  const value = valueOf(fill.price, fill.contracts);
  const own = held && held.contracts > 0 ? held : { side: fill.side, contracts: 0, cost: 0n };
  if (fill.action === 'sell') {
    if (own.side !== fill.side || own.contracts < fill.contracts)
      throw new RangeError(`cannot sell ${fill.contracts} ${fill.side} of ${own.contracts} ${own.side} held`);
    return book(own, { ...fill, closed: fill.contracts, proceeds: value, opened: 0, paid: 0n });
  }
  const closed = own.side === fill.side ? 0 : Math.min(own.contracts, fill.contracts);
  const opened = subtractCounts(fill.contracts, closed);
  // Buying NO at 40 cents to close YES equals selling YES at 60.
  const proceeds = valueOf(DOLLAR - fill.price, closed);
  return book(own, { ...fill, closed, proceeds, opened, paid: valueOf(fill.price, opened) });
}

/** If all pending purchases fill at their limits. */
export function withPurchases(
  holdings: ReadonlyMap<string, Holding>,
  purchases: readonly (Pick<BookedFill, 'side' | 'contracts'> & { ticker: string; limitPrice: Micros })[],
): ReadonlyMap<string, Holding> {
  const held = new Map(holdings);
  for (const { ticker, side, contracts, limitPrice: price } of purchases)
    held.set(ticker, applyFill(held.get(ticker), { side, action: 'buy', price, contracts, fee: 0n }).holding);
  return held;
}

function book(
  held: Holding,
  filled: Pick<BookedFill, 'side' | 'fee'> & {
    closed: number;
    proceeds: Micros;
    opened: number;
    paid: Micros;
  },
): Booking {
  const { side, fee, closed, proceeds, opened, paid } = filled;
  const costOfClosed = shareOfCost(held, closed);
  const kept = subtractCounts(held.contracts, closed);
  const cost = held.cost - costOfClosed + paid;
  return {
    holding: {
      side: kept > 0 || opened === 0 ? held.side : side,
      contracts: addCounts(kept, opened),
      cost,
    },
    postings: {
      cash: proceeds - paid - fee,
      positions: paid - costOfClosed,
      fees: fee,
      realised: costOfClosed - proceeds,
      capital: 0n,
    },
  };
}

/** The last contracts take the rounding remainder. */
const shareOfCost = ({ contracts, cost }: Holding, some: number): Micros =>
  some === contracts ? cost : partOf(cost, some, contracts);

export const applySettlement = (held: Holding, valueOfYes: Micros): Booking =>
  close(held, valueOf(sidePrice(held.side, valueOfYes), held.contracts));

export const applyVoid = (held: Holding): Booking => close(held, held.cost);

const close = (held: Holding, payout: Micros): Booking => ({
  holding: { side: held.side, contracts: 0, cost: 0n },
  postings: { cash: payout, positions: -held.cost, fees: 0n, realised: held.cost - payout, capital: 0n },
});
