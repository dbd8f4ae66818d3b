import { describe, expect, it } from 'vitest';
import {
  createLookBack,
  markByTrades,
  summariseExecution,
  type FillMark,
  type PaperFill,
} from '../../backtest/look-back.js';
import type { RecordedTrade } from '../../backtest/records.js';
import type { OrderBook } from '../../../src/markets/market/book.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { Print, PrintsRead } from '../../../src/markets/market/source.js';
import { makeBook } from '../../../test/markets/support/events.js';

const TICKER = 'KXHIGHNY-26NOV21-B40.5';
const start = new Date('2026-11-21T12:00:00Z');
const later = (seconds: number) => new Date(start.getTime() + seconds * 1000);

const fill = (seconds = 0, more: Partial<PaperFill> = {}): PaperFill => ({
  ticker: TICKER,
  side: 'yes',
  action: 'buy',
  contracts: 5,
  price: 45n * CENT,
  at: later(seconds),
  hasTaken: true,
  profit: null,
  ...more,
});
const print = (seconds: number, cents: number, takerSide: 'yes' | 'no' = 'yes', ticker = TICKER): Print => ({
  id: `${ticker} ${seconds} ${cents}`,
  ticker,
  at: later(seconds),
  yesPrice: BigInt(cents) * CENT,
  contracts: 1,
  takerSide,
});
const read = (from: number, until: number, prints: Print[] = [], tickers = [TICKER]): PrintsRead => ({
  tickers,
  since: later(from),
  until: later(until),
  prints,
});
const dearer = makeBook([[46, 10]], [[52, 3]]);
const shows = (seconds: number, book: OrderBook, doubts?: Map<string, Date>) =>
  [
    later(seconds),
    { fetchedAt: later(seconds), books: new Map([[TICKER, book]]), ...(doubts && { doubts }) },
  ] as const;

describe('looking back at a fill', () => {
  it('marks it like the service, once all prints within a minute are known', () => {
    const found = createLookBack([fill()]);
    for (const seconds of [0, 30, 60]) found.see(...shows(seconds, dearer));
    found.read(read(-10, 40, [print(20, 46)]));
    expect(found.marks()).toEqual([
      { missed: null, after: [47n * CENT, 47n * CENT, 47n * CENT], hasPrints: false },
    ]);
    // Further reads overlap the first. No print was at the fill's price or better.
    found.read(read(30, 64));
    expect(found.marks()[0]).toMatchObject({ hasPrints: false });
    found.read(read(60, 65));
    expect(found.marks()[0]).toMatchObject({ missed: true, hasPrints: true });
    // A print that was listed late is found by the next read.
    found.read(read(55, 90, [print(59, 45)]));
    expect(found.marks()[0]).toMatchObject({ missed: false, hasPrints: true });
  });

  it('leaves an unread period unknown, whatever was read around it', () => {
    const found = createLookBack([fill()]);
    found.read(read(-30, 20));
    found.read(read(21, 120));
    found.read(read(-60, 120, [], ['KXHIGHNY-26NOV21-B42.5']));
    expect(found.marks()).toEqual([{ missed: null, after: [null, null, null], hasPrints: false }]);
  });

  it('only uses its own minute and market', () => {
    const other = 'KXHIGHCHI-26NOV21-B40.5';
    const found = createLookBack([fill(), fill(0, { ticker: other }), fill(600)]);
    found.see(...shows(10, dearer));
    found.see(...shows(300, makeBook([[20, 1]], [[70, 1]])));
    found.read(read(0, 100, [print(5, 60, 'no', other), print(6, 30, 'no')], [TICKER, other]));
    const [first, second, third] = found.marks();
    expect(first!.after).toEqual([47n * CENT, 47n * CENT, 47n * CENT]);
    expect(second!.after).toEqual([60n * CENT, 60n * CENT, 60n * CENT]);
    expect(third).toEqual({ missed: null, after: [null, null, null], hasPrints: false });
  });

  it('ignores a doubtful book', () => {
    const found = createLookBack([fill()]);
    found.see(...shows(10, dearer, new Map([[TICKER, start]])));
    expect(found.marks()[0]!.after).toEqual([null, null, null]);
  });
});

describe('recorded trades', () => {
  const trade = (seconds: number, yesPrice: number, takerSide: 'yes' | 'no'): RecordedTrade => ({
    atMs: later(seconds).getTime(),
    yesPrice,
    contracts: 2,
    takerSide,
  });
  const missed = (trades: RecordedTrade[], one = fill()) =>
    markByTrades(one, new Map([[TICKER, trades]])).missed;

  it('show that a fill would have missed if the next takers on its side paid more', () => {
    expect(missed([trade(20, 46, 'yes')])).toBe(true);
    expect(missed([trade(20, 46, 'yes'), trade(50, 45, 'yes')])).toBe(false);
    expect(missed([trade(20, 45, 'yes')])).toBe(false);
    expect(missed([trade(20, 44, 'no')], fill(0, { action: 'sell' }))).toBe(true);
    expect(missed([trade(20, 54, 'no')], fill(0, { side: 'no' }))).toBe(true);
    expect(missed([trade(20, 55, 'no')], fill(0, { side: 'no', price: 45n * CENT }))).toBe(false);
  });

  it('leave a miss unknown without takers on its side, and everything unknown without trades', () => {
    expect(missed([])).toBeNull();
    expect(missed([trade(20, 46, 'no'), trade(61, 46, 'yes')])).toBeNull();
    const unknown = { missed: null, after: [null, null, null], hasPrints: false };
    expect(markByTrades(fill(), new Map())).toEqual(unknown);
    expect(markByTrades(fill(), new Map([[TICKER, []]]))).toEqual({ ...unknown, hasPrints: true });
  });

  it('give the price at the time: the midpoint of both sides, or the last trade', () => {
    const trades = [trade(10, 46, 'yes'), trade(25, 42, 'no'), trade(45, 30, 'no')];
    expect(markByTrades(fill(), new Map([[TICKER, trades]])).after).toEqual(
      [46n, 44n, 38n].map((c) => c * CENT),
    );
  });
});

describe('the summary of fills', () => {
  it('covers fills with known data, and counts them', () => {
    const mark = (missed: boolean | null, cents: (number | null)[], hasPrints = true): FillMark => ({
      missed,
      after: cents.map((one) => (one === null ? null : BigInt(one) * CENT)),
      hasPrints,
    });
    const fills = [
      fill(0, { contracts: 3, profit: -2n * DOLLAR }),
      fill(1, { contracts: 1 }),
      fill(2, { action: 'sell', profit: DOLLAR }),
      fill(3, { contracts: 0.5 }),
    ];
    const marks = [
      mark(true, [44, 43, null]),
      mark(true, [49, null, null]),
      mark(false, [null, 44, null]),
      mark(null, [null, null, null], false),
    ];
    expect(summariseExecution(fills, marks)).toEqual({
      fills: 4,
      contracts: 9.5,
      known: 3,
      withPrints: 3,
      judged: 3,
      missed: 2,
      missedContracts: 4,
      missedProfit: -2,
      after: [
        // Three contracts lost a cent each; one gained four cents.
        { seconds: 15, fills: 2, move: expect.closeTo(0.0025) as number },
        // Three contracts lost two cents each. The five sold gained a cent each, because the price fell.
        { seconds: 30, fills: 2, move: expect.closeTo(-0.00125) as number },
        { seconds: 60, fills: 0, move: null },
      ],
    });
  });
});
