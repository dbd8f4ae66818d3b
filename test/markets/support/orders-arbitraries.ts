import fc from 'fast-check';
import {
  isCrossed,
  toLevels,
  type MarketableOrder,
  type OrderBook,
} from '../../../src/markets/market/book.js';
import { CENT } from '../../../src/markets/market/money.js';

/** Numbers of contracts with up to two decimals, including whole numbers. */
const counts = (max: number) =>
  fc
    .oneof(
      fc.integer({ min: 1, max: max / 100 }).map((whole) => whole * 100),
      fc.integer({ min: 1, max }),
    )
    .map((hundredths) => hundredths / 100);

const levels = fc.array(fc.tuple(fc.integer({ min: 1, max: 99 }), counts(400)), {
  maxLength: 5,
});

/** Uncrossed books with whole-cent prices. */
export const books: fc.Arbitrary<OrderBook> = fc
  .tuple(levels, levels)
  .map(([yes, no]) => ({ yes: toCents(yes), no: toCents(no) }))
  .filter((book) => !isCrossed(book));

const toCents = (list: [number, number][]) =>
  toLevels(list.map(([price, contracts]) => ({ price: BigInt(price) * CENT, contracts })));

export const marketableOrders: fc.Arbitrary<MarketableOrder> = fc.record({
  side: fc.constantFrom('yes', 'no'),
  action: fc.constantFrom('buy', 'buy', 'sell'),
  contracts: counts(600),
  limitPrice: fc.integer({ min: 1, max: 99 }).map((cents) => BigInt(cents) * CENT),
  timeInForce: fc.constantFrom('immediate_or_cancel', 'fill_or_kill'),
});
