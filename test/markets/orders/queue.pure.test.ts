import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { emptyBook, type OrderBook } from '../../../src/markets/market/book.js';
import { subtractCounts, sumCounts, toHundredths } from '../../../src/markets/market/contracts.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { Print } from '../../../src/markets/market/source.js';
import {
  advanceQueue,
  bidOf,
  shownAt,
  type QueuedOrder,
  type ShownBook,
} from '../../../src/markets/orders/queue.js';

const at = (seconds: number): Date => new Date(Date.parse('2026-01-31T12:00:00Z') + seconds * 1000);
const cents = (count: number) => BigInt(count) * CENT;

/** A bid for YES at 42 cents that has rested behind ten contracts since the start. */
const order = (change: Partial<QueuedOrder> & { restedAt?: Date } = {}): QueuedOrder => {
  const { restedAt = at(0), ...rest } = change;
  return {
    id: 'a',
    bid: { side: 'yes', price: cents(42) },
    remaining: 5,
    queueAhead: 10,
    seen: { at: restedAt.toISOString(), counted: {} },
    endsAt: null,
    ...rest,
  };
};
/** A print of a YES sale at 42 cents. */
const print = (id: string, seconds: number, contracts: number, change: Partial<Print> = {}): Print => ({
  id,
  ticker: 'T',
  at: at(seconds),
  yesPrice: cents(42),
  contracts,
  takerSide: 'no',
  ...change,
});
const bookOf = (bids: number): OrderBook => ({ yes: [{ price: cents(42), contracts: bids }], no: [] });

/** Advances the orders with the given prints and returns their next state. */
function pass(orders: QueuedOrder[], prints: Print[], seconds: number, shown?: ShownBook) {
  const { fills, places } = advanceQueue(orders, { prints, through: at(seconds) }, shown);
  const next = orders.map((one) => {
    const filled = sumCounts(fills.filter(({ orderId }) => orderId === one.id).map((fill) => fill.contracts));
    return { ...one, ...places.get(one.id)!, remaining: subtractCounts(one.remaining, filled) };
  });
  return { next, fills: fills.map(({ orderId, contracts, print: { id } }) => [orderId, contracts, id]) };
}

