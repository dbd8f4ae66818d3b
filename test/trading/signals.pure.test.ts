import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DayForecast } from '../../src/trading/forecast/forecast.js';
import { asksOf, toLevels } from '../../src/trading/markets/book.js';
import type { Market } from '../../src/trading/markets/market.js';
import { CENT, DOLLAR } from '../../src/trading/money.js';
import { quoteOrder } from '../../src/trading/orders/quote.js';
import { makeSignals, type SignalInput } from '../../src/trading/signals/signals.js';
import { makeBook, makeData, makeEvent, makeForecasts, quadratic } from './signals-world.js';

const date = '2026-07-04';
/** An hour into the climate day of New York, so that no report is expected yet. */
const at = new Date('2026-07-04T06:00:00Z');
const event = makeEvent({ date, lowest: 68 });
const chances = [0.05, 0.1, 0.6, 0.15, 0.07, 0.03];
const empty = makeBook([], []);
/** The third market: YES is asked at $0.50, NO at $0.52. */
const oneBook = [empty, empty, makeBook([[48, 100]], [[50, 1_000]])];
const bankroll = 1_000n * DOLLAR;

interface Changes {
  books?: ReturnType<typeof makeBook>[];
  data?: Partial<SignalInput['data']>;
  day?: Partial<DayForecast>;
  market?: Partial<Market>;
  now?: Date;
  probabilities?: number[];
}

function input({
  books = oneBook,
  data,
  day,
  market,
  now = at,
  probabilities = chances,
}: Changes = {}): SignalInput {
  const changed = makeEvent({ date, lowest: 68, over: market ?? {} });
  return {
    data: { ...makeData(changed, books, at), ...data },
    events: [changed],
    forecasts: makeForecasts(changed, probabilities, { at, ...day }),
    bankroll,
    at: now,
  };
}
const signalsOf = (changes?: Changes) => makeSignals(input(changes)).events.flatMap(({ signals }) => signals);
const reasonsOf = (changes: Changes) => {
  const report = makeSignals(input(changes)).events[0]!;
  return {
    count: report.signals.length,
    reasons: [...new Set(report.suppressed.map(({ reason }) => reason))],
  };
};

