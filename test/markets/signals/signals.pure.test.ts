import { describe, expect, it } from 'vitest';
import type { DayForecast } from '../../../src/markets/learning/forecast.js';
import { toLevels } from '../../../src/markets/market/book.js';
import type { Market } from '../../../src/markets/market/market.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import { gateAt, noGates, type GateBook } from '../../../src/markets/signals/signal.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { findStation } from '../../../src/markets/market/stations.js';
import type { SignalAccount } from '../../../src/markets/signals/sizes.js';
import { makeSignals, type SignalInput } from '../../../src/markets/signals/signals.js';
import {
  calibrated,
  makeBook,
  makeData,
  makeEvent,
  makeForecasts,
  makeGates,
  quadratic,
} from '../support/events.js';

const date = '2026-07-04';
/** One hour into New York's climate day, so no report is expected yet. */
const at = new Date('2026-07-04T06:00:00Z');
const event = makeEvent({ date, lowest: 68 });
const chances = [0.05, 0.1, 0.6, 0.15, 0.07, 0.03];
const empty = makeBook([], []);
/** Only the third market has a book: YES costs $0.50 and NO $0.52. */
const oneBook = [empty, empty, makeBook([[48, 100]], [[50, 1_000]])];
const bankroll = 975n * DOLLAR;

interface Changes {
  books?: ReturnType<typeof makeBook>[];
  data?: Partial<SignalInput['data']>;
  day?: Partial<DayForecast>;
  market?: Partial<Market>;
  now?: Date;
  probabilities?: number[];
  gates?: GateBook;
  account?: SignalAccount;
}

function situation({
  books = oneBook,
  data,
  day,
  market,
  now = at,
  probabilities = chances,
  gates = makeGates(true),
}: Changes = {}) {
  const changed = makeEvent({ date, lowest: 68, over: market ?? {} });
  return {
    data: { ...makeData(changed, books, at), ...data },
    events: [changed],
    forecasts: makeForecasts(changed, probabilities, { at, ...calibrated, ...day }),
    gates,
    at: now,
  };
}
const input = ({ account, ...changes }: Changes = {}): SignalInput =>
  account ? { ...situation(changes), account } : { ...situation(changes), bankroll };
const only = (changes?: Changes) => makeSignals(input(changes)).events[0]!;
const reasonsOf = (changes: Changes) => {
  const { signals, suppressed } = only(changes);
  return { count: signals.length, reasons: [...new Set(suppressed.map(({ reason }) => reason))] };
};
const reasonFor = (changes: Changes, i: number, side: string) =>
  only(changes).suppressed.find((s) => s.ticker === event.markets[i]!.ticker && s.side === side)?.reason;

/**
 * Deep YES asks at these cents. The only bid is for one contract at one cent, so NO costs 99 cents and is not worth
 * buying.
 */
const deepAsks = (...cents: number[]) => cents.map((ask) => makeBook([[1, 1]], [[100 - ask, 1_000_000]]));

