import { describe, expect, it } from 'vitest';
import { finalOutcomes, type MarketEvent } from '../../../src/markets/market/event.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { recordsDue, type RecordInputs } from '../../../src/markets/scores/records.js';
import {
  costsOf,
  impliedProbabilities,
  logScore,
  rankedProbabilityScore,
  scoreBrackets,
  scoreRecord,
} from '../../../src/markets/scores/score.js';
import { bracketPays, outcomesOf } from '../../../src/markets/market/brackets.js';
import { makeData, makeForecasts, makeEvent, makeBook } from '../support/events.js';

const date = '2026-07-04';
// New York's climate day ends at 05:00Z on the next date, so 36 hours earlier is 17:00Z on the previous date.
const leads: [string, number][] = [
  ['2026-07-03T17:00:00Z', 36],
  ['2026-07-04T05:00:00Z', 24],
  ['2026-07-04T17:00:00Z', 12],
  ['2026-07-04T23:00:00Z', 6],
];
const chances = [0.05, 0.1, 0.6, 0.15, 0.07, 0.03];
const books = [
  makeBook([[3, 5]], [[95, 5]]),
  makeBook([[9, 5]], [[89, 5]]),
  makeBook([[48, 5]], [[50, 5]]),
  makeBook([[19, 5]], [[79, 5]]),
  makeBook([[9, 5]], [[89, 5]]),
  makeBook([], [[98, 5]]),
];

function sceneAt(
  time: string,
  over: { fetchedAt?: Date; books?: typeof books; event?: MarketEvent } = {},
): RecordInputs {
  const at = new Date(time);
  const event = over.event ?? makeEvent({ date, lowest: 68 });
  return {
    marketSource: 'm',
    forecastSource: 'f',
    data: makeData(event, over.books ?? books, over.fetchedAt ?? at),
    events: [event],
    forecasts: makeForecasts(event, chances, { at }),
    at,
  };
}

describe('scores', () => {
  it('are minus the logarithm of the outcome’s probability, with a floor', () => {
    expect(logScore([0.25, 0.75], 0)).toBeCloseTo(1.3862943611, 9);
    expect(logScore([1, 0], 0)).toBe(0);
    // −ln 0.0001.
    expect(logScore([1, 0], 1)).toBeCloseTo(9.210340372, 9);
  });

  it('rank outcomes: being off by one costs less than being off by two', () => {
    // (0.2 − 0)² + (0.7 − 1)² = 0.13, divided by two.
    expect(rankedProbabilityScore([0.2, 0.5, 0.3], 1)).toBeCloseTo(0.065, 12);
    expect(rankedProbabilityScore([1, 0, 0], 1)).toBe(0.5);
    expect(rankedProbabilityScore([1, 0, 0], 2)).toBe(1);
    expect(rankedProbabilityScore([0, 1, 0], 1)).toBe(0);
  });
});

describe("the market's own distribution", () => {
  const ladder = outcomesOf(makeEvent({ date, lowest: 68 }).markets.map(({ bracket }) => bracket));

  it('is the mid price, normalised to sum to one', () => {
    // The mid prices sum to 0.94: 0.04, 0.10, 0.49, 0.20, 0.10, and 0.01 for the last bracket, which has no bid and an
    // ask of 0.02.
    const implied = impliedProbabilities(books, ladder)!;
    for (const [i, mid] of [0.04, 0.1, 0.49, 0.2, 0.1, 0.01].entries())
      expect(implied[i]).toBeCloseTo(mid / 0.94, 12);
  });

  it.each([
    ['an empty book', makeBook([], [])],
    ['a wide spread', makeBook([[20, 5]], [[59, 5]])],
    ['a crossed book', { yes: makeBook([[60, 5]], []).yes, no: makeBook([], [[50, 5]]).no }],
    ['no book at all', undefined],
  ])('is null with %s', (_what, book) => {
    expect(impliedProbabilities([...books.slice(1), book], ladder)).toBeNull();
  });
});

