import { describe, expect, it } from 'vitest';
import { createBookMemory } from '../../../src/markets/execution/books.js';
import { markFill } from '../../../src/markets/execution/marker.js';
import type { OrderBook } from '../../../src/markets/market/book.js';
import { CENT } from '../../../src/markets/market/money.js';
import type { Print } from '../../../src/markets/market/source.js';
import { createSnapshotStore, type Snapshot } from '../../../src/markets/snapshot/snapshot.js';
import { makeBook } from '../support/events.js';

const TICKER = 'KXHIGHNY-26NOV21-B40.5';
const at = new Date('2026-11-21T12:00:00Z');
const later = (seconds: number) => new Date(at.getTime() + seconds * 1000);

const fill = {
  ticker: TICKER,
  side: 'yes',
  action: 'buy',
  contracts: 5,
  price: 45n * CENT,
  at,
  hasTaken: true,
} as const;
const print = (
  seconds: number,
  cents: number,
  takerSide: 'yes' | 'no',
  more: Partial<Print> = {},
): Print => ({
  id: `${seconds} ${cents} ${takerSide}`,
  ticker: TICKER,
  at: later(seconds),
  yesPrice: BigInt(cents) * CENT,
  contracts: 1,
  takerSide,
  ...more,
});
const still = makeBook([[42, 10]], [[55, 3]]);
const dearer = makeBook([[46, 10]], [[52, 3]]);
/** Builds a book lookup from books keyed by the second at which they become known. */
const knowing = (books: Record<number, OrderBook>) => ({
  bookAt: (_: string, __: Date, moment: Date) =>
    Object.entries(books).findLast(([second]) => later(Number(second)) <= moment)?.[1],
});
const nothing = knowing({});

describe('a fill, a minute later,', () => {
  it('would have missed if no taker got its price and the next book has nothing left there', () => {
    const missed = (prints: Print[] | undefined, books = knowing({ 10: dearer })) =>
      markFill(fill, prints, books).missed;
    expect(missed([])).toBe(true);
    expect(missed([print(5, 46, 'yes'), print(6, 44, 'no')])).toBe(true);
    expect(missed([print(0, 45, 'yes'), print(61, 45, 'yes')])).toBe(true);
    expect(missed([print(59, 45, 'yes')])).toBe(false);
    expect(missed([print(1, 44, 'yes')])).toBe(false);
    expect(missed([], knowing({ 10: still, 20: dearer }))).toBe(false);
    // The first known book counts, not the later one.
    expect(missed([], knowing({ 20: dearer, 50: still }))).toBe(true);
  });

  it('is not judged without data', () => {
    expect(markFill(fill, [], nothing).missed).toBeNull();
    expect(markFill(fill, undefined, knowing({ 10: dearer })).missed).toBeNull();
    expect(markFill(fill, undefined, knowing({ 10: still })).missed).toBe(false);
    expect(markFill(fill, [print(5, 45, 'yes')], nothing).missed).toBe(false);
    expect(markFill({ ...fill, hasTaken: false }, [], knowing({ 10: dearer })).missed).toBeNull();
  });

  it.each([
    ['a sale of YES at 42', { side: 'yes', action: 'sell', price: 42n * CENT }, [42, 'no'], [41, 'no']],
    ['a purchase of NO at 58', { side: 'no', action: 'buy', price: 58n * CENT }, [42, 'no'], [41, 'no']],
    ['a sale of NO at 55', { side: 'no', action: 'sell', price: 55n * CENT }, [45, 'yes'], [46, 'yes']],
  ] as const)('is judged on its own side: %s', (_, change, [good, taker], [bad]) => {
    const gone = knowing({ 10: makeBook([[30, 1]], [[30, 1]]) });
    const missed = (cents: number, takerSide: 'yes' | 'no') =>
      markFill({ ...fill, ...change }, [print(5, cents, takerSide)], gone).missed;
    expect(missed(good, taker)).toBe(false);
    expect(missed(bad, taker)).toBe(true);
    expect(missed(good, taker === 'yes' ? 'no' : 'yes')).toBe(true);
    const left = knowing({ 10: still });
    expect(markFill({ ...fill, ...change }, [], left).missed).toBe(false);
  });

  it('is priced at the middle of the book, or else at the last print, on its own side', () => {
    const books = knowing({ 20: dearer, 40: makeBook([[50, 1]], []) });
    const prints = [print(3, 44, 'no'), print(14, 47, 'yes'), print(16, 60, 'yes'), print(45, 51, 'yes')];
    expect(markFill(fill, prints, books).after).toEqual([47n * CENT, 47n * CENT, 51n * CENT]);
    expect(markFill({ ...fill, side: 'no' }, prints, books).after).toEqual([
      53n * CENT,
      53n * CENT,
      49n * CENT,
    ]);
    expect(markFill(fill, [print(16, 60, 'yes')], nothing).after).toEqual([null, 60n * CENT, 60n * CENT]);
    expect(markFill(fill, undefined, nothing).after).toEqual([null, null, null]);
  });
});

