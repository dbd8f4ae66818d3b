import { describe, expect, it } from 'vitest';
import { backtest } from '../../backtest/backtest.js';
import type { Feed, PointInTime } from '../../backtest/feed.js';
import { createLookBack } from '../../backtest/look-back.js';
import { createBroker, runBacktest } from '../../backtest/run.js';
import { planOf, simulationFeed } from '../../backtest/simulation-feed.js';
import { summarise } from '../../backtest/statistics.js';
import { toText } from '../../backtest/text.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import { CENT, DOLLAR } from '../../../src/markets/market/money.js';
import type { Signal } from '../../../src/markets/signals/signal.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { stationDaysBetween, type StationDay } from '../../../src/markets/venue/simulation/world.js';
import { makePoints, type MadeWorld } from './made-points.js';
import {
  makeEvent,
  makeForecasts,
  makeData,
  makeGates,
  calibrated,
  makeBook,
} from '../../../test/markets/support/events.js';

const sourceOf = (points: PointInTime[]): Feed => ({
  name: 'made',
  count: points.length,
  points: () => points,
  lookBack: (fills) => Promise.resolve(createLookBack(fills).marks()),
});
const options = { cash: 1_000n * DOLLAR, shuffles: 4, isUngated: false };
const run = (world: MadeWorld, more: Partial<typeof options> = {}) =>
  backtest(sourceOf(makePoints(world)), { ...options, ...more });