describe('a paper order in the book', () => {
  it('is a bid; a sale is a bid for the other side at one dollar less its price', () => {
    expect(bidOf({ side: 'yes', action: 'buy', limitPrice: cents(42) })).toEqual({
      side: 'yes',
      price: cents(42),
    });
    expect(bidOf({ side: 'yes', action: 'sell', limitPrice: cents(42) })).toEqual({
      side: 'no',
      price: cents(58),
    });
    expect(bidOf({ side: 'no', action: 'sell', limitPrice: cents(30) })).toEqual({
      side: 'yes',
      price: cents(70),
    });
    expect(shownAt(bookOf(7), { side: 'yes', price: cents(42) })).toBe(7);
    expect(shownAt(bookOf(7), { side: 'no', price: cents(42) })).toBe(0);
    const deep: OrderBook = {
      yes: [41, 42, 43].map((price) => ({ price: cents(price), contracts: price })),
      no: [],
    };
    expect([40, 42, 43].map((price) => shownAt(deep, { side: 'yes', price: cents(price) }))).toEqual([
      0, 42, 43,
    ]);
  });

  it('fills from prints once everything ahead of it is gone', () => {
    const { next, fills } = pass([order()], [print('p', 1, 8), print('q', 2, 4), print('r', 3, 9)], 10);
    expect(fills).toEqual([
      ['a', 2, 'q'],
      ['a', 3, 'r'],
    ]);
    expect(next[0]).toMatchObject({ remaining: 0, queueAhead: 0 });
  });

  it('for NO fills from takers of YES at one dollar less its price or through it', () => {
    const no = order({ bid: { side: 'no', price: cents(58) }, queueAhead: 0 });
    const taken = (yesPrice: number, takerSide: 'yes' | 'no' = 'yes') =>
      5 - pass([no], [print('p', 1, 3, { yesPrice: cents(yesPrice), takerSide })], 9).next[0]!.remaining;
    expect([41, 42, 43].map((price) => taken(price))).toEqual([0, 3, 3]);
    expect(taken(42, 'no')).toBe(0);
  });

  it.each([
    ['by a taker of the same side', print('p', 1, 50, { takerSide: 'yes' }), 0],
    ['above its price', print('p', 1, 50, { yesPrice: cents(43) }), 0],
    ['through its price', print('p', 1, 50, { yesPrice: cents(41) }), 5],
    ['from before it rested', print('p', -1, 50), 0],
    ['from the moment at which it came to rest', print('p', 0, 50), 5],
    ['from the moment at which it ended', print('p', 9, 50), 0],
  ])('handles a print %s correctly', (_what, one, filled) => {
    const { next } = pass([order({ endsAt: at(9) })], [one], 20);
    expect(next[0]!.remaining).toBe(5 - filled);
  });

  it('learns nothing from a shallow book that shows only better prices', () => {
    const best = (price: number) => ({ yes: [{ price: cents(price), contracts: 3 }], no: [] });
    const cut = (price: number, queueAhead = 10) =>
      pass([order({ queueAhead })], [], 5, { at: at(5), book: best(price), isShallow: true }).next[0]!
        .queueAhead;
    expect([cut(43), cut(42), cut(41)]).toEqual([10, 3, 0]);
    expect([cut(43, Infinity), cut(42, Infinity)]).toEqual([Infinity, 3]);
    expect(pass([order({ queueAhead: Infinity })], [print('p', 1, 1_000)], 5).fills).toEqual([]);
  });

  it('is never further back than the book shows at its price, once all earlier prints are known', () => {
    const shown = { at: at(5), book: bookOf(3), isShallow: false };
    expect(pass([order()], [], 4, shown).next[0]!.queueAhead).toBe(10);
    expect(pass([order()], [], 5, shown).next[0]!.queueAhead).toBe(3);
    // The print explains why seven of the ten left the book, so they are counted only once.
    expect(pass([order()], [print('p', 2, 7)], 5, shown).next[0]!.queueAhead).toBe(3);
    // A print that is listed only after the book already showed its effect is not counted again.
    const late = pass(pass([order()], [], 5, shown).next, [print('p', 2, 7)], 9);
    expect(late.next[0]).toMatchObject({ queueAhead: 3, remaining: 5 });
    // The book already reflects a print from the same moment.
    expect(pass([order()], [print('p', 5, 7)], 5, shown).next[0]!.queueAhead).toBe(3);
    // A book from before the order came to rest does not affect the order's place in the queue.
    expect(pass([order({ restedAt: at(6) })], [], 9, shown).next[0]!.queueAhead).toBe(10);
    expect(pass([order({ restedAt: at(5) })], [], 9, shown).next[0]!.queueAhead).toBe(3);
    // Contracts in the book beyond those expected belong to later orders, which queue behind this one.
    expect(
      pass([order()], [], 5, { at: at(5), book: bookOf(80), isShallow: false }).next[0]!.queueAhead,
    ).toBe(10);
    expect(
      pass([order()], [print('p', 6, 4)], 9, { at: at(5), book: emptyBook, isShallow: false }).fills,
    ).toEqual([['a', 4, 'p']]);
  });

  it('counts no print twice and misses none that is listed late', () => {
    const first = pass([order({ queueAhead: 0 })], [print('p', 50, 1)], 60);
    const again = pass(first.next, [print('q', 49, 1), print('p', 50, 1), print('r', 50, 1)], 90);
    expect(again.fills).toEqual([
      ['a', 1, 'q'],
      ['a', 1, 'r'],
    ]);
    // After more than a minute, the IDs of seen prints are no longer needed.
    expect(pass(again.next, [], 200).next[0]!.seen).toEqual({ at: at(140).toISOString(), counted: {} });
  });

  it('shares a print with its Organization’s other orders: best price first, then oldest', () => {
    const best = order({ id: 'c', bid: { side: 'yes', price: cents(43) }, queueAhead: 0, remaining: 2 });
    const orders = [order({ id: 'b' }), order({ id: 'a' }), best];
    const { fills, next } = pass(orders, [print('p', 1, 15)], 10);
    // Two go to the best price. Ten of the other thirteen clear the queue ahead of the oldest order, which takes three.
    expect(fills).toEqual([
      ['c', 2, 'p'],
      ['a', 3, 'p'],
    ]);
    expect(next.map(({ queueAhead }) => queueAhead)).toEqual([0, 0, 0]);
    // The sequence of the input orders does not matter.
    for (const list of [
      orders.toReversed(),
      [best, ...orders.slice(0, 2)],
      orders.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    ])
      expect(pass(list, [print('p', 1, 15)], 10).fills).toEqual(fills);
  });
});