describe('the cost of an outcome', () => {
  const feeRule = { type: 'quadratic', multiplier: DOLLAR } as const;

  it('is the price of ten contracts, level by level, with the fee', () => {
    // Bids for NO offer YES: 4 at 52 cents and more at 54, of which 6 are needed. The fee per contract is 0.07 × price
    // × (1 − price).
    const book = makeBook(
      [[50, 20]],
      [
        [48, 4],
        [46, 20],
      ],
    );
    const paid = 4 * 0.52 + 6 * 0.54;
    const fees = 0.07 * (4 * 0.52 * 0.48 + 6 * 0.54 * 0.46);
    const costs = costsOf(book, feeRule)!;
    expect(costs.yes).toBeCloseTo((paid + fees) / 10, 4);
    expect(costs.yes).toBeGreaterThanOrEqual((paid + fees) / 10);
    // Bids for YES offer NO at 50 cents.
    expect(costs.no).toBeCloseTo(0.5 + 0.07 * 0.25, 4);
  });

  it('is a full dollar if too few contracts are for sale', () => {
    expect(costsOf(makeBook([[50, 20]], [[48, 9]]), feeRule)).toMatchObject({ yes: 1 });
  });

  it.each([
    ['without a book', undefined, feeRule],
    ['with a crossed book', { yes: makeBook([[60, 5]], []).yes, no: makeBook([], [[50, 5]]).no }, feeRule],
    ['without a known fee', makeBook([[50, 20]], [[48, 20]]), undefined],
  ])('is unknown %s', (_what, book, rule) => {
    expect(costsOf(book, rule)).toBeNull();
  });
});

describe('the advantage of a forecast', () => {
  const cost = (yes: number, no = 1 - yes) => ({ yes, no });

  it('is its lead over the cost of the outcome, and the worst advantage is that of the worst outcome', () => {
    const pairs = [
      [0.2, 0.25],
      [0.7, 0.5],
      [0.1, 0.3],
    ] as const;
    const brackets = pairs.map(([model, price], i) => ({
      ticker: `B${i}`,
      floor: [null, 70, 71][i]!,
      cap: [70, 71, null][i]!,
      model,
      market: price,
      cost: cost(price),
    }));
    const { advantage, worstAdvantage } = scoreBrackets({ kind: 'daily_maximum', brackets }, 71);
    expect(advantage).toBeCloseTo(Math.log(0.7 / 0.5), 12);
    expect(worstAdvantage).toBeCloseTo(Math.log(0.1 / 0.3), 12);
    const unpriced = brackets.map((bracket, i) => (i === 2 ? { ...bracket, cost: null } : bracket));
    expect(scoreBrackets({ kind: 'daily_maximum', brackets: unpriced }, 71)).toMatchObject({
      advantage: null,
      worstAdvantage: null,
    });
  });

  it('between thresholds is measured against YES of the lower and NO of the higher', () => {
    const brackets = [
      { ticker: 'T0', floor: 69.99, cap: null, model: 0.8, market: 0.7, cost: cost(0.75, 0.35) },
      { ticker: 'T1', floor: 74.99, cap: null, model: 0.3, market: 0.4, cost: cost(0.45, 0.6) },
    ];
    const score = (temperatureF: number) =>
      scoreBrackets({ kind: 'hourly', brackets }, temperatureF).advantage;
    // The bet that pays in each outcome. Below both thresholds: NO of the lower. Between them: YES of the lower and NO
    // of the higher, which always pay at least 1 together, so the bet costs 0.75 + 0.60 − 1 = 0.35. Above both: YES of
    // the higher.
    expect(score(60)).toBeCloseTo(Math.log(0.2 / 0.35), 9);
    expect(score(72)).toBeCloseTo(Math.log(0.5 / 0.35), 9);
    expect(score(80)).toBeCloseTo(Math.log(0.3 / 0.45), 9);
  });
});