describe('the account of a backtest', () => {
  const at = new Date('2026-07-03T12:00:00Z');
  const event = makeEvent({ date: '2026-07-04', lowest: 68 });
  const [cold, mild] = event.markets;
  // YES is offered at 40 cents (100 contracts) and 41 cents (50).
  const book = makeBook(
    [[30, 100]],
    [
      [60, 100],
      [59, 50],
    ],
  );
  const data = makeData(event, [book, book], at);
  const signal = (market = cold!, side: 'yes' | 'no' = 'yes', contracts = 120, cents = 41n): Signal =>
    ({ market, side, contracts, limitPrice: cents * CENT, probability: 0.5 }) as Signal;

  it('pays each level’s price and the exact fee, and takes no contract twice', () => {
    const broker = createBroker(1_000n * DOLLAR);
    broker.buy(signal(), data, at);
    // 100 at 0.40 (fee 1.68) and 20 at 0.41 (fee 0.33866): 48.20 + 2.01866, rounded to $50.2187.
    expect(broker.cash).toBe(949_781_300n);
    expect(broker.purchases[0]).toMatchObject({ contracts: 120, cost: 50_218_700n, fee: 2_018_700n });
    broker.buy(signal(), data, at);
    expect(broker.purchases[1]!.contracts).toBe(30);
    broker.buy(signal(), data, at);
    expect(broker.purchases).toHaveLength(2);
    // A changed book counts as a new offer.
    const later = makeData(event, [makeBook([[30, 100]], [[60, 101]])], at);
    broker.buy(signal(), later, at);
    expect(broker.purchases[2]!.contracts).toBe(101);
  });

  it('keeps contracts taken for a time if a changed book does not prove new ones', () => {
    const broker = createBroker(1_000n * DOLLAR, 600_000);
    broker.buy(signal(), data, at);
    broker.buy(signal(), data, at);
    const later = (minutes: number) =>
      makeData(
        event,
        [
          makeBook(
            [[30, 100]],
            [
              [60, 101],
              [59, 50],
            ],
          ),
        ],
        new Date(at.getTime() + minutes * 60_000),
      );
    const left = (minutes: number) => broker.see(later(minutes)).books.get(cold!.ticker)!.no;
    expect(left(9)).toEqual([{ price: 60n * CENT, contracts: 1 }]);
    expect(left(10)).toHaveLength(2);
  });

  it('shows signals the books without the contracts taken', () => {
    const broker = createBroker(1_000n * DOLLAR);
    broker.buy(signal(), data, at);
    const seen = broker.see(data);
    expect(seen.books.get(cold!.ticker)!.no).toEqual([{ price: 59n * CENT, contracts: 30 }]);
    expect(seen.books.get(mild!.ticker)).toBe(book);
  });

  it('is paid once, when the venue settles', () => {
    const broker = createBroker(100n * DOLLAR);
    broker.buy(signal(cold, 'yes', 10, 40n), data, at);
    // 10 at 0.40, with a fee of 0.168.
    expect(broker.cash).toBe(95_832_000n);
    const settled = { ...cold!, settlementValue: DOLLAR, settledTemperature: 60 };
    broker.settle([{ ...settled, status: 'determined' }]);
    expect(broker.cash).toBe(95_832_000n);
    broker.settle([{ ...settled, status: 'finalized' }]);
    broker.settle([{ ...settled, status: 'finalized' }]);
    expect(broker.cash).toBe(105_832_000n);
    expect(broker.purchases[0]!.payout).toBe(10n * DOLLAR);
    expect(broker.holdings.size).toBe(0);
  });

  it('gets a dollar for each pair of YES and NO immediately', () => {
    const broker = createBroker(100n * DOLLAR);
    broker.buy(signal(cold, 'yes', 10, 40n), data, at);
    broker.buy(signal(cold, 'no', 10, 70n), data, at);
    // 7.00 plus a fee of 0.147; ten pairs pay 10.00.
    expect(broker.cash).toBe(98_685_000n);
    expect(broker.holdings.size).toBe(0);
  });

  it('values holdings at their sale price', () => {
    const broker = createBroker(100n * DOLLAR);
    broker.buy(signal(cold, 'yes', 10, 40n), data, at);
    // 3.00 less a fee of 0.147.
    expect(broker.equity(data)).toBe(98_685_000n);
  });

  it('values holdings at the last bids while books are missing, until the venue settles', () => {
    const broker = createBroker(100n * DOLLAR);
    broker.buy(signal(cold, 'yes', 10, 40n), data, at);
    const held = broker.equity(data);
    const withoutBook = { ...data, books: new Map([[cold!.ticker, makeBook([], [])]]) };
    const closed = { ...data, markets: [{ ...cold!, status: 'closed' as const }], books: new Map() };
    for (const later of [withoutBook, closed, { ...data, markets: [] }])
      expect(broker.equity(later)).toBe(held);
    // Without bids, the holding is worth nothing.
    const unwanted = { ...data, books: new Map([[cold!.ticker, makeBook([], [[60, 100]])]]) };
    expect(broker.equity(unwanted)).toBe(broker.cash);
    // A book derived from trades may omit bids that existed, so the last valuation is retained.
    const amongTrades = createBroker(100n * DOLLAR, 600_000);
    amongTrades.buy(signal(cold, 'yes', 10, 40n), data, at);
    expect(amongTrades.equity(data)).toBe(held);
    expect(amongTrades.equity(unwanted)).toBe(held);
    const settled = { ...cold!, status: 'determined' as const, settlementValue: DOLLAR };
    expect(broker.equity({ ...data, markets: [settled] })).toBe(broker.cash + 10n * DOLLAR);
    broker.settle([{ ...settled, status: 'finalized' }]);
    expect(broker.equity({ ...data, markets: [] })).toBe(broker.cash);
  });

  it('never spends more than its cash', () => {
    const broker = createBroker(2n * DOLLAR);
    broker.buy(signal(cold, 'yes', 10, 40n), data, at);
    expect(broker.cash).toBe(2n * DOLLAR);
    expect(broker.purchases).toEqual([]);
  });
});

