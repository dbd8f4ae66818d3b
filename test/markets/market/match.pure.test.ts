import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  asksOf,
  bidsOf,
  consume,
  emptyBook,
  isCrossed,
  matchOrder,
  toLevels,
  type MarketableOrder,
  type OrderBook,
} from '../../../src/markets/market/book.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';

const cents = (amount: number) => BigInt(amount) * CENT;
const level = (price: number, contracts: number) => ({ price: cents(price), contracts });

/** YES is at 42 / 45, because a bid of 55 for NO is an ask of 45 for YES. */
const book: OrderBook = { yes: [level(42, 10), level(41, 20)], no: [level(55, 5), level(54, 7)] };

const order = (values: Partial<MarketableOrder>): MarketableOrder => ({
  side: 'yes',
  action: 'buy',
  contracts: 8,
  limitPrice: cents(99),
  timeInForce: 'immediate_or_cancel',
  ...values,
});

describe('an order book', () => {
  it('has the other side’s bids as its asks', () => {
    expect(asksOf(book, 'yes')).toEqual([level(45, 5), level(46, 7)]);
    expect(asksOf(book, 'no')).toEqual([level(58, 10), level(59, 20)]);
    expect(bidsOf(book, 'no')).toEqual([level(55, 5), level(54, 7)]);
  });

  it('is sorted, with one level per price, without empty levels or placeholder prices', () => {
    const messy = [level(41, 3), level(0, 9), level(42, 1), level(41, 4), level(100, 2), level(40, 0)];
    expect(toLevels(messy)).toEqual([level(42, 1), level(41, 7)]);
  });

  it('is crossed if a bid meets an ask', () => {
    expect(isCrossed(book)).toBe(false);
    expect(isCrossed({ yes: [level(45, 1)], no: [level(55, 1)] })).toBe(true);
    expect(isCrossed({ yes: [level(60, 1)], no: [level(55, 1)] })).toBe(true);
    expect(isCrossed(emptyBook)).toBe(false);
  });
});

describe('an order', () => {
  it('walks the book from the best price', () => {
    expect(matchOrder(book, order({}))).toEqual({ fills: [level(45, 5), level(46, 3)], filledContracts: 8 });
    expect(matchOrder(book, order({ action: 'sell', limitPrice: cents(1), contracts: 12 }))).toEqual({
      fills: [level(42, 10), level(41, 2)],
      filledContracts: 12,
    });
  });

  it('stops at its limit, and fill-or-kill then takes nothing', () => {
    expect(matchOrder(book, order({ limitPrice: cents(45) })).filledContracts).toBe(5);
    const all = order({ limitPrice: cents(45), timeInForce: 'fill_or_kill' });
    expect(matchOrder(book, all)).toEqual({ fills: [], filledContracts: 0 });
    expect(matchOrder(book, { ...all, contracts: 5 }).filledContracts).toBe(5);
  });

  it('takes nothing from an empty book', () => {
    expect(matchOrder(emptyBook, order({}))).toEqual({ fills: [], filledContracts: 0 });
  });
});

const levels = fc
  .array(
    fc.record({
      price: fc.integer({ min: 1, max: 99 }).map(cents),
      contracts: fc.integer({ min: 1, max: 500 }),
    }),
    {
      maxLength: 12,
    },
  )
  .map(toLevels);
const anyBook = fc.record({ yes: levels, no: levels });
const anyOrder = fc.record<MarketableOrder>({
  side: fc.constantFrom('yes', 'no'),
  action: fc.constantFrom('buy', 'sell'),
  contracts: fc.integer({ min: 1, max: 2_000 }),
  limitPrice: fc.integer({ min: 1, max: 99 }).map(cents),
  timeInForce: fc.constantFrom('immediate_or_cancel', 'fill_or_kill'),
});

const count = (list: readonly { contracts: number }[]) =>
  list.reduce((sum, { contracts }) => sum + contracts, 0);

describe('for any book and order', () => {
  it('no fill beats the book, breaks the limit or exceeds the requested size', () => {
    fc.assert(
      fc.property(anyBook, anyOrder, (book, order) => {
        const { fills, filledContracts } = matchOrder(book, order);
        expect(count(fills)).toBe(filledContracts);
        expect(filledContracts).toBeLessThanOrEqual(order.contracts);
        if (order.timeInForce === 'fill_or_kill') expect([0, order.contracts]).toContain(filledContracts);
        const offered = new Map(
          (order.action === 'buy' ? asksOf(book, order.side) : bidsOf(book, order.side)).map((l) => [
            l.price,
            l.contracts,
          ]),
        );
        for (const { price, contracts } of fills) {
          expect(contracts).toBeLessThanOrEqual(offered.get(price) ?? 0);
          expect(order.action === 'buy' ? price <= order.limitPrice : price >= order.limitPrice).toBe(true);
        }
        // Fills never skip a better level.
        const worst = fills.at(-1)?.price;
        for (const [price, contracts] of offered) {
          const isBetter = worst !== undefined && (order.action === 'buy' ? price < worst : price > worst);
          if (isBetter) expect(fills).toContainEqual({ price, contracts });
        }
      }),
    );
  });

  it('exactly the contracts taken are removed', () => {
    fc.assert(
      fc.property(anyBook, anyOrder, (book, order) => {
        const { fills, filledContracts } = matchOrder(book, order);
        const left = consume(book, order, fills);
        expect(count(left.yes) + count(left.no)).toBe(count(book.yes) + count(book.no) - filledContracts);
        // Repeating the order fills only from the remaining contracts, never from those already taken.
        const again = matchOrder(left, { ...order, timeInForce: 'immediate_or_cancel' });
        const both = matchOrder(book, {
          ...order,
          contracts: filledContracts + order.contracts,
          timeInForce: 'immediate_or_cancel',
        });
        expect(filledContracts + again.filledContracts).toBe(both.filledContracts);
        for (const side of ['yes', 'no'] as const)
          for (const { price, contracts } of left[side])
            expect(contracts > 0 && contracts <= book[side].find((l) => l.price === price)!.contracts).toBe(
              true,
            );
      }),
    );
    expect(consume(book, order({}), [level(45, 5), level(46, 3)])).toEqual({ ...book, no: [level(54, 4)] });
    expect(DOLLAR).toBe(cents(100));
  });
});
