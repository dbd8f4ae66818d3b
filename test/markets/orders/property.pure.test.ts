import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toHundredths } from '../../../src/markets/market/contracts.js';
import {
  quoteOrder,
  worstCost,
  type MarketableOrder,
  type OrderBook,
} from '../../../src/markets/market/book.js';
import { BALANCE_STEP, DOLLAR } from '../../../src/markets/market/money.js';
import { addTaken, withoutTaken, type Taken } from '../../../src/markets/orders/paper-book.js';
import {
  applySettlement,
  applyVenueFill,
  applyVoid,
  bookFills,
  type BookedFill,
  type Position,
  type Postings,
} from '../../../src/markets/ledger/positions.js';
import type { FeeRule } from '../../../src/markets/market/fees.js';
import { books, marketableOrders } from '../support/orders-arbitraries.js';
import { bidsOfBook, chargeOf, offersOf } from '../support/orders-model.js';

const rule: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const zero: Postings = { cash: 0n, positions: 0n, fees: 0n, realised: 0n, capital: 0n };
const add = (a: Postings, b: Postings): Postings => ({
  cash: a.cash + b.cash,
  positions: a.positions + b.positions,
  fees: a.fees + b.fees,
  realised: a.realised + b.realised,
  capital: a.capital + b.capital,
});
const sumOf = (p: Postings): bigint => p.cash + p.positions + p.fees + p.realised + p.capital;

describe('an order on any book', () => {
  it('fills at the best prices, never beyond its limit and never more than the book holds', () => {
    fc.assert(
      fc.property(books, marketableOrders, (book, order) => {
        const offers = offersOf(bidsOfBook(book), order).map(({ price }) => price);
        const units = toHundredths(order.contracts);
        const isKilled = order.timeInForce === 'fill_or_kill' && offers.length < units;
        const expected = isKilled ? [] : offers.slice(0, units);
        const { fills } = quoteOrder(book, rule, order);
        expect(
          fills.flatMap(({ price, contracts }) => Array<bigint>(toHundredths(contracts)).fill(price)),
        ).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });

  it('is charged the exact sum of its fills and fees, rounded to $0.0001 once, and a purchase never more than was checked', () => {
    fc.assert(
      fc.property(books, marketableOrders, (book, order) => {
        const quote = quoteOrder(book, rule, order);
        const { change, fees } = chargeOf(order.action, quote.fills);
        expect([quote.balanceChange, quote.fees]).toEqual([change, fees]);
        expect(quote.balanceChange % BALANCE_STEP).toBe(0n);
        if (order.action === 'buy') expect(-quote.balanceChange).toBeLessThanOrEqual(worstCost(rule, order));
      }),
      { numRuns: 300 },
    );
  });

  it('leaves what it did not take for any number of orders before the next book', () => {
    fc.assert(
      fc.property(books, fc.array(marketableOrders, { maxLength: 8 }), (book, orders) => {
        let taken: Taken = [];
        const bids = bidsOfBook(book);
        for (const order of orders) {
          const { fills, filledContracts } = quoteOrder(withoutTaken(book, taken), rule, order);
          const model = offersOf(bids, order).slice(0, toHundredths(filledContracts));
          for (const { bid } of model) bids.splice(bids.indexOf(bid), 1);
          taken = addTaken(taken, order, fills);
          expect(bidsOfBook(withoutTaken(book, taken)).toSorted(byPrice)).toEqual(bids.toSorted(byPrice));
        }
      }),
      { numRuns: 100 },
    );
  });
});

const byPrice = (a: { side: string; price: bigint }, b: { side: string; price: bigint }) =>
  a.side === b.side ? Number(a.price - b.price) : a.side < b.side ? -1 : 1;

describe('an account', () => {
  const end = fc.constantFrom('yes', 'no', 'half', 'void');
  const steps = fc.array(fc.tuple(books, marketableOrders), { maxLength: 20 });

  it('conserves every millionth of a dollar through any orders and any settlement, and never holds a negative position', () => {
    fc.assert(
      fc.property(steps, end, (list, outcome) => {
        let position: Position | undefined;
        let total = zero;
        for (const [book, order] of list) {
          const booked = trade(position, book, order);
          if (!booked) continue;
          for (const postings of booked.postings) {
            expect(sumOf(postings)).toBe(0n);
            total = add(total, postings);
          }
          ({ position } = booked);
          expect(position?.contracts ?? 0).toBeGreaterThanOrEqual(0);
          expect(total.positions).toBe(position?.cost ?? 0n);
          expect(-total.realised).toBe(position?.realised ?? 0n);
          expect(total.fees).toBe(position?.fees ?? 0n);
          expect(total.cash % BALANCE_STEP).toBe(0n);
          if (position?.contracts === 0) expect(position.cost).toBe(0n);
        }
        if (!position) return;
        const value = { yes: DOLLAR, no: 0n, half: DOLLAR / 2n, void: 0n }[outcome];
        const closing = outcome === 'void' ? applyVoid(position) : applySettlement(position, value);
        expect(sumOf(closing.postings)).toBe(0n);
        const after = add(total, closing.postings);
        // Only cash remains, and it equals the realised profit less fees.
        expect([closing.holding.contracts, after.positions]).toEqual([0, 0n]);
        expect(after.cash).toBe(-after.realised - after.fees);
      }),
      { numRuns: 200 },
    );
  });

  it('earns the sum of what its fills would have earned one by one, whatever was netted', () => {
    const fills = fc.array(
      fc.record({
        side: fc.constantFrom('yes', 'no'),
        action: fc.constantFrom('buy', 'sell'),
        price: fc.bigInt({ min: 1n, max: 9_999n }).map((ticks) => ticks * 100n),
        contracts: fc.integer({ min: 1, max: 5_000 }).map((hundredths) => hundredths / 100),
        fee: fc.bigInt({ min: 0n, max: 50_000n }),
      }) satisfies fc.Arbitrary<BookedFill>,
      { maxLength: 20 },
    );
    fc.assert(
      fc.property(fills, fc.boolean(), (list, isYes) => {
        const { position, postings } = bookFills(undefined, list, applyVenueFill);
        const total = postings.reduce(add, zero);
        expect(sumOf(total)).toBe(0n);
        const payout = position ? applySettlement(position, isYes ? DOLLAR : 0n).postings.cash : 0n;
        const alone = list.reduce((sum, { side, action, price, contracts, fee }) => {
          const pays = (side === 'yes') === isYes ? DOLLAR : 0n;
          const gain = action === 'buy' ? pays - price : price - pays;
          return sum + (gain * BigInt(toHundredths(contracts))) / 100n - fee;
        }, 0n);
        expect(total.cash + payout).toBe(alone);
      }),
      { numRuns: 300 },
    );
  });
});

/** Returns what `POST /trade` would book; undefined for a sale of more than is held. */
function trade(position: Position | undefined, book: OrderBook, order: MarketableOrder) {
  const held = position?.side === order.side ? position.contracts : 0;
  if (order.action === 'sell' && order.contracts > held) return undefined;
  const { side, action } = order;
  const { fills } = quoteOrder(book, rule, order);
  return bookFills(
    position,
    fills.map(({ price, contracts, fee }) => ({ side, action, price, contracts, fee })),
  );
}