describe('a backtest', () => {
  const better: MadeWorld = {
    days: 60,
    model: { error: 1.5, deviation: 1.5 },
    market: { error: 3, deviation: 3 },
    margin: 2,
  };

  it('shows the profit of a better forecast, and none when it is shuffled', async () => {
    const result = await run(better);
    expect(result.days).toBe(60);
    expect(result.profitPerDay!.low).toBeGreaterThan(0);
    expect(result.shuffled!.isEarning).toBe(false);
    expect(result.shuffled!.meanProfit).toBeLessThan(0);
    expect(result.shuffled!.asGood).toBe(0);
    expect(result.endEquity).toBeCloseTo(result.startCash + result.profit, 6);
    expect(result.openPurchases).toBe(0);
  });

  it('shows the loss of a worse forecast', async () => {
    const { profit } = await run(
      { ...better, model: { error: 4, deviation: 2 }, market: { error: 1.5, deviation: 1.5 } },
      { shuffles: 0 },
    );
    expect(profit).toBeLessThan(-20);
  });

  it('reports profitable shuffled forecasts, which mean a wrong fill, fee or payout', async () => {
    // A market forecast that is 30 °F off loses even to a model based only on the season.
    const { shuffled } = await run({ ...better, market: { error: 30, deviation: 3 } }, { shuffles: 3 });
    expect(shuffled!.isEarning).toBe(true);
    const { shuffled: fair } = await run(better, { shuffles: 3 });
    expect(fair!.isEarning).toBe(false);
  });

  describe('shuffled', () => {
    const ignorant = { ...better, days: 12, model: { error: 6, deviation: 8, knowsNothing: true } };

    it('ranks an uninformative forecast uniformly among its rounds', async () => {
      const rounds = 4;
      const places: number[] = [];
      for (let record = 0; record < 30; record++) {
        const { shuffled } = await run({ ...ignorant, seed: `record ${record}` }, { shuffles: rounds });
        places.push(Math.round(shuffled!.asGood * rounds));
      }
      // Each rank should get a fifth of the 30 runs, give or take 2.5 standard deviations.
      for (let place = 0; place <= rounds; place++) {
        const found = places.filter((each) => each === place).length;
        expect(found, String(places)).toBeGreaterThanOrEqual(1);
        expect(found, String(places)).toBeLessThanOrEqual(11);
      }
    });

    it('ranks an informative forecast ahead of all its rounds', async () => {
      for (const seed of ['record 1', 'record 2', 'record 3']) {
        const { shuffled } = await run({ ...better, days: 30, seed }, { shuffles: 9 });
        expect(shuffled!.asGood).toBe(0);
      }
    });

    it('does not change a constant forecast, whatever the brackets and decision times', async () => {
      const leadsOf = (day: number) => (day % 2 === 0 ? [44, 37, 30] : [30]);
      const constant = { ...ignorant, model: { error: 0, deviation: 8, knowsNothing: true }, leadsOf };
      const { profit, equityChange, purchases, shuffled } = await run(constant, { shuffles: 2 });
      expect(purchases).toBeGreaterThan(12);
      expect(shuffled!.meanProfit).toBeCloseTo(profit, 9);
      expect(shuffled!.meanEquityChange).toBeCloseTo(equityChange, 9);
    });

    it('is refused with a reason for fewer than ten events', async () => {
      const { shuffled, notShuffled } = await run({ ...better, days: 9 });
      expect(shuffled).toBeNull();
      expect(notShuffled).toBe(
        'not possible with fewer than 10 events that have two others of their station and season (here 9 of 9)',
      );
      expect((await run({ ...better, days: 10 })).notShuffled).toBeNull();
      // Starting on 1 March, the first 92 days are spring; each of the two summer days has only one other day in its
      // season.
      const { shuffled: spring } = await run({ ...better, days: 94 }, { shuffles: 1 });
      expect(spring).toMatchObject({ events: 92, leftOutEvents: 2 });
    });
  });

  it('shows equity beside the profit, which leaves out open positions', async () => {
    const points = makePoints({ ...better, days: 12 });
    const result = await backtest(sourceOf(points.slice(0, -1)), options);
    expect(result.openPurchases).toBeGreaterThan(0);
    const { startCash, endCash, openWorth, endEquity, equityChange, profit } = result;
    expect(openWorth).toBeGreaterThan(0);
    expect(endCash + openWorth).toBeCloseTo(endEquity, 6);
    expect(equityChange).toBeCloseTo(endEquity - startCash, 6);
    expect(equityChange).not.toBeCloseTo(profit, 1);
    const dollars = (amount: number) => `${amount < 0 ? '−' : ''}$${Math.abs(amount).toFixed(2)}`;
    const words = toText(result);
    expect(words).toContain(
      `${dollars(profit)} after fees from settled purchases, ${(100 * result.returnOnStake!).toFixed(1)}% of their stake; equity changed by ${dollars(equityChange)}`,
    );
    expect(words).toContain(
      `${dollars(endEquity)}: ${dollars(endCash)} in cash and ${dollars(openWorth)} in open positions at the last bids, after fees`,
    );
    expect(words).toContain(`mean equity change ${dollars(result.shuffled!.meanEquityChange)}`);
  });

  it('buys nothing behind a closed gate unless it is ungated', async () => {
    const closed = await run({ ...better, isOpen: false }, { shuffles: 0 });
    expect([closed.purchases, closed.profit]).toEqual([0, 0]);
    expect(closed.withheld).toBeGreaterThan(50);
    expect(closed.reasons.some(({ reason }) => reason.startsWith('withheld: '))).toBe(true);
    const ungated = await run({ ...better, isOpen: false }, { shuffles: 0, isUngated: true });
    expect(ungated.purchases).toBeGreaterThan(50);
  });

  it('is deterministic', async () => {
    expect(await run(better, { shuffles: 2 })).toEqual(await run(better, { shuffles: 2 }));
  });

  it('has no look-ahead: the first half is the same without the later days', async () => {
    const all = makePoints(better);
    const half = all.slice(0, 60);
    const whole = await runBacktest(all, { cash: options.cash });
    const first = await runBacktest(half, { cash: options.cash });
    const until = half.at(-1)!.at;
    const boughtBy = (purchases: typeof whole.purchases) =>
      purchases
        .filter(({ at }) => at <= until)
        .map(({ ticker, side, contracts, cost }) => ({ ticker, side, contracts, cost }));
    expect(boughtBy(first.purchases)).toEqual(boughtBy(whole.purchases));
  });

  it('gives no interval for a few days', async () => {
    const { profitPerDay, shuffled } = await run({ ...better, days: 10 });
    expect([profitPerDay, shuffled!.profitPerDay, shuffled!.isEarning]).toEqual([null, null, false]);
  });
});

