import { describe, expect, it } from 'vitest';
import type { PointInTime } from '../../backtest/feed.js';
import { recordsFeed, type RecordOptions } from '../../backtest/records-feed.js';
import type { RecordedTrade } from '../../backtest/records.js';
import type { DayEnsemble } from '../../../src/markets/weather/weather.js';
import { bracketPays } from '../../../src/markets/market/brackets.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import type { Market } from '../../../src/markets/market/market.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import { findStation } from '../../../src/markets/market/stations.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import { makeEvent } from '../../../test/markets/support/events.js';

const HOUR_MS = 3_600_000;
const DAYS = 40;
const station = findStation('KNYC')!;
const dates = Array.from({ length: DAYS }, (_, i) =>
  new Date(Date.UTC(2026, 2, 1 + i)).toISOString().slice(0, 10),
);
const endOf = (date: string): number => climateDayOf(station, date).end.getTime();
const truthOf = (date: string): number => Math.round(60 + 6 * gaussian('records', date, 'truth'));

const settledMarkets = (date: string, temperatureF: number): readonly Market[] =>
  makeEvent({ date, lowest: 56 }).markets.map((market) => ({
    ...market,
    status: 'finalized',
    settledTemperature: temperatureF,
    settlementValue: bracketPays(market.bracket, temperatureF) ? DOLLAR : 0n,
  }));

const runOf = (date: string): DayEnsemble => {
  const modelRunAt = new Date(endOf(date) - 30 * HOUR_MS);
  const fetchedAt = new Date(endOf(date) - 26 * HOUR_MS);
  const centre = truthOf(date) + 2 + 1.5 * gaussian('records', date, 'model');
  const membersF = Array.from({ length: 12 }, (_, i) => centre + (i - 5.5) / 6);
  return { kind: 'daily_maximum', stationId: 'KNYC', date, modelRunAt, fetchedAt, membersF };
};

/** Trades on both sides of two brackets, every 25 minutes from 25 hours before the day's end. */
function tradesOf(date: string): [string, RecordedTrade[]][] {
  return makeEvent({ date, lowest: 56 })
    .markets.slice(2, 4)
    .map(({ ticker }) => [
      ticker,
      Array.from({ length: 50 }, (_, i): RecordedTrade => {
        const yesPrice = 30 + Math.round(5 * gaussian(ticker, i)) + (i % 2);
        const atMs = endOf(date) - 25 * HOUR_MS + i * 25 * 60_000;
        return { atMs, yesPrice, contracts: 20, takerSide: i % 2 === 0 ? 'no' : 'yes' };
      }),
    ]);
}

const whole: RecordOptions = {
  events: new Map(dates.map((date) => [date, settledMarkets(date, truthOf(date))])),
  trades: new Map(dates.slice(-2).flatMap(tradesOf)),
  runs: dates.map(runOf),
  // One observation per hour, known five minutes later.
  observations: dates.slice(-2).flatMap((date) =>
    Array.from({ length: 24 }, (_, hour) => {
      const observedMs = endOf(date) - (24 - hour) * HOUR_MS;
      return {
        stationId: 'KNYC',
        observedAt: new Date(observedMs),
        fetchedAt: new Date(observedMs + 5 * 60_000),
        temperatureF: 50 + hour / 2,
      };
    }),
  ),
  everyMs: HOUR_MS,
};

/** Returns only the records known by a given time. Days not yet final by then get different outcomes. */
const knownBy = (ms: number): RecordOptions => ({
  ...whole,
  events: new Map(
    dates.map((date) => [
      date,
      settledMarkets(date, truthOf(date) + (endOf(date) + 9 * HOUR_MS <= ms ? 0 : 9)),
    ]),
  ),
  trades: new Map([...whole.trades].map(([ticker, all]) => [ticker, all.filter(({ atMs }) => atMs <= ms)])),
  runs: whole.runs!.filter(({ fetchedAt }) => fetchedAt.getTime() <= ms),
  observations: whole.observations!.filter(({ fetchedAt }) => fetchedAt.getTime() <= ms),
});

const pointsOf = (options: RecordOptions): PointInTime[] => [
  ...(recordsFeed(options).points() as Iterable<PointInTime>),
];