describe('a signal', () => {
  it('has the price that can be paid, the exact fee and what a quarter of Kelly buys', () => {
    const [signal, ...others] = signalsOf();
    expect(others).toEqual([]);
    // f* = 0.170984; $42.746 / $0.5175 = 82 contracts; $41 and 0.07 · 82 · 0.25 = $1.435, to the cent $1.44.
    expect(signal).toMatchObject({
      side: 'yes',
      price: 50n * CENT,
      depth: 1_000,
      probability: 0.6,
      contracts: 82,
      limitPrice: 50n * CENT,
      averagePrice: 50n * CENT,
      fee: 1_440_000n,
      stake: 42_440_000n,
      expectedValue: 6_760_000n,
      expiresAt: new Date(at.getTime() + 30_000),
    });
    expect(signal!.market.ticker).toBe(event.markets[2]!.ticker);
    expect(signal!.fullKelly).toBeCloseTo(0.170984, 6);
    expect(signal!.fractionalKelly).toBeCloseTo(0.042746, 6);
    expect(signal!.breakEven).toBeCloseTo(42.44 / 82, 12);
    expect(signal!.edge).toBeCloseTo(0.6 - 42.44 / 82, 12);
  });

  it('walks the book level by level', () => {
    const book = makeBook(
      [[40, 10]],
      [
        [50, 10],
        [48, 100],
      ],
    );
    const [signal] = signalsOf({ books: [empty, empty, book] });
    // 10 at $0.50 and 53 at $0.52: $32.56; fees $0.1750 and $0.9261; together $33.6611, to the cent $33.67.
    expect(signal).toMatchObject({
      contracts: 63,
      limitPrice: 52n * CENT,
      stake: 33_670_000n,
      fee: 1_110_000n,
    });
  });

  it('buys NO where the forecast is below the bid', () => {
    // The fifth market: p = 0.07, YES is wanted at $0.20, so NO costs $0.80 and pays with 0.93.
    const books = [empty, empty, empty, empty, makeBook([[20, 50]], [[70, 50]])];
    const [signal, ...others] = signalsOf({ books });
    expect(others).toEqual([]);
    expect(signal).toMatchObject({ side: 'no', price: 80n * CENT, contracts: 50 });
    expect(signal!.probability).toBeCloseTo(0.93, 12);
  });

  it('says in words why, with its numbers, and that the forecast is not calibrated', () => {
    const report = makeSignals(input());
    expect(report).toMatchObject({
      method: 'raw_ensemble',
      isCalibrated: false,
      kellyShare: 0.25,
      sizing: 'single_market',
    });
    const [signal] = report.events[0]!.signals;
    expect(signal!.reasons).toEqual([
      '60.0 % for 70° to 71°: 31 members of the run of 2026-07-04T00:00Z expect 71.3 °F ± 2.4.',
      'YES is asked at $0.5000 (1000 contracts); with the exact fee it is worth buying from 51.8 % on: an edge of 8.2 %.',
      'Kelly gives 17.1 % of the bankroll, a quarter of it is used: 82 contracts up to $0.5000 for $42.4400, all of which can be lost.',
      'The forecast is the raw ensemble, not calibrated, and each market is sized for itself: see /scores for how it did.',
    ]);
  });

  it('ends with the market, if that closes before the prices expire', () => {
    const closeTime = new Date(at.getTime() + 10_000);
    expect(signalsOf({ market: { closeTime } })[0]!.expiresAt).toEqual(closeTime);
  });

  it('is the same for the same inputs', () => {
    expect(makeSignals(input())).toEqual(makeSignals(input()));
  });

  it('takes at most 5 % of the bankroll for a market and 10 % for an event, the best edges first', () => {
    const cheap = makeBook([[3, 10]], [[95, 100_000]]);
    const probabilities = [0.31, 0.3, 0.29, 0.05, 0.03, 0.02];
    const signals = signalsOf({ books: [cheap, cheap, cheap], probabilities });
    const stakes = signals.map(({ stake }) => stake);
    // 936 contracts at $0.05 and their fee of $3.1122 are $49.92; a 937th would not fit into $50.
    expect(stakes.slice(0, 2)).toEqual([49_920_000n, 49_920_000n]);
    expect(stakes.reduce((sum, stake) => sum + stake, 0n)).toBeLessThanOrEqual(100n * DOLLAR);
    expect(signals[0]!.market.ticker).toBe(event.markets[0]!.ticker);
    expect(signals[0]!.reasons[2]).toContain('held to $50.0000 by the caps');
  });

  it('is not made where the better ones have used up the cap of the event', () => {
    // Of $10 an event may take $1 and a market $0.50: two contracts at $0.20 and their fee are $0.43. That leaves $0.14 for
    // a contract that costs $0.16 and would be bought alone.
    const cheap = makeBook([[18, 10]], [[80, 100_000]]);
    const third = makeBook([[13, 10]], [[85, 100_000]]);
    const probabilities = [0.37, 0.37, 0.22, 0.02, 0.01, 0.01];
    const small = (books: Changes['books']) =>
      makeSignals({ ...input({ books: books!, probabilities }), bankroll: 10n * DOLLAR });
    expect(small([empty, empty, third]).events[0]!.signals).toMatchObject([
      { contracts: 1, stake: 160_000n },
    ]);
    const report = small([cheap, cheap, third]);
    const { signals, suppressed } = report.events[0]!;
    expect(signals.reduce((sum, { stake }) => sum + stake, 0n)).toBe(860_000n);
    expect(
      suppressed.find(({ ticker, side }) => ticker === event.markets[2]!.ticker && side === 'yes')!.reason,
    ).toBe('better signals use up the cap of the event');
  });
});

