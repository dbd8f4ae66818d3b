import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { endsOf } from '../../../src/markets/market/event.js';
import { DOLLAR, parseDollars, type Micros } from '../../../src/markets/market/money.js';
import { eventOutcomes } from '../../../src/markets/ledger/valuation.js';
import { worstCaseLoss, type Leg } from '../../../src/markets/risk/exposure.js';
import { impliedProbabilities, scoreRecord, type ScorableRecord } from '../../../src/markets/scores/score.js';
import {
  bracketPays,
  outcomeAt,
  outcomeProbabilities,
  outcomesOf,
  yesProbabilities,
} from '../../../src/markets/market/brackets.js';
import { sizeEvent } from '../../../src/markets/sizing/event.js';
import { exactGrowth } from '../../../src/markets/sizing/candidate-order.js';
import { toFund, exceededHeadroom, reachOf, toHeadroom } from '../../../src/markets/sizing/fund.js';
import { readOffers } from '../../../src/markets/sizing/offers.js';
import type { EventToSize } from '../../../src/markets/sizing/model.js';
import { makeBook, makeHour } from '../support/events.js';
import { randomOf } from '../support/joint-arbitraries.js';
import { dollars, toEvent, toMarket } from '../support/sizing.js';

const hour = makeHour({ date: '2026-09-13', hour: 12 });
const brackets = hour.markets.map(({ bracket }) => bracket);
const outcomes = outcomesOf(brackets);
const tickers = hour.markets.map(({ ticker }) => ticker);

describe('the outcomes of thresholds', () => {
  it('are the intervals between them, each of which pays every threshold below it', () => {
    expect(outcomes.ranges).toEqual([
      { lowest: null, highest: 70.99 },
      { lowest: 71, highest: 71.99 },
      { lowest: 72, highest: 72.99 },
      { lowest: 73, highest: null },
    ]);
    expect(outcomes.pays).toEqual([
      { from: 1, to: 3 },
      { from: 2, to: 3 },
      { from: 3, to: 3 },
    ]);
    expect(outcomeProbabilities(outcomes, [0.8, 0.5, 0.1])).toEqual([
      expect.closeTo(0.2, 12),
      expect.closeTo(0.3, 12),
      expect.closeTo(0.4, 12),
      0.1,
    ]);
  });

  it.each([
    [70.99, 0],
    [71, 1],
    [72.99, 2],
    [73, 3],
    [99, 3],
  ])('put %s °F in interval %i, whatever the order of the markets', (value, place) => {
    expect(outcomeAt(brackets, value)).toBe(place);
    const turned = outcomesOf(brackets.toReversed());
    brackets.toReversed().forEach((bracket, i) => {
      const { from, to } = turned.pays[i]!;
      expect(place >= from && place <= to).toBe(bracketPays(bracket, value));
    });
  });
});

describe('the market-implied probabilities of thresholds', () => {
  it('decrease from each threshold to the next, whatever the books say', () => {
    const book = fc.integer({ min: 1, max: 96 }).map((cents) => makeBook([[cents, 5]], [[98 - cents, 5]]));
    fc.assert(
      fc.property(fc.array(book, { minLength: 3, maxLength: 3 }), (books) => {
        const implied = impliedProbabilities(books, outcomes)!;
        expect(implied[0]!).toBeLessThanOrEqual(1 + 1e-12);
        expect(implied[0]! - implied[1]!).toBeGreaterThanOrEqual(-1e-12);
        expect(implied[1]! - implied[2]!).toBeGreaterThanOrEqual(-1e-12);
      }),
    );
  });

  it('are the mid prices if those already decrease', () => {
    const books = [80, 50, 10].map((cents) => makeBook([[cents - 1, 5]], [[99 - cents, 5]]));
    impliedProbabilities(books, outcomes)!.forEach((p, i) => expect(p).toBeCloseTo([0.8, 0.5, 0.1][i]!, 12));
  });
});