/** Everything that decisions use, except the fits' random IDs. */
const decisionsBy = (points: readonly PointInTime[], ms: number) =>
  points
    .filter(({ at, due }) => due.length > 0 && at.getTime() <= ms)
    .map(({ forecasts, ...point }) => ({
      ...point,
      forecasts: [...forecasts.values()].flatMap(({ days }) =>
        days.map((day) => ({ ...day, fit: day.fit && { ...day.fit, id: '' } })),
      ),
    }));

describe('the points of recorded days', () => {
  const points = pointsOf(whole);
  const times = points.filter(({ due }) => due.length > 0).map(({ at }) => at.getTime());

  it('have no look-ahead: they are the same without any later data', () => {
    expect(times.length).toBeGreaterThan(40);
    for (const ms of [times[3]!, times[20]!, times[30]!, times.at(-2)!]) {
      const known = decisionsBy(pointsOf(knownBy(ms)), ms);
      expect(known.length).toBeGreaterThan(0);
      expect(known).toEqual(decisionsBy(points, ms));
    }
    // Proves that the check above can fail: truncated records change the next point.
    const late = times[30]!;
    expect(decisionsBy(pointsOf(knownBy(late)), times.at(-1)!)).not.toEqual(
      decisionsBy(points, times.at(-1)!),
    );
  });

  it('have forecasts corrected by earlier reports', () => {
    const fits = points.flatMap(({ forecasts, at }) =>
      [...forecasts.values()].flatMap(({ days }) => days.map(({ fit }) => ({ fit, at }))),
    );
    expect(fits.some(({ fit }) => fit !== null && fit.n >= 30)).toBe(true);
    for (const { fit, at } of fits) expect(+(fit?.knownThrough ?? 0)).toBeLessThanOrEqual(+at);
  });

  it('have the measurements of their own day only', () => {
    const [date] = dates.slice(-1);
    const found = points.flatMap(({ forecasts, at }) =>
      [...forecasts.values()].flatMap(({ days }) =>
        days.filter((day) => day.date === date).map(({ observed }) => ({ observed, at })),
      ),
    );
    expect(found.some(({ observed }) => observed !== null)).toBe(true);
    for (const { observed, at } of found) {
      const hours = Math.ceil((at.getTime() - (endOf(date!) - 24 * HOUR_MS)) / HOUR_MS) - 1;
      if (hours < 0) expect(observed).toBeNull();
      else expect(observed).toMatchObject({ extremeF: 50 + hours / 2, date });
    }
  });

  it('have stand-in forecasts from known reports, at most six hours old', () => {
    const { runs: _, ...rest } = whole;
    const standIns = pointsOf({ ...rest, runs: undefined }).filter(({ due }) => due.length > 0);
    expect(standIns.length).toBeGreaterThan(20);
    for (const { at, forecasts } of standIns)
      for (const { fetchedAt } of [...forecasts.values()].flatMap(({ days }) => days)) {
        expect(fetchedAt.getTime()).toBeLessThanOrEqual(at.getTime());
        expect(at.getTime() - fetchedAt.getTime()).toBeLessThanOrEqual(6 * HOUR_MS);
      }
  });

  it('are made lazily, with the events in progress', () => {
    for (const { events } of points) expect(events.length).toBeLessThanOrEqual(2);
    expect(recordsFeed(whole).count).toBe(points.length);
  });

  it('have the venue’s fee', () => {
    for (const { data } of points)
      expect(data.feeRules.get('KXHIGHNY')).toEqual({ type: 'quadratic', multiplier: 1_000_000n });
  });

  it('have an event’s own fees', () => {
    const own = { type: 'quadratic', multiplier: 500_000n } as const;
    const [point] = pointsOf({ ...whole, feeRules: new Map([['KXHIGHNY-26APR09', own]]) });
    expect(point!.data.feeRules.get('KXHIGHNY-26APR09')).toEqual(own);
    expect(point!.data.feeRules.get('KXHIGHNY')?.multiplier).toBe(1_000_000n);
  });

  it('have the result of a day nine hours after its end, and no earlier', () => {
    for (const { at, data } of points)
      for (const { date, status, settlementValue, settledTemperature } of data.markets) {
        const isFinal = at.getTime() >= endOf(date!) + 9 * HOUR_MS;
        expect(status === 'finalized').toBe(isFinal);
        expect(settlementValue !== null).toBe(isFinal);
        expect(settledTemperature !== null).toBe(isFinal);
      }
    expect(points.at(-1)!.data.markets.every(({ status }) => status === 'finalized')).toBe(true);
  });
});