describe('the signals of an event', () => {
  it('are absent in a market that takes no orders, with its stated reason', () => {
    const untradable = 'YES always pays $0.0500 or more, and markets with such a floor are not traded here';
    expect(only().signals).toHaveLength(1);
    expect(reasonsOf({ market: { untradable } })).toEqual({ count: 0, reasons: [untradable] });
  });

  it('appear for a bracket that the forecast is nearly certain of', () => {
    const { signals, suppressed } = only({ probabilities: [0, 0, 1 - 1e-7, 0, 0, 0] });
    expect(signals).toMatchObject([{ side: 'yes', market: { ticker: event.markets[2]!.ticker } }]);
    expect(signals[0]!.stake).toBeLessThanOrEqual((bankroll * 5n) / 100n);
    expect(suppressed.map(({ reason }) => reason).join()).not.toContain('sum of one');
  });

  it('have the payable price, the exact fee and the size of quarter Kelly', () => {
    const { signals } = only();
    // f* = 0.170984; a quarter of it times $975 is $41.677, and $41.677 / $0.5175 = 80.5 contracts; they cost $40 plus
    // 0.07 · 80 · 0.25 = $1.40.
    expect(signals).toMatchObject([
      {
        market: { ticker: event.markets[2]!.ticker },
        side: 'yes',
        price: 50n * CENT,
        depth: 1_000,
        probability: 0.6,
        contracts: 80,
        limitPrice: 50n * CENT,
        averagePrice: 50n * CENT,
        fee: 1_400_000n,
        stake: 41_400_000n,
        expectedValue: 6_600_000n,
        worstCase: 41_400_000n,
        isHedge: false,
        limitedBy: null,
        expiresAt: new Date(at.getTime() + 30_000),
      },
    ]);
    const [signal] = signals;
    expect(signal!.fullKelly).toBeCloseTo(0.170984, 6);
    expect(signal!.fractionalKelly).toBeCloseTo(0.042746, 6);
    expect(signal!.breakEven).toBeCloseTo(0.5175, 12);
    expect(signal!.edge).toBeCloseTo(0.0825, 12);
  });

  it('state the value of resting if filled, and the fill rate above which resting beats taking', () => {
    const books = (bid: number, ask: number) => [empty, empty, makeBook([[bid, 30]], [[100 - ask, 1_000]])];
    const restAt = (bid: number, ask: number) => only({ books: books(bid, ask) }).signals[0]!.rest!;
    // A probability of 60% at 46 cents: one step above the best bid, with no queue and no fee.
    const better = restAt(45, 50);
    expect(better).toMatchObject({ price: 46n * CENT, contractsAhead: 0, breakEven: 0.46 });
    expect(better.edge).toBeCloseTo(0.14, 12);
    expect(better.worthMoreAbove).toBeCloseTo(0.0825 / 0.14, 12);
    // One step higher would take the ask, so the order joins the existing bids.
    expect(restAt(49, 50)).toMatchObject({ price: 49n * CENT, contractsAhead: 30, breakEven: 0.49 });
  });

  it('say why the same purchase may not rest near the extreme of the day so far', () => {
    const noon = new Date('2026-07-04T17:00:00Z');
    const restWith = (extremeF: number) => {
      const observed = {
        kind: event.kind,
        stationId: 'KNYC',
        date,
        extremeF,
        observedAt: new Date(noon.getTime() - 600_000),
        fetchedAt: noon,
      };
      const one = { ...situation({}), at: noon };
      const [day] = one.forecasts.get('KNYC')!.days;
      const forecasts = new Map(one.forecasts).set('KNYC', {
        ...one.forecasts.get('KNYC')!,
        days: [{ ...day!, observed, fetchedAt: noon }],
      });
      const data = { ...one.data, fetchedAt: noon };
      const gates = makeGates(true, ['KNYC'], noon);
      return makeSignals({ ...one, data, forecasts, gates, bankroll }).events[0]!.signals[0]!.rest!.problem;
    };
    expect(restWith(68)).toMatch('the maximum at Central Park is 68 °F so far, and one minute at 70 °F');
    expect(restWith(67)).toBeNull();
  });

  /** Probabilities and asks of reference case B: four brackets are bought, the fourth as a hedge. */
  const four = {
    probabilities: [0.05, 0.15, 0.35, 0.28, 0.12, 0.05],
    books: deepAsks(3, 12, 27, 30, 20, 13),
  };

  it('are sized together, including hedges: reference case B', () => {
    const { signals, stake, worstCase, growth, gap } = makeSignals({
      ...situation(four),
      bankroll: 1_000n * DOLLAR,
    }).events[0]!;
    const full = [0.027502, 0.060537, 0.150699, 0.058997];
    expect(signals.map(({ market }) => market.ticker)).toEqual(
      event.markets.slice(0, 4).map(({ ticker }) => ticker),
    );
    for (const [i, { fullKelly, fractionalKelly }] of signals.entries()) {
      expect(fullKelly).toBeCloseTo(full[i]!, 6);
      expect(fractionalKelly).toBeCloseTo(full[i]! / 4, 6);
    }
    // A quarter of $1,000 times these shares gives 214.6, 118.8, 132.8 and 46.9 contracts; whole contracts may be
    // slightly fewer.
    const most = [214, 118, 132, 46];
    const cost = (contracts: number, price: number) =>
      Math.ceil(Number(((contracts * price + 0.07 * contracts * price * (1 - price)) * 1e4).toFixed(4))) /
      1e4;
    for (const [i, signal] of signals.entries()) {
      expect(signal.contracts).toBeLessThanOrEqual(most[i]!);
      expect(signal.contracts).toBeGreaterThanOrEqual(most[i]! - 3);
      const [p, price] = [four.probabilities[i]!, [0.03, 0.12, 0.27, 0.3][i]!];
      expect(Number(signal.stake) / 1e6).toBeCloseTo(cost(signal.contracts, price), 9);
      expect(Number(signal.expectedValue) / 1e6).toBeCloseTo(
        p * signal.contracts - cost(signal.contracts, price),
        6,
      );
    }
    expect(signals.map(({ isHedge }) => isHedge)).toEqual([false, false, false, true]);
    // If either of the two brackets without a purchase wins, the whole stake is lost.
    expect(worstCase).toBe(stake);
    expect(stake).toBe(signals.reduce((sum, signal) => sum + signal.stake, 0n));
    // Growth of the $250 that quarter Kelly puts at stake; 0.0273493 without rounding.
    const growthOf = (contracts: number[]) => {
      const spent = contracts.reduce((sum, n, i) => sum + cost(n, [0.03, 0.12, 0.27, 0.3][i]!), 0);
      const after = four.probabilities.map((_, i) => 250 + (contracts[i] ?? 0) - spent);
      return four.probabilities.reduce((sum, p, i) => sum + p * Math.log(after[i]! / 250), 0);
    };
    expect(growth).toBeCloseTo(growthOf(signals.map(({ contracts }) => contracts)), 9);
    expect(growth).toBeGreaterThanOrEqual(growthOf(most));
    expect(growth).toBeLessThan(0.0273493);
    expect(gap).toBeGreaterThanOrEqual(0);
    expect(gap).toBeLessThan(1e-9);
  });

  it('buy YES and NO of one event where that is best: reference case E', () => {
    const asks = [3, 12, 27, 30, 20, 13];
    const bids = [2, 11, 25, 27, 18, 11];
    const books = asks.map((ask, i) => makeBook([[bids[i]!, 1_000_000]], [[100 - ask, 1_000_000]]));
    const { signals, gap } = only({ books, probabilities: four.probabilities });
    const full = new Map(
      signals.map(({ market, side, fullKelly }) => [
        `${event.markets.findIndex(({ ticker }) => ticker === market.ticker)} ${side}`,
        fullKelly,
      ]),
    );
    const expected = {
      '0 yes': 0.01841,
      '1 yes': 0.024384,
      '2 yes': 0.07016,
      '4 no': 0.231492,
      '5 no': 0.449604,
    };
    expect([...full.keys()].every((key) => key in expected)).toBe(true);
    for (const [key, share] of Object.entries(expected))
      // The market and event caps may leave nothing for the smallest purchases.
      if (full.has(key)) expect(full.get(key)).toBeCloseTo(share, 6);
    expect(full.has('4 no') && full.has('5 no')).toBe(true);
    expect(gap).toBeLessThan(1e-9);
  });

  it('say that a hedge costs more than it is worth alone', () => {
    const hedge = only(four).signals[3]!;
    expect(hedge.edge).toBeCloseTo(0.28 - 0.3147, 3);
    expect(hedge.reasons[1]).toBe(
      'YES is asked at 30¢ (1,000,000 contracts); with the exact fee it costs 3.5 points more than it is worth alone, but pays when the others lose.',
    );
  });

  it('walk the books level by level', () => {
    const levels: [number, number][] = [
      [50, 10],
      [48, 100],
    ];
    const [signal] = only({ books: [empty, empty, makeBook([[40, 10]], levels)] }).signals;
    // At $0.52, Kelly's share is (0.60 − 0.537472) / (1 − 0.537472); the ten cheaper contracts count toward the stake.
    expect(signal).toMatchObject({ limitPrice: 52n * CENT, side: 'yes' });
    expect(signal!.contracts).toBeGreaterThan(10);
    expect(signal!.contracts).toBeLessThan(82);
    const dearer = signal!.contracts - 10;
    const fee = 0.07 * (10 * 0.25 + dearer * 0.52 * 0.48);
    expect(Number(signal!.stake)).toBeCloseTo(100 * Math.ceil((5 + dearer * 0.52 + fee) * 1e4 - 1e-6), 0);
  });

  it('buy NO where the forecast is below the bid', () => {
    // The fifth market: p = 0.07 and YES is bid at $0.20, so NO costs $0.80 and wins with probability 0.93.
    const books = [empty, empty, empty, empty, makeBook([[20, 50]], [[70, 50]])];
    const { signals } = only({ books });
    expect(signals).toMatchObject([{ side: 'no', price: 80n * CENT, contracts: 50, limitedBy: 'depth' }]);
    expect(signals[0]!.probability).toBeCloseTo(0.93, 12);
    // $40 plus a fee of 0.07 · 50 · 0.16 = $0.56.
    expect(signals[0]!.stake).toBe(40_560_000n);
  });

  it('explain themselves in words with numbers', () => {
    const [signal] = only().signals;
    expect(signal!.reasons).toEqual([
      '60.0% for 70° to 71°: 31 members of the run of 4 Jul 2026, 00:00 UTC expect 71.3° ± 2.4°F, corrected by 58 days to 69.9° ± 2.8°F.',
      'YES is asked at 50¢ (1,000 contracts); with the exact fee it is worth buying above 51.7%: an edge of 8.3 points.',
      "The best joint purchase of the event's brackets puts 17.1% of the bankroll here, and a quarter of that is used: 80 contracts up to 50¢ for $41.40.",
      'Over 62 days at this lead the forecast was ahead of the market: −0.083 [−0.151, −0.012].',
    ]);
    const distribution = { mean: 69.9, deviation: 2.8, atLeast: 66 };
    const pooled = { fit: { ...calibrated.fit, stationId: null, n: 1_440 }, distribution };
    expect(only({ day: pooled }).signals[0]!.reasons[0]).toMatch(
      /corrected by 1,440 days of all stations to 69\.9° ± 2\.8°F; the day has certainly reached 66°F\.$/,
    );
  });

  it('expire with the market if it closes before the prices expire', () => {
    const closeTime = new Date(at.getTime() + 10_000);
    expect(only({ market: { closeTime } }).signals[0]!.expiresAt).toEqual(closeTime);
  });

  it('are the same for the same inputs', () => {
    expect(makeSignals(input(four))).toEqual(makeSignals(input(four)));
  });
});