/** An event with two thresholds and so few contracts per side that the test can try every combination. */
function smallEvent(random: () => number): EventToSize {
  const raw = [1, 2, 3].map(() => 0.05 + random());
  const total = raw.reduce((sum, value) => sum + value, 0);
  const ofOutcomes = raw.map((value) => value / total);
  const pays = [
    { from: 1, to: 2 },
    { from: 2, to: 2 },
  ];
  const markets = yesProbabilities({ ranges: [], pays, step: 0.01 }, ofOutcomes).map((p, i) => {
    const middle = Math.round(100 * Math.min(0.93, Math.max(0.07, p + (random() - 0.5) * 0.3)));
    const depth = () => Math.ceil(5 * random());
    return { ...toMarket(`T${i}`, p, [[middle - 2, depth()]], [[98 - middle, depth()]]), pays: pays[i]! };
  });
  const all = dollars(20);
  return toEvent(markets, {
    outcomes: ofOutcomes,
    bankroll: all,
    cash: all,
    marketRoom: all,
    eventRoom: all,
  });
}

describe('the sizes of thresholds', () => {
  const random = randomOf(11);
  const events = Array.from({ length: 150 }, () => smallEvent(random));

  it('match the best whole-contract sizes, up to rounding down', () => {
    let worthwhile = 0;
    let [found, possible] = [0, 0];
    for (const event of events) {
      const fund = toFund(event);
      const headroom = toHeadroom(event, fund);
      const { offers } = readOffers(event, reachOf(event, fund));
      let best = 0;
      const contracts = offers.map(() => 0);
      const go = (i: number): void => {
        if (i === offers.length) {
          if (!exceededHeadroom(headroom, offers, contracts, fund))
            best = Math.max(best, exactGrowth({ offers, fund, headroom }, contracts));
          return;
        }
        for (let n = 0; n <= offers[i]!.depth; n++) {
          contracts[i] = n;
          go(i + 1);
        }
        contracts[i] = 0;
      };
      go(0);
      const sized = sizeEvent(event);
      expect(sized.growth).toBeLessThanOrEqual(best + 1e-12);
      expect(sized.gap).toBeLessThan(1e-9);
      if (best > 0.001) worthwhile++;
      found += sized.growth;
      possible += best;
    }
    expect(worthwhile).toBeGreaterThan(50);
    expect(found / possible).toBeGreaterThan(0.75);
  });

  it('report their exact growth and loss in each outcome', () => {
    for (const event of events) {
      const { purchases, growth, worstCase } = sizeEvent(event);
      const fund = toFund(event);
      const profits = event.outcomes!.map((_, outcome) =>
        purchases.reduce((sum, { ticker, side, contracts, stake }) => {
          const { from, to } = event.markets.find((market) => market.ticker === ticker)!.pays!;
          const pays = (outcome >= from && outcome <= to) === (side === 'yes');
          return sum + (pays ? BigInt(contracts) * DOLLAR : 0n) - stake;
        }, 0n),
      );
      const expected = profits.reduce(
        (sum, profit, j) => sum + event.outcomes![j]! * Math.log1p(Number(profit) / 1e6 / fund.wealth[j]!),
        0,
      );
      expect(growth).toBeCloseTo(expected, 9);
      const least = profits.reduce((a, b) => (a < b ? a : b));
      expect(worstCase).toBe(least < 0n ? -least : 0n);
    }
  });
});

