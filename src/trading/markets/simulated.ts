import type { Clock } from '../../clock.js';
import { probabilityOf } from '../forecast/distribution.js';
import { CENT, DOLLAR, type Micros } from '../money.js';
import { bracketPays, type Bracket } from '../settlement/brackets.js';
import { climateDayAt, climateDayOf, type ClimateDay } from '../settlement/climate-day.js';
import { findStationOfSeries, stations, type Station } from '../settlement/stations.js';
import type { FeeRule } from '../sizing/fees.js';
import { believe } from '../simulation/crowd.js';
import { gaussian, uniform } from '../simulation/random.js';
import type { SimulatedWeather } from '../simulation/weather.js';
import { asksOf, toLevels, type Level, type OrderBook } from './book.js';
import { readEventTicker, writeEventTicker } from './event-ticker.js';
import type { Market, MarketStatus } from './market.js';
import type { MarketSource } from './source.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** Markets open a day ahead, so that there are always two days to trade. */
const OPENS_BEFORE_MS = DAY_MS;
/** The report comes in the morning; an hour later the markets follow it, and another hour later that stands. */
const REPORTED_AFTER_MS = 7 * HOUR_MS;
const DETERMINED_AFTER_MS = 8 * HOUR_MS;
const FINAL_AFTER_MS = 9 * HOUR_MS;
/** Books change this often. */
const BOOK_MS = 15_000;
const LEVELS = 5;

const fee: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const linearCents = [{ start: 0n, end: DOLLAR, step: CENT }];

/** Markets of an invented world that follow from its seed and the clock: the same for everybody, at any time, offline. */
export function createSimulatedSource({
  clock,
  seed,
  weather,
}: {
  clock: Clock;
  seed: string;
  weather: SimulatedWeather;
}): MarketSource {
  return {
    name: 'simulated',
    read: async () => {
      const at = new Date(clock.now());
      const books = new Map<string, OrderBook>();
      const markets = stations.flatMap((station) =>
        daysToShow(station, at).flatMap((day) => listMarkets({ seed, weather, station, day, at }, books)),
      );
      return {
        fetchedAt: at,
        isTrading: true,
        markets,
        books,
        feeRules: new Map(stations.map(({ series }) => [series.ticker, fee])),
      };
    },
    find: async (tickers) => {
      const at = new Date(clock.now());
      const wanted = new Set(tickers);
      const events = new Set(tickers.map((ticker) => ticker.slice(0, ticker.search(/-[TB]-?[\d.]+$/))));
      return [...events]
        .flatMap((eventTicker) => listEvent({ seed, weather, at }, eventTicker))
        .filter(({ ticker, openTime }) => wanted.has(ticker) && openTime <= at);
    },
  };
}

/** The day that is settling or was settled last, the current one and the next one. */
function daysToShow(station: Station, at: Date): ClimateDay[] {
  return [-1, 0, 1].map((days) => climateDayAt(station, new Date(at.getTime() + days * DAY_MS)));
}

/** The markets of any day, also of one long ago; none for what is no event. */
function listEvent(world: Pick<Scene, 'seed' | 'weather' | 'at'>, eventTicker: string): Market[] {
  const { seriesTicker = '', date = '' } = readEventTicker(eventTicker) ?? {};
  const station = findStationOfSeries(seriesTicker);
  if (station?.series.ticker !== seriesTicker) return [];
  return listMarkets({ ...world, station, day: climateDayOf(station, date) }, new Map());
}

interface Scene {
  seed: string;
  weather: SimulatedWeather;
  station: Station;
  day: ClimateDay;
  at: Date;
}

