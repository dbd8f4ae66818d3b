import { describe, expect, it, vi } from 'vitest';
import { isCrossed } from '../../../src/markets/market/book.js';
import { isPlaced, type ListedMarket, type Market } from '../../../src/markets/market/market.js';
import { groupEvents } from '../../../src/markets/market/event.js';
import { placeMarket } from '../../../src/markets/venue/place-market.js';
import { createSimulatedSource } from '../../../src/markets/venue/simulated.js';
import type { MarketData } from '../../../src/markets/market/source.js';
import { DOLLAR } from '../../../src/markets/market/money.js';
import {
  areThresholds,
  bracketLabel,
  bracketPays,
  isWholeLadder,
} from '../../../src/markets/market/brackets.js';
import { findPlace, findStation } from '../../../src/markets/market/stations.js';
import { simulateWeather } from '../../../src/markets/venue/simulation/weather.js';
import { dailySubject, hourSubject, leadingStations } from '../../../src/markets/venue/simulation/world.js';
import { climateDayOf } from '../../../src/markets/market/climate-day.js';
import type { KalshiMarket } from '../../../src/markets/venue/kalshi-schema.js';

const signal = new AbortController().signal;

const sourceAt = (time: string, seed = 'seed') =>
  createSimulatedSource({ clock: { now: () => Date.parse(time) }, seed, weather: simulateWeather(seed) });
const readAt = (time: string, seed?: string) => sourceAt(time, seed).read(signal);
const placedIn = ({ markets }: MarketData): Market[] => markets.filter(isPlaced);