describe('a position in an event without a decision', () => {
  const date = '2026-07-04';
  const cities = ['KNYC', 'KMIA', 'KPHL', 'KMDW', 'KDEN', 'KAUS', 'KLAX'];
  const bargain = makeBook([[20, 2_000]], [[79, 2_000]]);
  const fair = makeBook([[15, 500]], [[84, 500]]);
  const scenes = cities.map((stationId, i) => {
    const event = makeEvent({ date, lowest: 68, stationId });
    const at = new Date(climateDayOf(event.station, date).end.getTime() - (30 - i) * 3_600_000);
    const data = makeData(event, [fair, fair, bargain, fair, fair, fair], at);
    const forecasts = makeForecasts(event, [0.1, 0.1, 0.5, 0.1, 0.1, 0.1], { at, ...calibrated });
    return { event, at, data, forecasts };
  });
  const all = (at: Date) => ({
    ...scenes[0]!.data,
    fetchedAt: at,
    markets: scenes.flatMap(({ data }) => data.markets),
    books: new Map(scenes.flatMap(({ data }) => [...data.books])),
    feeRules: new Map(scenes.flatMap(({ data }) => [...data.feeRules])),
  });
  const points = scenes
    .toSorted((a, b) => a.at.getTime() - b.at.getTime())
    .map(({ event, at, forecasts }): PointInTime => ({
      at,
      data: all(at),
      events: scenes.map((each) => each.event),
      due: [event],
      forecasts,
      gates: makeGates(true, cities, at),
    }));

  it('uses up the daily cap', async () => {
    const { purchases } = await runBacktest(points, { cash: 1_000n * DOLLAR });
    const staked = purchases.reduce((sum, { cost }) => sum + cost, 0n);
    expect(new Set(purchases.map(({ eventTicker }) => eventTicker)).size).toBeGreaterThan(2);
    expect(staked).toBeGreaterThan(150n * DOLLAR);
    expect(staked).toBeLessThanOrEqual(200n * DOLLAR);
  });

  it('is not increased and reserves no room for more', async () => {
    const [first] = points;
    const stranger = makeForecasts(scenes[6]!.event, [0.02, 0.02, 0.9, 0.02, 0.02, 0.02], {
      at: first!.at,
      ...calibrated,
    });
    const withAnother = points.map((point) => ({
      ...point,
      forecasts: new Map([...stranger, ...point.forecasts]),
    }));
    const given = { cash: 1_000n * DOLLAR };
    expect((await runBacktest(withAnother, given)).purchases).toEqual(
      (await runBacktest(points, given)).purchases,
    );
  });
});