describe('the joint loss of thresholds', () => {
  const leg = (i: number, side: 'yes' | 'no', contracts: number, cost: string): Leg & { cost: Micros } => ({
    ticker: tickers[i]!,
    side,
    contracts,
    cost: parseDollars(cost),
  });

  it('is the worst over every value that distinguishes them', () => {
    const legs = fc.array(
      fc.record({
        i: fc.nat(2),
        isYes: fc.boolean(),
        contracts: fc.integer({ min: 1, max: 9 }),
        cents: fc.integer({ min: 1, max: 99 }),
      }),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(legs, (drawn) => {
        const held = drawn.map(({ i, isYes, contracts, cents }) =>
          leg(i, isYes ? 'yes' : 'no', contracts, ((contracts * cents) / 100).toFixed(2)),
        );
        const results = [60, 70.99, 71, 71.5, 72, 73, 80].map((value) =>
          held.reduce((sum, { ticker, side, contracts, cost }) => {
            const { bracket } = hour.markets.find((market) => market.ticker === ticker)!;
            return (
              sum +
              (bracketPays(bracket, value) === (side === 'yes') ? DOLLAR * BigInt(contracts) : 0n) -
              cost
            );
          }, 0n),
        );
        const [worst, best] = [
          results.reduce((a, b) => (a < b ? a : b)),
          results.reduce((a, b) => (a > b ? a : b)),
        ];
        const ends = endsOf(hour.eventTicker, hour, tickers);
        expect(worstCaseLoss(ends, held, [])).toBe(worst < 0n ? -worst : 0n);
        if (held.length > 0)
          expect(eventOutcomes(hour.eventTicker, held, hour)).toMatchObject({
            worstCase: worst,
            bestCase: best,
          });
      }),
    );
  });

  it('is not netted once the event is unlisted: both NO may lose', () => {
    const both = [leg(0, 'no', 10, '4'), leg(1, 'no', 10, '6')];
    expect(worstCaseLoss(endsOf(hour.eventTicker, undefined, tickers), both, [])).toBe(parseDollars('10'));
    // Only one of a day's brackets wins, so at most one of the two NO positions loses.
    expect(worstCaseLoss(endsOf('KXHIGHNY-26SEP13', undefined, tickers), both, [])).toBe(0n);
  });

  it('counts an open order as filled or not, whichever is worse in each outcome', () => {
    const ends = endsOf(hour.eventTicker, hour, tickers);
    const held = [leg(0, 'yes', 10, '6')];
    expect(worstCaseLoss(ends, held, [leg(2, 'no', 10, '7')])).toBe(parseDollars('6'));
    expect(worstCaseLoss(ends, held, [leg(2, 'yes', 10, '2')])).toBe(parseDollars('8'));
  });
});

describe('an hourly record', () => {
  const record: ScorableRecord = {
    kind: 'hourly',
    mean: 72,
    deviation: 1,
    atLeast: null,
    atMost: null,
    members: Array.from({ length: 31 }, () => 72.4),
    climateMean: 70,
    climateDeviation: 5,
    brackets: hour.markets.map(({ ticker, bracket: { floor, cap } }, i) => ({
      ticker,
      floor,
      cap,
      model: [0.84, 0.5, 0.16][i]!,
      market: [0.9, 0.4, 0.1][i]!,
    })),
  };

  it('is scored by the interval that contains the value', () => {
    const scores = scoreRecord(record, 72.5);
    expect(scores.modelLogScore).toBeCloseTo(-Math.log(0.34), 12);
    expect(scores.marketLogScore).toBeCloseTo(-Math.log(0.3), 12);
    // Cumulative probabilities 0.16, 0.5, 0.84 against outcomes 0, 0, 1.
    expect(scores.modelRps).toBeCloseTo((0.16 ** 2 + 0.5 ** 2 + 0.16 ** 2) / 3, 12);
    expect(scoreRecord(record, 70.99).modelLogScore).toBeCloseTo(-Math.log(0.16), 12);
    expect(scoreRecord(record, 73).modelLogScore).toBeCloseTo(-Math.log(0.16), 12);
  });

  it('has the CRPS of the continuous distribution', () => {
    const scores = scoreRecord(record, 72.5);
    // σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π) at z = 0.5: 0.5 · 0.382925 + 0.704131 − 0.564190.
    expect(scores.modelCrps).toBeCloseTo(0.331404, 3);
    expect(scores.rawCrps).toBeCloseTo(0.1, 6);
    expect(scores.marketCrps).toBeGreaterThan(0);
  });
});