describe('the simulated markets', () => {
  it('cover the maxima and minima of 24 cities: today’s, and from 14:00Z also tomorrow’s', async () => {
    for (const [time, days] of [
      ['2026-11-21T09:30:00Z', 1],
      ['2026-11-21T13:59:59Z', 1],
      ['2026-11-21T14:00:00Z', 2],
      ['2026-11-22T03:30:00Z', 2],
    ] as const) {
      const active = groupEvents((await readAt(time)).markets).filter(
        ({ kind, markets }) => kind !== 'hourly' && markets[0]!.status === 'active',
      );
      for (const kind of ['daily_maximum', 'daily_minimum']) {
        const events = active.filter((event) => event.kind === kind);
        expect(new Set(events.map(({ station }) => station.id)).size).toBe(24);
        expect(events, `${time} ${kind}`).toHaveLength(24 * days);
      }
      for (const { markets, eventTicker } of active) expect(markets, eventTicker).toHaveLength(6);
    }
  });

  it('cover the hours of four areas a day ahead, and rain; about 1,500 markets at most', async () => {
    for (const [time, ofMiami] of [
      // 7:30 and 13:30 in Miami's local time.
      ['2026-11-21T12:30:00Z', ['21 8', '21 20']],
      ['2026-11-21T18:30:00Z', ['21 14', '22 13']],
    ] as const) {
      const { markets } = await readAt(time);
      expect(markets.length).toBeGreaterThan(1_000);
      expect(markets.length).toBeLessThan(1_520);
      const hours = groupEvents(markets).filter(
        (event) => event.kind === 'hourly' && event.markets[0]!.status === 'active',
      );
      expect(hours).toHaveLength(4 * 13);
      const miami = hours.filter(({ station }) => station.id === 'INDEX-MIAMI');
      expect([miami[0]!, miami.at(-1)!].map(({ date, hour }) => `${date.slice(8)} ${hour}`)).toEqual(ofMiami);
      const rain = markets.filter(({ kind, status }) => kind === 'rain' && status === 'active');
      expect(rain.length).toBeGreaterThanOrEqual(leadingStations.length);
      expect(rain.every((market) => !isPlaced(market) && market.problem !== '')).toBe(true);
    }
  });

  it('depend on the seed and the clock alone, and their books do not all change at once', async () => {
    const [one, same, soon, later, other] = await Promise.all([
      readAt('2026-11-21T18:00:00Z'),
      readAt('2026-11-21T18:00:00Z'),
      readAt('2026-11-21T18:00:05Z'),
      readAt('2026-11-21T18:00:30Z'),
      readAt('2026-11-21T18:00:00Z', 'another'),
    ]);
    expect(same).toEqual(one);
    expect(other.markets).not.toEqual(one.markets);
    const shareOf = ({ books }: MarketData) => {
      const open = [...one.books].filter(([, { yes, no }]) => yes.length + no.length > 0);
      const changed = open.filter(
        ([ticker, book]) => JSON.stringify(books.get(ticker), text) !== JSON.stringify(book, text),
      );
      return changed.length / open.length;
    };
    const text = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);
    expect(shareOf(soon)).toBeGreaterThan(0.2);
    expect(shareOf(soon)).toBeLessThan(0.5);
    expect(shareOf(later)).toBeGreaterThan(0.95);
  });

  it('are the same from a fresh source and from one used before', async () => {
    let now = Date.parse('2026-11-21T17:58:00Z');
    const source = createSimulatedSource({
      clock: { now: () => now },
      seed: 'seed',
      weather: simulateWeather('seed'),
    });
    for (; now < Date.parse('2026-11-21T18:01:00Z'); now += 20_000) await source.read(signal);
    expect(await source.read(signal)).toEqual(await readAt(new Date(now).toISOString()));
  });

  it('form whole daily ladders and hourly thresholds, with books that offer no profit from buying both sides', async () => {
    const { markets, books } = await readAt('2026-07-04T20:00:00Z');
    for (const { eventTicker, kind, markets: ladder } of groupEvents(markets)) {
      const brackets = ladder.map(({ bracket }) => bracket);
      expect(kind === 'hourly' ? areThresholds(brackets) : isWholeLadder(brackets), eventTicker).toBe(true);
      expect(ladder).toHaveLength(kind === 'hourly' ? 10 : 6);
    }
    for (const { ticker, status, yesBid, yesAsk } of markets) {
      const book = books.get(ticker)!;
      expect(isCrossed(book), ticker).toBe(false);
      if (status !== 'active') expect(book).toEqual({ yes: [], no: [] });
      if (yesBid !== null && yesAsk !== null) expect(yesBid < yesAsk).toBe(true);
    }
    expect(new Set(markets.map(({ ticker }) => ticker)).size).toBe(markets.length);
  });

  it.each(['2026-01-15T20:00:00Z', '2026-07-04T20:00:00Z', '2026-11-01T16:00:00Z'])(
    'have rules that our own parser understands, at %s',
    async (time) => {
      for (const market of (await readAt(time)).markets) {
        const { problem, note, ...placed } = {
          problem: undefined,
          note: undefined,
          ...placeMarket(asWire(market)),
        };
        expect(note?.kind).toBe(isPlaced(market) ? undefined : 'unknown_kind');
        expect(market).toMatchObject(placed);
        if (!isPlaced(market)) expect(market.problem).toBe(problem);
      }
    },
  );

  it('close with their day, are reported and determined in the morning and finalized an hour later, with the report’s winner', async () => {
    const station = findStation('KNYC')!;
    const weather = simulateWeather('seed');
    const day = climateDayOf(station, '2026-11-21');
    for (const kind of ['daily_maximum', 'daily_minimum'] as const) {
      const states: string[] = [];
      for (const time of [
        '2026-11-22T04:59:59Z',
        '2026-11-22T05:00:00Z',
        '2026-11-22T12:00:00Z',
        '2026-11-22T13:00:00Z',
        '2026-11-22T14:00:00Z',
      ]) {
        const markets = placedIn(await readAt(time)).filter(
          (market) => market.station === station && market.date === day.date && market.kind === kind,
        );
        states.push(markets[0]!.status);
        const paid = markets.filter(({ settlementValue }) => settlementValue === DOLLAR);
        const isKnown = ['determined', 'finalized'].includes(markets[0]!.status);
        expect(paid).toHaveLength(isKnown ? 1 : 0);
        for (const { settledTemperature } of markets)
          expect(settledTemperature).toBe(
            time >= '2026-11-22T12' ? weather.value(dailySubject(kind, { station, day })) : null,
          );
      }
      expect(states).toEqual(['active', 'closed', 'closed', 'determined', 'finalized']);
    }
  });

  it('settle an hour by the index at that moment: closed then, known after five minutes, final within the hour', async () => {
    const area = findPlace('INDEX-CHICAGO')!;
    const weather = simulateWeather('seed');
    const value = weather.value(hourSubject(area, '2026-11-21', 12));
    const states: unknown[] = [];
    for (const minute of ['17:59', '18:00', '18:05', '18:10', '18:40']) {
      const markets = placedIn(await readAt(`2026-11-21T${minute}:00Z`)).filter(
        ({ station, date, hour }) => station === area && date === '2026-11-21' && hour === 12,
      );
      expect(markets[0]!.eventTicker).toBe('KXTEMPCHIHS-26NOV2112');
      states.push([markets[0]!.status, markets[0]!.settledTemperature]);
      for (const { status, bracket, settlementValue } of markets)
        expect(settlementValue).toBe(
          ['determined', 'finalized'].includes(status) ? (bracketPays(bracket, value) ? DOLLAR : 0n) : null,
        );
    }
    expect(states).toEqual([
      ['active', null],
      ['closed', null],
      ['closed', value],
      ['determined', value],
      ['finalized', value],
    ]);
    expect(value).toBe(Math.round(value * 100) / 100);
  });

  it('are found by ticker, however old, and not before they open', async () => {
    const { markets } = await readAt('2026-07-05T18:00:00Z');
    const tickers = markets.map(({ ticker }) => ticker);
    const found = await sourceAt('2026-07-05T18:00:00Z').find(tickers, signal);
    const byTicker = new Map(found.map((market) => [market.ticker, market]));
    expect(found).toHaveLength(markets.length);
    for (const market of markets) expect(byTicker.get(market.ticker)).toEqual(market);

    const past = markets.filter(({ date }) => date === '2026-07-04').map(({ ticker }) => ticker);
    const later = (await sourceAt('2026-09-01T00:00:00Z').find(past, signal)) as ListedMarket[];
    expect(later.every(({ status }) => status === 'finalized')).toBe(true);
    const paid = (kind: string) =>
      later.filter((market) => market.kind === kind && market.settlementValue === DOLLAR);
    expect([paid('daily_maximum').length, paid('daily_minimum').length]).toEqual([24, 24]);
    expect(later.filter(({ kind }) => kind === 'rain')).toHaveLength(7);
    expect(await sourceAt('2026-06-01T00:00:00Z').find(past, signal)).toEqual([]);
    const unknown = [
      '',
      'X',
      'KXHIGHTOKYO-26JUL04-T80',
      'KXHIGHNY-26JUL99-T80',
      'KXHIGHNY-26JUL04-T999',
      'HIGHNY-26JUL04-T80',
      'KXHIGHNY-26JUL0412-T80',
      'KXTEMPMIAH-26JUL04-T80.99',
      'KXRAIN-26JUL04-XXX',
    ];
    expect(await sourceAt('2026-09-01T00:00:00Z').find(unknown, signal)).toEqual([]);
  });

  it('price in more as the day progresses', async () => {
    const sureness = async (time: string) => {
      const events = groupEvents((await readAt(time)).markets).filter(
        ({ kind, date, markets }) =>
          kind === 'daily_maximum' && date === '2026-07-04' && markets[0]!.status === 'active',
      );
      const tops = events.map(({ markets }) =>
        Math.max(...markets.map(({ yesBid }) => Number(yesBid ?? 0n))),
      );
      return tops.reduce((sum, top) => sum + top, 0) / tops.length;
    };
    expect(await sureness('2026-07-05T03:00:00Z')).toBeGreaterThan(
      (await sureness('2026-07-03T20:00:00Z')) + 200_000,
    );
  });

  it('are read in slices that do not block other work', async () => {
    const source = sourceAt('2026-07-04T20:00:00Z');
    // Each reading of the clock adds a millisecond, so the machine's speed does not matter.
    let ms = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => ms++);
    let turns = 0;
    const reading = source.read(signal);
    const count = () => {
      turns++;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const { markets } = await reading.finally(() => {
      clearImmediate(timer);
      clock.mockRestore();
    });
    // Ten events take ten milliseconds by that clock.
    expect(turns).toBeGreaterThan(groupEvents(markets).length / 15);
  });
});

