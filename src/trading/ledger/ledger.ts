import { DOLLAR, type Micros } from '../market/money.js';
import { applyFill, type BookedFill, type Booking, type Holding, type Postings } from './positions.js';
import { subtractCounts } from '../market/contracts.js';

/** What is held of one market, with what it has earned and cost so far. */
export interface Position extends Holding {
  /** Profit is positive; fees apart. */
  realised: Micros;
  fees: Micros;
}

export interface BookedFills {
  /** Undefined where nothing was booked and nothing was there. */
  position: Position | undefined;
  /** One for each fill, in their order. */
  postings: Postings[];
  /** By how much the balance changes with all of them. */
  cashChange: Micros;
}

/**
 * Books fills one after the other.
 * @throws RangeError for a sale of more than is held
 */
export function bookFills(
  held: Position | undefined,
  fills: readonly BookedFill[],
  apply: (held: Holding | undefined, fill: BookedFill) => Booking = applyFill,
): BookedFills {
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

/**
 * Like `applyFill`, for a fill that has happened whatever our books say: who sells more than is held has bought the
 * other side for what is left of the dollar.
 */
export function applyVenueFill(held: Holding | undefined, fill: BookedFill): Booking {
  const own = held?.side === fill.side ? held.contracts : 0;
  if (fill.action === 'buy' || own >= fill.contracts) return applyFill(held, fill);
  const turned: BookedFill = {
    side: fill.side === 'yes' ? 'no' : 'yes',
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