const counts = fc.integer({ min: 1, max: 3000 }).map((hundredths) => hundredths / 100);
const side = fc.constantFrom('yes' as const, 'no' as const);
const prices = fc.integer({ min: 40, max: 44 }).map(cents);
const prints = fc
  .array(
    fc.record({
      seconds: fc.integer({ min: 0, max: 400 }),
      contracts: counts,
      yesPrice: prices,
      takerSide: side,
    }),
    {
      maxLength: 25,
    },
  )
  .map((list) =>
    list
      .toSorted((a, b) => a.seconds - b.seconds)
      .map(({ seconds, contracts, ...rest }, i) => print(`p${i}`, seconds, contracts, rest)),
  );
const orders = fc
  .array(
    fc.record({
      restedAt: fc.integer({ min: 0, max: 200 }),
      bid: fc
        .tuple(side, prices)
        .map(([own, price]) => ({ side: own, price: own === 'yes' ? price : DOLLAR - price })),
      remaining: counts,
      queueAhead: counts,
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((list) =>
    list.map(({ restedAt, ...rest }, i) => order({ id: `o${i}`, restedAt: at(restedAt), ...rest })),
  );
const passes = fc.array(
  fc.record({
    seconds: fc.integer({ min: 0, max: 500 }),
    isLost: fc.boolean(),
    listedAfter: fc.integer({ min: 0, max: 20 }),
    shown: fc.option(counts),
  }),
  { maxLength: 8 },
);

const reaches = ({ takerSide, yesPrice }: Print, { bid }: QueuedOrder): boolean =>
  takerSide !== bid.side && (bid.side === 'yes' ? yesPrice : DOLLAR - yesPrice) <= bid.price;

describe('paper orders in the book, for any prints and any schedule of passes,', () => {
  it('never fill more than the prints since they rested, less the queue ahead of them', () => {
    fc.assert(
      fc.property(orders, prints, passes, (placed, printed, times) => {
        const filled: { orderId: string; contracts: number; print: Print }[] = [];
        let now = placed;
        for (const { seconds, isLost, listedAfter, shown } of times.toSorted(
          (a, b) => a.seconds - b.seconds,
        )) {
          const listed = printed.filter((one) => one.at <= at(seconds - listedAfter));
          const book =
            shown === null ? undefined : { at: at(seconds - 15), book: emptyBook, isShallow: false };
          const { fills, places } = advanceQueue(now, { prints: listed, through: at(seconds) }, book);
          // A crash before the commit has no effect.
          if (isLost) continue;
          filled.push(...fills);
          now = now.map((one) => {
            const own = sumCounts(
              fills.filter(({ orderId }) => orderId === one.id).map((fill) => fill.contracts),
            );
            return { ...one, ...places.get(one.id)!, remaining: subtractCounts(one.remaining, own) };
          });
        }
        const isCut = times.some(({ shown, isLost }) => shown !== null && !isLost);
        for (const one of placed) {
          const own = filled.filter(({ orderId }) => orderId === one.id);
          const total = toHundredths(sumCounts(own.map(({ contracts }) => contracts)));
          const possible = printed.filter(
            (each) => each.at.toISOString() >= one.seen.at && reaches(each, one),
          );
          const before = isCut ? 0 : toHundredths(one.queueAhead);
          const most = toHundredths(sumCounts(possible.map(({ contracts }) => contracts))) - before;
          expect(total).toBeLessThanOrEqual(Math.min(Math.max(0, most), toHundredths(one.remaining)));
          expect(own.every(({ print: { id } }) => possible.some((each) => each.id === id))).toBe(true);
          expect(new Set(own.map(({ print: { id } }) => id)).size).toBe(own.length);
        }
        for (const one of printed) {
          const taken = sumCounts(
            filled.filter(({ print: { id } }) => id === one.id).map(({ contracts }) => contracts),
          );
          expect(taken).toBeLessThanOrEqual(one.contracts);
        }
      }),
      { numRuns: 300 },
    );
  });

  it('fill the same however often they are advanced', () => {
    const end = 500;
    fc.assert(
      fc.property(
        orders,
        prints,
        fc.array(fc.integer({ min: 0, max: end }), { maxLength: 6 }),
        (placed, printed, times) => {
          const once = pass(placed, printed, end);
          let [now, all] = [placed, [] as (string | number)[][]];
          for (const seconds of [...times.toSorted((a, b) => a - b), end]) {
            const some = pass(
              now,
              printed.filter((one) => one.at <= at(seconds)),
              seconds,
            );
            [now, all] = [some.next, [...all, ...some.fills]];
          }
          expect(all).toEqual(once.fills);
          const standing = (list: QueuedOrder[]) =>
            list.map(({ remaining, queueAhead }) => [remaining, queueAhead]);
          expect(standing(now)).toEqual(standing(once.next));
        },
      ),
      { numRuns: 300 },
    );
  });
});