describe('the simulated prints', () => {
  const ofNewYork = async (time: string) =>
    placedIn(await readAt(time)).filter(
      ({ station, status }) => station === findStation('KNYC') && status === 'active',
    );
  const tickersOf = (markets: readonly Market[]) => markets.map(({ ticker }) => ticker);

  it('add up to the growth of the volumes, at the best prices of their moment', async () => {
    const [from, until] = ['2026-07-04T20:00:00Z', '2026-07-04T20:20:00Z'];
    const before = await ofNewYork(from);
    const after = await ofNewYork(until);
    // Starts early enough to include each event's last book change before the first time; every event has its own
    // offset.
    const prints = await sourceAt(until).readPrints!(
      tickersOf(before),
      new Date(Date.parse(from) - 15_000),
      signal,
    );
    expect(prints.length).toBeGreaterThan(20);
    const within = (ticker: string, margin: number) =>
      prints
        .filter((print) => print.ticker === ticker && +print.at > Date.parse(from) - margin)
        .filter(({ at }) => +at <= Date.parse(until) - (margin === 0 ? 15_000 : 0))
        .reduce((sum, { contracts }) => sum + contracts, 0);
    for (const [i, { ticker, volume }] of before.entries()) {
      const grown = after[i]!.volume - volume;
      expect(grown, ticker).toBeGreaterThanOrEqual(within(ticker, 0));
      expect(grown, ticker).toBeLessThanOrEqual(within(ticker, 15_000));
    }
    for (const { ticker, at, yesPrice, contracts, takerSide } of prints.slice(0, 10)) {
      // One millisecond earlier, the book still shows the level that the print hit.
      const { books } = await readAt(new Date(+at - 1).toISOString());
      const book = books.get(ticker)!;
      const level = takerSide === 'no' ? book.yes[0]! : book.no[0]!;
      expect(takerSide === 'no' ? level.price : DOLLAR - level.price).toBe(yesPrice);
      expect(contracts).toBeLessThanOrEqual(level.contracts);
    }
  });

  it('are the same whenever they are read, in one read or many, and never from the future', async () => {
    const tickers = tickersOf(await ofNewYork('2026-07-04T20:00:00Z')).slice(0, 8);
    const readBetween = async (from: string, now: string) =>
      sourceAt(now).readPrints!(tickers, new Date(from), signal);
    const all = await readBetween('2026-07-04T20:00:00Z', '2026-07-04T20:30:00Z');
    const some = await readBetween('2026-07-04T20:00:00Z', '2026-07-04T20:10:07.123Z');
    const others = await readBetween('2026-07-04T20:10:07.124Z', '2026-07-04T20:30:00Z');
    expect([...some, ...others]).toEqual(all);
    expect(new Set(all.map(({ id }) => id)).size).toBe(all.length);
    expect(all.map(({ at }) => at)).toEqual(all.map(({ at }) => at).sort((a, b) => +a - +b));
    // One read covers at most an hour; prints of a past day are still available.
    const late = await readBetween('2026-07-04T20:00:00Z', '2026-07-06T20:00:00Z');
    expect(late.slice(0, all.length)).toEqual(all);
    expect(+late.at(-1)!.at).toBeLessThanOrEqual(Date.parse('2026-07-04T21:00:00Z'));
  });

  it('exclude markets that are unknown, not open or not requested', async () => {
    const prints = await sourceAt('2026-07-04T20:00:00Z').readPrints!(
      ['KXHIGHNY-26JUL09-T80', 'KXHIGHNY-26JUL04-T1', 'nonsense', '', 'KXRAIN-26JUL04-NYC'],
      new Date('2026-07-04T19:30:00Z'),
      signal,
    );
    expect(prints).toEqual([]);
  });
});

/** Returns the market in the venue's format, with only the fields that describe its subject. */
function asWire(market: ListedMarket): KalshiMarket {
  const { bracket } = market;
  return {
    ticker: market.ticker,
    event_ticker: market.eventTicker,
    rules_primary: market.settlement.rulesText,
    rules_secondary:
      market.kind === 'hourly' ? 'calculated in accordance with the Kalshi Weather Index Methodology' : '',
    close_time: market.closeTime.toISOString(),
    ...(bracket && {
      strike_type: bracket.kind,
      floor_strike: bracket.floor,
      cap_strike: bracket.cap,
      yes_sub_title: bracketLabel(bracket),
    }),
  } as KalshiMarket;
}
