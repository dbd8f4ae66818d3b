import { describe, expect, it } from 'vitest';
import { isCrossed } from '../../src/trading/markets/book.js';
import { createSimulatedSource } from '../../src/trading/markets/simulated.js';
import type { Market } from '../../src/trading/markets/market.js';
import { DOLLAR } from '../../src/trading/money.js';
import { isWholeLadder, parseBracket, bracketLabel } from '../../src/trading/settlement/brackets.js';
import { climateDayAt } from '../../src/trading/settlement/climate-day.js';
import { findStation, stations } from '../../src/trading/settlement/stations.js';
import { simulateWeather } from '../../src/trading/simulation/weather.js';

const signal = new AbortController().signal;

function readAt(time: string, seed = 'seed') {
  const clock = { now: () => Date.parse(time) };
  return createSimulatedSource({ clock, seed, weather: simulateWeather(seed) }).read(signal);
}

function groupBy<T>(list: readonly T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of list) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}

const groupByEvent = (markets: readonly Market[]) => groupBy(markets, ({ eventTicker }) => eventTicker);

describe('the simulated markets', () => {
  it('are seven cities with two days each to trade, whatever the time of the day', async () => {
    for (let hour = 0; hour < 24; hour++) {
      const { markets } = await readAt(`2026-11-21T${String(hour).padStart(2, '0')}:30:00Z`);
      const active = groupByEvent(markets.filter(({ status }) => status === 'active'));
      for (const [event, ladder] of active) expect(ladder, event).toHaveLength(6);
      expect(new Set([...active.values()].map(([first]) => first!.station.id)).size).toBe(7);
      expect(active.size).toBe(14);
    }
  });

  it('follow from the seed and the clock alone', async () => {
    const [one, same, later, other] = await Promise.all([
      readAt('2026-11-21T18:00:00Z'),
      readAt('2026-11-21T18:00:00Z'),
      readAt('2026-11-21T18:00:30Z'),
      readAt('2026-11-21T18:00:00Z', 'another'),
    ]);
    expect(same).toEqual(one);
    expect(later.books).not.toEqual(one.books);
    expect(other.markets).not.toEqual(one.markets);
  });

  it('are whole ladders whose tickers say what they pay for, with books that nobody could profit from by buying both sides', async () => {
    const { markets, books } = await readAt('2026-07-04T20:00:00Z');
    for (const [event, ladder] of groupByEvent(markets)) {
      expect(isWholeLadder(ladder.map(({ bracket }) => bracket)), event).toBe(true);
      for (const { ticker, bracket, status, yesBid, yesAsk } of ladder) {
        expect(parseBracket({ ticker, label: bracketLabel(bracket) })).toEqual(bracket);
        const book = books.get(ticker)!;
        expect(isCrossed(book), ticker).toBe(false);
        if (status !== 'active') expect(book).toEqual({ yes: [], no: [] });
        if (yesBid !== null && yesAsk !== null) expect(yesBid < yesAsk).toBe(true);
      }
    }
  });

  it('settle: closed with their day, reported and determined in the morning, finalized an hour later, one winner by the report', async () => {
    const station = findStation('KNYC')!;
    const weather = simulateWeather('seed');
    const states: string[] = [];
    for (const time of [
      '2026-11-22T04:59:59Z',
      '2026-11-22T05:00:00Z',
      '2026-11-22T12:00:00Z',
      '2026-11-22T13:00:00Z',
      '2026-11-22T14:00:00Z',
    ]) {
      const { markets } = await readAt(time);
      const day = markets.filter((market) => market.station === station && market.date === '2026-11-21');
      states.push(day[0]!.status);
      const paid = day.filter(({ settlementValue }) => settlementValue === DOLLAR);
      const isKnown = ['determined', 'finalized'].includes(day[0]!.status);
      expect(paid).toHaveLength(isKnown ? 1 : 0);
      for (const { settledTemperature } of day)
        expect(settledTemperature).toBe(
          time >= '2026-11-22T12' ? weather.report(station, '2026-11-21') : null,
        );
    }
    expect(states).toEqual(['active', 'closed', 'closed', 'determined', 'finalized']);
  });

  it('are found by name as they were, however long ago, and not before they open', async () => {
    const { markets } = await readAt('2026-07-05T18:00:00Z');
    const source = (time: string) =>
      createSimulatedSource({
        clock: { now: () => Date.parse(time) },
        seed: 'seed',
        weather: simulateWeather('seed'),
      });
    const found = await source('2026-07-05T18:00:00Z').find(
      markets.map(({ ticker }) => ticker),
      signal,
    );
    expect(found).toHaveLength(markets.length);
    expect(found).toEqual(expect.arrayContaining([...markets]));

    const tickers = markets.filter(({ date }) => date === '2026-07-04').map(({ ticker }) => ticker);
    const later = await source('2026-09-01T00:00:00Z').find(tickers, signal);
    expect(later.every(({ status }) => status === 'finalized')).toBe(true);
    expect(later.filter(({ settlementValue }) => settlementValue === DOLLAR)).toHaveLength(7);
    expect(await source('2026-06-01T00:00:00Z').find(tickers, signal)).toEqual([]);
    const unknown = ['', 'X', 'KXHIGHTOKYO-26JUL04-T80', 'KXHIGHNY-26JUL99-T80', 'KXHIGHNY-26JUL04-T999'];
    expect(await source('2026-09-01T00:00:00Z').find(unknown, signal)).toEqual([]);
  });

  it('know more as the day goes on', async () => {
    const sureness = async (time: string) => {
      const { markets } = await readAt(time);
      const day = markets.filter(({ date, status }) => date === '2026-07-04' && status === 'active');
      const best = groupBy(day, ({ station }) => station.id);
      const tops = [...best.values()].map((ladder) =>
        Math.max(...ladder.map(({ yesBid }) => Number(yesBid ?? 0n))),
      );
      return tops.reduce((sum, top) => sum + top, 0) / tops.length;
    };
    expect(await sureness('2026-07-05T03:00:00Z')).toBeGreaterThan(
      (await sureness('2026-07-03T20:00:00Z')) + 200_000,
    );
  });
});

describe('the simulated weather', () => {
  const weather = simulateWeather('seed');

  it('has a running maximum that only rises, up to the report’s temperature and no further', () => {
    for (const station of stations) {
      const { start, end, date } = climateDayAt(station, new Date('2026-07-04T20:00:00Z'));
      expect(weather.runningMaximum(station, date, new Date(start.getTime() - 1))).toBeNull();
      let highest = -Infinity;
      for (let ms = start.getTime(); ms <= end.getTime(); ms += 15 * 60_000) {
        const now = weather.runningMaximum(station, date, new Date(ms))!;
        expect(now).toBeGreaterThanOrEqual(highest);
        highest = now;
      }
      expect(highest).toBeCloseTo(weather.maximum(station, date), 9);
    }
  });

  it('is warm in summer and cold in winter, and each day differs', () => {
    const chicago = findStation('KMDW')!;
    const mean = (month: string) => {
      const days = Array.from({ length: 28 }, (_, i) =>
        weather.maximum(chicago, `2026-${month}-${String(i + 1).padStart(2, '0')}`),
      );
      expect(new Set(days).size).toBe(28);
      return days.reduce((sum, day) => sum + day, 0) / days.length;
    };
    expect(mean('07')).toBeGreaterThan(mean('01') + 25);
  });
});