describe('the points of the simulated world', () => {
  it('show possible positions from the first decision to settlement', () => {
    const days = stationDaysBetween({ from: '2026-10-08', to: '2026-10-12' });
    const plan = planOf(days, '2026-10-10');
    const traded = days.filter(({ day }) => day.date >= '2026-10-10');
    expect(traded).toHaveLength(3 * 24);
    for (const { station, day } of traded) {
      const isThis = (each: StationDay) => each.station === station && each.day.date === day.date;
      const decided = plan.filter(({ due }) => due.some(isThis)).map(({ atMs }) => atMs);
      const shown = plan.filter(({ shown }) => shown.some(isThis)).map(({ atMs }) => atMs);
      const endMs = day.end.getTime();
      expect(decided).toEqual([36, 24, 12, 6].map((lead) => endMs - lead * 3_600_000));
      // The venue's result becomes final nine hours after the day ends.
      expect([shown[0], shown.at(-1)]).toEqual([decided[0], endMs + 9 * 3_600_000]);
      const between = plan.filter(({ atMs }) => atMs >= shown[0]! && atMs <= shown.at(-1)!);
      expect(between).toHaveLength(shown.length);
    }
  });

  it('have gates and fits from data that was final by then, and the venue’s fee', async () => {
    const stations = ['KNYC', 'KDEN'].map((id) => findStation(id)!);
    const options = { seed: 'gauge', from: '2026-10-10', to: '2026-10-10', scoreDays: 4, stations };
    const source = await simulationFeed(options);
    const scored = stationDaysBetween({ from: '2026-10-06', to: '2026-10-10' }, stations);
    let most = 0;
    for await (const { at, gates, forecasts, data } of source.points()) {
      for (const { stationId, n } of gates.gates) {
        const final = scored.filter(
          ({ station, day }) => station.id === stationId && day.end.getTime() + 9 * 3_600_000 <= at.getTime(),
        );
        expect(n).toBeLessThanOrEqual(final.length);
        most = Math.max(most, n);
      }
      for (const { days } of forecasts.values())
        for (const { fit, fetchedAt, modelRunAt } of days)
          for (const time of [fit?.trainedAt, fit?.knownThrough, fetchedAt, modelRunAt])
            expect(+(time ?? 0)).toBeLessThanOrEqual(+at);
      for (const { multiplier } of data.feeRules.values()) expect(multiplier).toBe(1_000_000n);
    }
    // Guards against the checks above passing without data.
    expect(most).toBeGreaterThanOrEqual(3);
  });
});

describe('the summary', () => {
  const at = (hour: number) => new Date(Date.UTC(2026, 6, 1, hour));
  const bought = {
    at: at(0),
    eventTicker: 'E',
    side: 'yes',
    contracts: 10,
    fills: [],
    fee: 20_000n,
  } as const;

  it('matches sums worked out by hand', () => {
    const summary = summarise({
      start: 100n * DOLLAR,
      end: 103n * DOLLAR,
      endCash: 101n * DOLLAR,
      equity: [100, 110, 88, 99].map((dollars, i) => ({ at: at(i), amount: BigInt(dollars) * DOLLAR })),
      dates: ['2026-07-01', '2026-07-02'],
      decisions: 4,
      signals: 3,
      withheld: 1,
      reasons: new Map([['edge N', 7]]),
      purchases: [
        {
          ...bought,
          ticker: 'A',
          date: '2026-07-01',
          cost: 4n * DOLLAR,
          probability: 0.5,
          breakEven: 0.4,
          payout: 10n * DOLLAR,
        },
        {
          ...bought,
          ticker: 'B',
          date: '2026-07-01',
          cost: 5n * DOLLAR,
          probability: 0.55,
          breakEven: 0.5,
          payout: 0n,
        },
        {
          ...bought,
          ticker: 'C',
          date: '2026-07-02',
          cost: 3n * DOLLAR,
          probability: 1,
          breakEven: 0.3,
          payout: null,
        },
      ],
    });
    expect(summary).toMatchObject({
      profit: 1,
      purchases: 3,
      openPurchases: 1,
      endCash: 101,
      openWorth: 2,
      endEquity: 103,
      equityChange: 3,
      contracts: 30,
      staked: 12,
      fees: 0.06,
      profitPerDay: null,
      days: 2,
      // A fall from 110 to 88.
      maximumDrawdown: { amount: 22, share: 0.2 },
      reasons: [{ reason: 'edge N', times: 7 }],
    });
    expect(summary.returnOnStake).toBeCloseTo(1 / 9, 12);
    expect(summary.turnover).toBeCloseTo(12 / 99.25, 12);
    expect(summary.calibration).toEqual([
      {
        from: 0.4,
        to: expect.closeTo(0.6) as number,
        purchases: 2,
        meanProbability: 0.525,
        frequency: 0.5,
        meanBreakEven: 0.45,
      },
    ]);
  });
});