describe('the gate', () => {
  const closed = makeGates(false);

  it('withholds signals while closed, and states its score', () => {
    const { signals, suppressed, gate, ...rest } = only({ gates: closed });
    expect(signals).toEqual([]);
    expect(gate).toMatchObject({ isOpen: false, leadHours: 12, n: 62 });
    expect(suppressed.filter(({ isWithheld }) => isWithheld)).toEqual([
      {
        ticker: event.markets[2]!.ticker,
        side: 'yes',
        reason:
          'withheld: over 62 days at this lead the forecast was not ahead of the market: +0.041 [−0.020, +0.101]',
        isWithheld: true,
      },
    ]);
    expect(rest).toMatchObject({ stake: 0n, worstCase: 0n, growth: 0, isCalibrated: true, method: 'emos' });
    // Purchases that are not worth their price are suppressed for the same reason as with an open gate.
    expect(reasonFor({ gates: closed }, 2, 'no')).toBe(reasonFor({}, 2, 'no'));
    expect(suppressed).toHaveLength(12);
  });

  it('withholds every purchase of a jointly sized event', () => {
    const books = deepAsks(3, 12, 27, 30, 20, 13);
    const probabilities = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];
    const { suppressed } = only({ gates: closed, books, probabilities });
    expect(suppressed.filter(({ isWithheld }) => isWithheld)).toHaveLength(4);
  });

  it('is closed before anything is scored, and for a lead that is not scored', () => {
    expect(reasonFor({ gates: noGates }, 2, 'yes')).toBe('withheld: the scores have not been computed yet');
    // 23:30Z is 5.5 hours before the end of New York's day.
    const now = new Date('2026-07-04T23:30:00Z');
    const observed = {
      kind: 'daily_maximum' as const,
      stationId: 'KNYC',
      date,
      extremeF: 66,
      observedAt: now,
      fetchedAt: now,
    };
    const distribution = { mean: 69.9, deviation: 2.8, atLeast: 66 };
    const late = { now, data: { fetchedAt: now }, day: { observed, fetchedAt: now, distribution } };
    expect(reasonFor(late, 2, 'yes')).toBe(
      'withheld: forecasts within 6 hours of the end of a day are not scored',
    );
  });

  it('is closed further ahead than forecasts are scored', () => {
    const { end } = climateDayOf(findStation('KNYC')!, date);
    const hoursBefore = (hours: number) => new Date(end.getTime() - hours * 3_600_000);
    const openAt = (hours: number, at = hoursBefore(hours)) =>
      gateAt(
        makeGates(true, ['KNYC'], at),
        { kind: 'daily_maximum', stationId: 'KNYC' },
        { hoursToEnd: hours, at },
      );
    expect([6, 12, 24, 36, 48].map((hours) => openAt(hours).isOpen)).toEqual([true, true, true, true, true]);
    expect(openAt(48.1)).toMatchObject({
      isOpen: false,
      reason: 'Forecasts more than 48 hours before the end of a day are not scored.',
    });
  });

  it('ignores verdicts from the future and those over a day old', () => {
    const judgedAt = (ms: number): GateBook => ({ ...makeGates(true), madeAt: new Date(at.getTime() + ms) });
    const signalsWith = (gates: GateBook) => only({ gates }).signals.length;
    expect(signalsWith(judgedAt(0))).toBe(1);
    expect(signalsWith(judgedAt(1))).toBe(0);
    expect(signalsWith(judgedAt(-86_400_000))).toBe(1);
    expect(signalsWith(judgedAt(-86_400_001))).toBe(0);
    expect(reasonFor({ gates: judgedAt(1) }, 2, 'yes')).toBe(
      'withheld: the scores have not been computed yet',
    );
    expect(reasonFor({ gates: judgedAt(-2 * 86_400_000) }, 2, 'yes')).toBe(
      'withheld: the scores were last computed on 2026-07-02, more than a day ago',
    );
  });

  it('belongs to the station and the next scored lead', () => {
    const { gates } = makeGates(false);
    const openAt = (leadHours: number, stationId = 'KNYC'): GateBook => ({
      madeAt: at,
      gates: gates.map((gate) => ({
        ...gate,
        stationId,
        isOpen: gate.leadHours === leadHours,
      })),
    });
    // Twenty-three hours before the end of the day, the next forecast is recorded at the 12-hour lead, so that lead's
    // gate applies.
    expect(only({ gates: openAt(12) }).signals).toHaveLength(1);
    expect(only({ gates: openAt(24) }).signals).toEqual([]);
    expect(only({ gates: openAt(12, 'KMIA') }).signals).toEqual([]);
  });

  it('passes nothing from an uncalibrated forecast', () => {
    const raw = {
      method: 'raw_ensemble',
      isCalibrated: false,
      fit: null,
      fallback: 'only 12 days of the station are known; not corrected',
    } as const;
    expect(only({ day: raw })).toMatchObject({ signals: [], isCalibrated: false, method: 'raw_ensemble' });
    expect(reasonFor({ day: raw }, 2, 'yes')).toBe(
      'withheld: the forecast is not calibrated (only 12 days of the station are known; not corrected)',
    );
    expect(reasonFor({ day: { ...raw, fallback: null }, gates: closed }, 2, 'yes')).toBe(
      'withheld: over 62 days at this lead the forecast was not ahead of the market: +0.041 [−0.020, +0.101]; the forecast is not calibrated',
    );
  });
});