describe('the memory of books', () => {
  const clock = { ms: at.getTime(), now: () => clock.ms };
  const store = createSnapshotStore();
  const memory = createBookMemory({ store, clock });
  function show(
    seconds: number,
    book: OrderBook,
    {
      isTold = false,
      isDoubted = false,
      readAt,
    }: { isTold?: boolean; isDoubted?: boolean; readAt?: number } = {},
  ) {
    clock.ms = later(seconds).getTime();
    const data = {
      fetchedAt: later(seconds),
      books: new Map([[TICKER, book]]),
      ...(readAt === undefined ? {} : { bookTimes: new Map([[TICKER, later(readAt)]]) }),
      ...(isDoubted ? { doubts: new Map([[TICKER, later(seconds)]]) } : {}),
    };
    const snapshot = { data, sources: [] } as unknown as Snapshot;
    store.replace(isTold ? { ...snapshot, refreshed: snapshot } : snapshot);
  }
  const bookAt = (since: number, moment: number) => memory.bookAt(TICKER, later(since), later(moment));

  it('knows a book that was read after a time, not an earlier one that may have changed', () => {
    show(0, still);
    show(30, dearer);
    expect(bookAt(5, 15)).toBeUndefined();
    expect(bookAt(5, 30)).toBe(dearer);
    expect(bookAt(5, 60)).toBe(dearer);
    expect(bookAt(-5, 15)).toBe(still);
    expect(memory.bookAt('KXHIGHNY-26NOV21-T40', at, later(60))).toBeUndefined();
  });

  it('treats a book as unchanged if a later read shows the same book, or until a change is streamed', () => {
    show(60, makeBook([[46, 10]], [[52, 3]]));
    expect(bookAt(35, 50)).toBe(dearer);
    show(75, still, { isTold: true });
    expect(bookAt(65, 70)).toEqual(dearer);
    expect(bookAt(65, 80)).toBe(still);
  });

  it('uses the time at which a book was read, and ignores a book in doubt', () => {
    show(90, dearer, { readAt: 82 });
    expect(bookAt(80, 83)).toBe(dearer);
    show(95, dearer, { isTold: true, isDoubted: true });
    expect(bookAt(80, 96)).toBeUndefined();
    show(100, still, { readAt: 85 });
    // This book was read at 85 s, before the doubt arose at 95 s.
    expect(bookAt(80, 100)).toBeUndefined();
  });

  it('forgets books older than any mark needs, and markets that are no longer listed', () => {
    show(600, still);
    show(601, still);
    expect(bookAt(0, 100)).toBeUndefined();
    store.replace({ data: { fetchedAt: later(602), books: new Map() }, sources: [] } as unknown as Snapshot);
    expect(bookAt(599, 601)).toBeUndefined();
  });
});