describe('a record', () => {
  it.each(leads)(
    'is due at %s, %d hours before the end of the day, and for some minutes after',
    (time, leadHours) => {
      const ms = Date.parse(time);
      const due = (offsetMs: number) => recordsDue(sceneAt(new Date(ms + offsetMs).toISOString()));
      expect(due(0)).toMatchObject([
        {
          station: 'KNYC',
          date,
          leadHours,
          recordedAt: new Date(ms),
          marketSource: 'm',
          forecastSource: 'f',
        },
      ]);
      expect(due(4 * 60_000 + 59_999)).toHaveLength(1);
      expect(due(-1)).toEqual([]);
      expect(due(5 * 60_000)).toEqual([]);
    },
  );

  it('has the probabilities of model and market from cold to warm', () => {
    const [record] = recordsDue(sceneAt(leads[1]![0]));
    expect(record).toMatchObject({ method: 'raw_ensemble', mean: 71.3, deviation: 2.4 });
    expect(record!.brackets.map(({ floor, cap }) => [floor, cap])).toEqual([
      [null, 68],
      [68, 69],
      [70, 71],
      [72, 73],
      [74, 75],
      [75, null],
    ]);
    expect(record!.brackets.map(({ model }) => model)).toEqual(chances);
    expect(record!.brackets[2]!.market).toBeCloseTo(0.49 / 0.94, 12);
  });

  it('is not made from old prices, for closed markets or without a forecast', () => {
    const [time] = leads[1]!;
    const stale = new Date(Date.parse(time) - 60_001);
    expect(recordsDue(sceneAt(time, { fetchedAt: stale }))).toEqual([]);
    const closed = makeEvent({ date, lowest: 68, over: { status: 'closed' } });
    expect(recordsDue(sceneAt(time, { event: closed }))).toEqual([]);
    expect(recordsDue({ ...sceneAt(time), forecasts: new Map() })).toEqual([]);
  });

  it('has no market probabilities if a bracket has no price', () => {
    const [record] = recordsDue(sceneAt(leads[1]![0], { books: books.slice(0, 5) }));
    expect(record!.brackets.map(({ market }) => market)).toEqual([null, null, null, null, null, null]);
    expect(scoreRecord(record!, 71)).toMatchObject({ marketLogScore: null, marketRps: null });
  });

  it('is scored by the reported temperature', () => {
    const [record] = recordsDue(sceneAt(leads[1]![0]));
    const scores = scoreRecord(record!, 71);
    expect(scores.modelLogScore).toBeCloseTo(-Math.log(0.6), 12);
    // Cumulative 0.05, 0.15, 0.75, 0.90, 0.97 against 0, 0, 1, 1, 1: 0.0025 + 0.0225 + 0.0625 + 0.01 + 0.0009, divided
    // by five.
    expect(scores.modelRps).toBeCloseTo(0.0984 / 5, 12);
    expect(scores.marketLogScore).toBeCloseTo(-Math.log(0.49 / 0.94), 12);
    // The warm tail excludes its strike: 75 is in the fifth bracket, 76 in the sixth.
    expect(scoreRecord(record!, 75).modelLogScore).toBeCloseTo(-Math.log(0.07), 12);
    expect(scoreRecord(record!, 76).modelLogScore).toBeCloseTo(-Math.log(0.03), 12);
    expect(scoreRecord(record!, 67).modelLogScore).toBeCloseTo(-Math.log(0.05), 12);
  });
});

describe('an outcome', () => {
  const settled = (
    temperature: number,
    change: Partial<MarketEvent['markets'][number]> = {},
  ): MarketEvent => {
    const event = makeEvent({
      date,
      lowest: 68,
      over: { status: 'finalized', settledTemperature: temperature },
    });
    const markets = event.markets.map((market, i) => ({
      ...market,
      settlementValue: bracketPays(market.bracket, temperature) ? DOLLAR : 0n,
      ...(i === 2 ? change : {}),
    }));
    return { ...event, markets };
  };

  it('is the one that the venue paid, once final', () => {
    expect(finalOutcomes([settled(71)])).toEqual([
      { kind: 'daily_maximum', stationId: 'KNYC', date, temperatureF: 71 },
    ]);
  });

  it.each<[string, Partial<MarketEvent['markets'][number]>]>([
    ['only determined', { status: 'determined' }],
    ['paid in another way than the temperature says', { settlementValue: 0n }],
    ['split', { settlementValue: DOLLAR / 2n }],
    ['of two temperatures', { settledTemperature: 70 }],
    ['without a temperature', { settledTemperature: null }],
  ])('is missing while the day is %s', (_what, change) => {
    expect(finalOutcomes([settled(71, change)])).toEqual([]);
  });
});