describe('what has no signal', () => {
  it('says for each side of each market why', () => {
    const { suppressed } = makeSignals(input()).events[0]!;
    expect(suppressed).toHaveLength(11);
    const reason = (i: number, side: string) =>
      suppressed.find((s) => s.ticker === event.markets[i]!.ticker && s.side === side)?.reason;
    expect(reason(0, 'yes')).toBe('nobody asks');
    // 0.40 − 0.52 − 0.07 · 0.52 · 0.48 = −0.137472.
    expect(reason(2, 'no')).toBe('edge −0.137 after fee');
    expect(reason(2, 'yes')).toBeUndefined();
  });

  it('is an event of which nothing can be traded any more', () => {
    expect(makeSignals(input({ market: { status: 'closed' } })).events).toEqual([]);
  });

  const hours = (n: number) => new Date(at.getTime() + n * 3_600_000);
  it.each<[string, Changes, string]>([
    ['stale prices', { now: new Date(at.getTime() + 61_000) }, 'the prices are 61 s old'],
    ['a paused exchange', { data: { isTrading: false } }, 'the exchange is not trading'],
    ['no forecast', { day: { date: '2026-07-05' } }, 'no forecast'],
    ['a forecast of the future', { day: { fetchedAt: new Date(at.getTime() + 1) } }, 'no forecast'],
    ['an old run', { day: { modelRunAt: hours(-25) } }, "the forecast's run is 25.0 h old"],
    [
      'a forecast fetched long ago',
      { day: { fetchedAt: hours(-6.5) } },
      'the forecast was fetched 6.5 h ago',
    ],
    [
      'a forecast that does not sum to one',
      { probabilities: [0.05, 0.1, 0.6, 0.15, 0.07, 0.04] },
      'the forecast has no probability for every bracket, with a sum of one',
    ],
    [
      'a forecast that is no number',
      { probabilities: [Number.NaN, 0.1, 0.6, 0.15, 0.07, 0.03] },
      'the forecast has no probability for every bracket, with a sum of one',
    ],
    [
      'a ladder with an overlap',
      { market: { bracket: { kind: 'between', floor: 70, cap: 71 } } },
      'the brackets of the event do not cover every degree once',
    ],
    ['a market that has closed by the clock', { market: { closeTime: at } }, 'the market is not open'],
    ['a fee that is not known', { data: { feeRules: new Map() } }, 'its fee is not known'],
    [
      'a fee that cannot be computed',
      { data: { feeRules: new Map([['KXHIGHNY', { ...quadratic, type: 'flat' as const }]]) } },
      'its fee is not known',
    ],
    ['no order book', { data: { books: new Map() } }, 'its order book is not known'],
  ])('is %s', (_what, changes, reason) => {
    expect(reasonsOf(changes)).toEqual({ count: 0, reasons: [reason] });
  });

  it('is a day that is over, though its markets are still open', () => {
    const now = new Date('2026-07-05T05:00:00Z');
    const market = { closeTime: new Date('2026-07-06T00:00:00Z') };
    expect(reasonsOf({ now, market, data: { fetchedAt: now } })).toEqual({
      count: 0,
      reasons: ['the day is over'],
    });
  });

  it('is a day of which the thermometer is not known', () => {
    const now = hours(6);
    const fresh: Changes = { now, data: { fetchedAt: now }, market: { closeTime: hours(20) } };
    const day = { fetchedAt: hours(5), modelRunAt: at };
    expect(reasonsOf({ ...fresh, day }).reasons).toEqual([
      "the day began 7.0 h ago and the station's reports are not known",
    ]);
    const observed = { stationId: 'KNYC', date, maximumF: 70, observedAt: hours(3), fetchedAt: hours(3) };
    expect(reasonsOf({ ...fresh, day: { ...day, observed } }).reasons).toEqual([
      "the station's last known report is 3.0 h old",
    ]);
    expect(
      reasonsOf({ ...fresh, day: { ...day, observed: { ...observed, observedAt: hours(5) } } }).count,
    ).toBe(1);
  });

  it('is a crossed book, however cheap it looks', () => {
    const crossed = {
      yes: toLevels([{ price: 60n * CENT, contracts: 10 }]),
      no: toLevels([{ price: 50n * CENT, contracts: 10 }]),
    };
    expect(reasonsOf({ books: [empty, empty, crossed] })).toEqual({
      count: 0,
      reasons: ['nobody asks', 'its order book is crossed'],
    });
  });

  it('is a single contract whose rounded fee eats its edge', () => {
    // $0.02 of edge before the fee; the 0.07 · 0.5 · 0.5 = $0.0175 fee of one contract is charged as $0.02.
    const books = [empty, empty, makeBook([], [[50, 1]])];
    const probabilities = [0.05, 0.1, 0.52, 0.23, 0.07, 0.03];
    expect(reasonsOf({ books, probabilities })).toEqual({
      count: 0,
      reasons: ['nobody asks', 'the whole fee of so few contracts costs more than they are worth'],
    });
  });
});

describe('whatever the books and the forecast are', () => {
  const levels = fc.uniqueArray(fc.tuple(fc.integer({ min: 1, max: 99 }), fc.integer({ min: 1, max: 500 })), {
    maxLength: 4,
    selector: ([cents]) => cents,
  });
  const anyBook = fc.tuple(levels, levels).map(([yes, no]) => makeBook(yes, no));
  const anyChances = fc
    .array(fc.double({ min: 0.001, max: 1, noNaN: true }), { minLength: 6, maxLength: 6 })
    .map((weights) => weights.map((w) => w / weights.reduce((sum, x) => sum + x, 0)));

  it('each side has a signal or a reason, and a signal keeps its caps and can be bought at what it says', () => {
    fc.assert(
      fc.property(fc.array(anyBook, { minLength: 6, maxLength: 6 }), anyChances, (books, probabilities) => {
        const given = input({ books, probabilities });
        const { signals, suppressed } = makeSignals(given).events[0]!;
        expect(signals.length + suppressed.length).toBe(12);
        const sides = signals.map(({ market }) => market.ticker);
        expect(new Set(sides).size).toBe(sides.length);
        expect(signals.reduce((sum, { stake }) => sum + stake, 0n)).toBeLessThanOrEqual(100n * DOLLAR);
        for (const signal of signals) {
          const { market, side, contracts, limitPrice, stake, expectedValue, probability } = signal;
          const book = given.data.books.get(market.ticker)!;
          const order = { side, action: 'buy', contracts, limitPrice, timeInForce: 'fill_or_kill' } as const;
          expect(stake).toBe(-quoteOrder(book, quadratic, order).balanceChange);
          expect(stake).toBeLessThanOrEqual(50n * DOLLAR);
          expect(Number(stake)).toBeLessThanOrEqual(Number(bankroll) * signal.fractionalKelly);
          expect(expectedValue).toBeGreaterThan(0n);
          expect(signal.edge).toBeGreaterThan(0);
          expect(probability).toBeGreaterThan(Number(asksOf(book, side)[0]!.price) / 1e6);
        }
      }),
      { numRuns: 300 },
    );
  });
});