describe('without a signal', () => {
  it('each side of each market states why', () => {
    const { suppressed } = only();
    expect(suppressed).toHaveLength(11);
    expect(suppressed.every(({ isWithheld }) => !isWithheld)).toBe(true);
    expect(reasonFor({}, 0, 'yes')).toBe('its order book is empty');
    // 0.40 − 0.52 − 0.07 · 0.52 · 0.48 = −0.137472.
    expect(reasonFor({}, 2, 'no')).toBe('after the fee it costs 13.7 points more than it is worth');
    expect(reasonFor({}, 2, 'yes')).toBeUndefined();
  });

  it('an event is left out once nothing in it can be traded', () => {
    expect(makeSignals(input({ market: { status: 'closed' } })).events).toEqual([]);
  });

  const hours = (n: number) => new Date(at.getTime() + n * 3_600_000);
  it.each<[string, Changes, string]>([
    ['stale prices', { now: new Date(at.getTime() + 61_000) }, 'the prices are 61 s old'],
    ['a paused exchange', { data: { isTrading: false } }, 'the exchange is not trading'],
    ['there is no forecast', { day: { date: '2026-07-05' } }, 'there is no forecast'],
    [
      'a forecast from the future',
      { day: { fetchedAt: new Date(at.getTime() + 1) } },
      'there is no forecast',
    ],
    ['an unknown run', { day: { isRunUnknown: true } }, "the time of the forecast's run is unknown"],
    ['an old run', { day: { modelRunAt: hours(-25) } }, "the forecast's run is 25.0 h old"],
    [
      'a forecast fetched long ago',
      { day: { fetchedAt: hours(-6.5) } },
      'the forecast was fetched 6.5 h ago',
    ],
    [
      'a forecast that does not sum to one',
      { probabilities: [0.05, 0.1, 0.6, 0.15, 0.07, 0.04] },
      "the forecast's bracket probabilities are incomplete or do not sum to one",
    ],
    [
      'a forecast that is not a number',
      { probabilities: [Number.NaN, 0.1, 0.6, 0.15, 0.07, 0.03] },
      "the forecast's bracket probabilities are incomplete or do not sum to one",
    ],
    [
      'a ladder with an overlap',
      { market: { bracket: { kind: 'between', floor: 70, cap: 71 } } },
      'the brackets of the event do not cover every degree exactly once',
    ],
    ['a market that has closed by the clock', { market: { closeTime: at } }, 'the market is not open'],
    ['an unknown fee', { data: { feeRules: new Map() } }, 'its fee is not known'],
    [
      'a fee that cannot be computed',
      { data: { feeRules: new Map([['KXHIGHNY', { ...quadratic, type: 'flat' as const }]]) } },
      'its fee is not known',
    ],
    ['no order book', { data: { books: new Map() } }, 'its order book is not known'],
    [
      'an account without cash',
      { account: { cash: 0n, holdings: new Map() } },
      'there is no cash to buy with',
    ],
  ])('nothing is sized with %s', (_what, changes, reason) => {
    expect(reasonsOf(changes)).toEqual({ count: 0, reasons: [reason] });
  });

  it.each<[string, ReturnType<typeof makeBook>, string]>([
    ['an empty book', empty, 'its order book is empty'],
    [
      'a book without bids for YES',
      makeBook([], [[50, 1_000]]),
      'its order book has only one side: there are no bids for YES',
    ],
    [
      'a book without bids for NO',
      makeBook([[80, 1_000]], []),
      'its order book has only one side: there are no bids for NO',
    ],
    [
      'a crossed book, however cheap it looks',
      {
        yes: toLevels([{ price: 60n * CENT, contracts: 10 }]),
        no: toLevels([{ price: 50n * CENT, contracts: 10 }]),
      },
      'its order book is crossed',
    ],
    ['a locked book', makeBook([[50, 10]], [[50, 10]]), 'its order book is crossed'],
  ])('nothing is sized on %s', (_what, book, reason) => {
    const books = [empty, empty, book];
    expect(only({ books }).signals).toEqual([]);
    expect([reasonFor({ books }, 2, 'yes'), reasonFor({ books }, 2, 'no')]).toEqual([reason, reason]);
  });

  it('a closed market still counts among the outcomes while the others of its event are sized', () => {
    const open = makeEvent({ date, lowest: 68 });
    const closed = {
      ...open,
      markets: open.markets.map((market, i): Market => (i === 3 ? { ...market, status: 'closed' } : market)),
    };
    const four = { books: deepAsks(3, 12, 27, 30, 20, 13) };
    const probabilities = [0.05, 0.15, 0.35, 0.28, 0.12, 0.05];
    const { signals, suppressed } = makeSignals({
      ...situation({ ...four, probabilities }),
      events: [closed],
      bankroll,
    }).events[0]!;
    // Without the fourth bracket this is the Smoczynski–Tomkins solution over the first three: R = (1 − 0.55) / (1 −
    // 0.443226) = 0.808227.
    const r = (1 - 0.55) / (1 - (0.032037 + 0.127392 + 0.283797));
    for (const [i, [p, k]] of (
      [
        [0.05, 0.032037],
        [0.15, 0.127392],
        [0.35, 0.283797],
      ] as const
    ).entries())
      expect(signals[i]!.fullKelly).toBeCloseTo(p - r * k, 5);
    expect(signals).toHaveLength(3);
    expect(suppressed.filter(({ reason }) => reason === 'the market is not open')).toHaveLength(2);
  });

  it('a day that is over stays unsized even though its markets are open', () => {
    const now = new Date('2026-07-05T05:00:00Z');
    const market = { closeTime: new Date('2026-07-06T00:00:00Z') };
    expect(reasonsOf({ now, market, data: { fetchedAt: now } })).toEqual({
      count: 0,
      reasons: ['the day is over'],
    });
  });

  it('a day without station reports stays unsized', () => {
    const now = hours(6);
    const fresh: Changes = { now, data: { fetchedAt: now }, market: { closeTime: hours(20) } };
    const day = { fetchedAt: hours(5), modelRunAt: at };
    expect(reasonsOf({ ...fresh, day }).reasons).toEqual([
      'the day began 7.0 h ago and no report of the station is known',
    ]);
    const observed = {
      kind: 'daily_maximum' as const,
      stationId: 'KNYC',
      date,
      extremeF: 70,
      observedAt: hours(3),
      fetchedAt: hours(3),
    };
    expect(reasonsOf({ ...fresh, day: { ...day, observed } }).reasons).toEqual([
      "the station's last known report is 3.0 h old",
    ]);
    expect(
      reasonsOf({ ...fresh, day: { ...day, observed: { ...observed, observedAt: hours(5) } } }).count,
    ).toBe(1);
  });
});