function listMarkets(scene: Scene, books: Map<string, OrderBook>): Market[] {
  const { seed, weather, station, day, at } = scene;
  const status = statusAt(day, at);
  const belief = believe(seed, weather, station, day.date, at);
  const report = weather.report(station, day.date);
  const isKnown = status === 'determined' || status === 'finalized';
  const isReported = at.getTime() - day.end.getTime() >= REPORTED_AFTER_MS;
  const eventTicker = writeEventTicker(station.series.ticker, day.date);
  return makeLadder(scene).map((bracket) => {
    const ticker = `${eventTicker}-${bracketSuffix(bracket)}`;
    const book =
      status === 'active' ? makeBook(scene, ticker, probabilityOf(belief, bracket)) : { yes: [], no: [] };
    books.set(ticker, book);
    const volume = volumeOf(scene, ticker);
    return {
      ticker,
      eventTicker,
      seriesTicker: station.series.ticker,
      station,
      date: day.date,
      bracket,
      status,
      yesBid: book.yes[0]?.price ?? null,
      yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
      noBid: book.no[0]?.price ?? null,
      noAsk: asksOf(book, 'no')[0]?.price ?? null,
      lastPrice: volume === 0 ? null : toCents(probabilityOf(belief, bracket)),
      volume,
      volume24h: volume,
      openInterest: Math.floor(volume * 0.6),
      openTime: new Date(day.start.getTime() - OPENS_BEFORE_MS),
      closeTime: day.end,
      priceRanges: linearCents,
      settlementValue: isKnown ? (bracketPays(bracket, report) ? DOLLAR : 0n) : null,
      settledTemperature: isReported ? report : null,
    };
  });
}

function statusAt({ end }: ClimateDay, at: Date): MarketStatus {
  const since = at.getTime() - end.getTime();
  if (since < 0) return 'active';
  if (since < DETERMINED_AFTER_MS) return 'closed';
  return since < FINAL_AFTER_MS ? 'determined' : 'finalized';
}

/** Six brackets around what was expected when the markets opened. */
function makeLadder({ seed, weather, station, day }: Scene): Bracket[] {
  const opened = new Date(climateDayOf(station, day.date).start.getTime() - OPENS_BEFORE_MS);
  const lowest = Math.floor(believe(seed, weather, station, day.date, opened).mean) - 3;
  return [
    { kind: 'less', floor: null, cap: lowest },
    ...[0, 2, 4, 6].map((step): Bracket => ({
      kind: 'between',
      floor: lowest + step,
      cap: lowest + step + 1,
    })),
    { kind: 'greater', floor: lowest + 7, cap: null },
  ];
}

function bracketSuffix(bracket: Bracket): string {
  if (bracket.kind === 'between') return `B${(bracket.floor + bracket.cap) / 2}`;
  return `T${bracket.kind === 'less' ? bracket.cap : bracket.floor}`;
}

/** Bids below and asks above what the crowd believes, thinner and dearer the further away. */
function makeBook({ seed, at }: Scene, ticker: string, probability: number): OrderBook {
  const slot = Math.floor(at.getTime() / BOOK_MS);
  const mid = probability * 100 + 0.5 * gaussian(seed, ticker, 'mid', slot);
  const half = 0.6 + 1.2 * uniform(seed, ticker, 'spread', slot);
  const side = (best: number, name: string): Level[] =>
    toLevels(
      Array.from({ length: LEVELS }, (_, i) => ({
        price: BigInt(best - i) * CENT,
        contracts: Math.ceil((20 + 30 * i) * (0.3 + 1.4 * uniform(seed, ticker, name, i, slot))),
      })),
    );
  return { yes: side(Math.floor(mid - half), 'yes'), no: side(Math.floor(100 - mid - half), 'no') };
}

const toCents = (probability: number): Micros =>
  BigInt(Math.max(1, Math.min(99, Math.round(probability * 100)))) * CENT;

/** Grows from the opening to the close. */
function volumeOf({ seed, day, at }: Scene, ticker: string): number {
  const opened = day.start.getTime() - OPENS_BEFORE_MS;
  const share = Math.max(0, Math.min(1, (at.getTime() - opened) / (day.end.getTime() - opened)));
  return Math.floor((500 + 9_000 * uniform(seed, ticker, 'volume') ** 2) * share ** 1.5);
}
