import { createHash } from 'node:crypto';
import type { Level, MarketableOrder, OrderBook, Side } from '../market/book.js';
import { DOLLAR } from '../market/money.js';
import { addCounts, subtractCounts } from '../market/contracts.js';

/** Bids that paper orders have hit: `[side of the bid, price in millionths of a dollar, contracts]`. */
export type Taken = [side: Side, price: string, contracts: number][];

const hashes = new WeakMap<OrderBook, string>();

/** SHA-256 of a book's levels, in hex. Books are immutable, so each is hashed once. */
export function bookHash(book: OrderBook): string {
  let hash = hashes.get(book);
  if (hash === undefined) {
    const write = (levels: readonly Level[]) =>
      levels.map(({ price, contracts }) => `${price}x${contracts}`).join(',');
    hash = createHash('sha256')
      .update(`${write(book.yes)}|${write(book.no)}`)
      .digest('hex');
    hashes.set(book, hash);
  }
  return hash;
}

export function withoutTaken(book: OrderBook, taken: Taken): OrderBook {
  if (taken.length === 0) return book;
  const gone = new Map(taken.map(([side, price, contracts]) => [`${side} ${price}`, contracts]));
  const rest = (side: Side): Level[] =>
    book[side].flatMap(({ price, contracts }) => {
      const left = subtractCounts(contracts, gone.get(`${side} ${price}`) ?? 0);
      return left > 0 ? [{ price, contracts: left }] : [];
    });
  return { yes: rest('yes'), no: rest('no') };
}

/** A purchase at a given price hits the other side's bid at one dollar minus that price. */
export function addTaken(
  taken: Taken,
  { side, action }: Pick<MarketableOrder, 'side' | 'action'>,
  fills: readonly Level[],
): Taken {
  const bidSide: Side = (side === 'yes') === (action === 'sell') ? 'yes' : 'no';
  const sum = new Map(taken.map(([of, price, contracts]) => [`${of} ${price}`, contracts]));
  for (const { price, contracts } of fills) {
    const key = `${bidSide} ${action === 'sell' ? price : DOLLAR - price}`;
    sum.set(key, addCounts(sum.get(key) ?? 0, contracts));
  }
  return [...sum].map(([key, contracts]) => {
    const [of, price] = key.split(' ') as [Side, string];
    return [of, price, contracts];
  });
}
