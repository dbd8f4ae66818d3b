import { createRecall } from '../../core/collections.js';
import { DAY_MS } from '../../core/time.js';
import { emptyBook, type OrderBook } from '../market/book.js';
import { addDays, climateDayOf, dateOf, daysBetween } from '../market/climate-day.js';
import { readEventTicker, writeEventTicker } from '../market/event.js';
import type { FeeRule } from '../market/fees.js';
import { targetOf, type ListedMarket, type UnplacedMarket } from '../market/market.js';
import { DOLLAR } from '../market/money.js';
import {
  PRINTS_SPAN_MS,
  type MarketData,
  type MarketHistory,
  type MarketSource,
  type Print,
  type SettledDay,
} from '../market/source.js';
import {
  dailySeriesOf,
  findAreaOfSeries,
  findSeries,
  indexAreas,
  stations,
  type Station,
} from '../market/stations.js';
import {
  finalTimeOf,
  linearCents,
  listEvent,
  makeBook,
  pricesOf,
  printsOf,
  rainRulesOf,
  rainTitleOf,
  eventStateOf,
  statesWithin,
  volumeOf,
  type EventState,
  type ListedEvent,
  type WorldSeed,
} from './simulated-event.js';
import { gather, uniform } from './simulation/random.js';
import {
  dailySubject,
  everything,
  hourSubject,
  leadingStations,
  subjectsAround,
  subjectsOn,
  type Selection,
  type SimulatedSubject,
} from './simulation/world.js';
import type { SimulatedWorld } from './simulation/weather.js';

const RAIN_SERIES = 'KXRAIN';
const RAINY = 0.3;

/** Lists rain markets of adjacent days. Gauge does not forecast rain, so they settle only on the venue's report. */
function listRain(world: WorldSeed, at: Date): ListedEvent {
  const today = dateOf(at.getTime());
  return joinEvents([-1, 0, 1].map((days) => listRainOf(world, addDays(today, days), at)));
}

function findRain(world: WorldSeed, eventTicker: string, at: Date): ListedEvent {
  const { seriesTicker, date } = readEventTicker(eventTicker) ?? {};
  return seriesTicker === RAIN_SERIES ? listRainOf(world, date!, at) : joinEvents([]);
}

const listRainOf = (world: WorldSeed, date: string, at: Date): ListedEvent =>
  joinEvents(leadingStations.map((station) => listCity(world, station, date, at)));

function listCity(world: WorldSeed, station: Station, date: string, at: Date): ListedEvent {
  const { seed } = world;
  const day = climateDayOf(station, date);
  const eventTicker = writeEventTicker(RAIN_SERIES, date);
  // Opens, closes and settles like the day's temperature markets.
  const { phase, changedAt, times } = eventStateOf(
    world,
    dailySubject('daily_maximum', { station, day }),
    at,
  );
  if (phase === 'unopened') return joinEvents([]);
  const isPaying = phase === 'determined' || phase === 'finalized';
  const ticker = `${eventTicker}-${station.report.slice(3)}`;
  const rains = uniform(seed, ticker, 'rain') < RAINY;
  const probability = isPaying ? Number(rains) : expect(rains, changedAt, day.start);
  const book: OrderBook = phase === 'active' ? makeBook(seed, ticker, probability, changedAt) : emptyBook;
  const market: UnplacedMarket = {
    ticker,
    eventTicker,
    seriesTicker: RAIN_SERIES,
    kind: 'rain',
    station: null,
    bracket: null,
    city: station.rulesCity,
    date,
    title: rainTitleOf(station, date),
    label: station.rulesCity,
    problem: 'Gauge does not forecast rain',
    status: phase === 'reported' ? 'closed' : phase,
    ...pricesOf(book, probability, volumeOf(seed, ticker, times, changedAt)),
    ...times,
    priceRanges: linearCents,
    settlement: { source: null, rulesText: rainRulesOf(station, date) },
    settlementValue: isPaying ? (rains ? DOLLAR : 0n) : null,
    settledTemperature: null,
  };
  return { markets: [market], books: [book] };
}

/** Returns the expected probability of rain: the base rate at first, more certain as the day progresses. */
function expect(rains: boolean, at: Date, start: Date): number {
  const share = Math.max(0, Math.min(1, (at.getTime() - start.getTime()) / DAY_MS));
  return RAINY + (Number(rains) - RAINY) * share * 0.97;
}

const joinEvents = (events: readonly ListedEvent[]): ListedEvent => ({
  markets: events.flatMap(({ markets }) => markets),
  books: events.flatMap(({ books }) => books),
});

const fee: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const feeRules = new Map(
  [
    ...stations.flatMap(({ series }) => [series.maximum, series.minimum]),
    ...indexAreas.map(({ series }) => series),
    RAIN_SERIES,
  ].map((series) => [series, fee]),
);
const MAX_KEPT = 500;

/** Lists markets of a simulated world. Seed and clock determine them, so they are the same in every process. */
export function createSimulatedSource(
  world: SimulatedWorld,
  selection: Selection = everything,
): MarketSource & { history: MarketHistory } {
  const now = () => new Date(world.clock.now());
  // An event does not change until its books change, so most calls hit this cache.
  const recall = createRecall<ListedEvent>(MAX_KEPT);

  function listKnown(state: EventState): ListedEvent {
    const { eventTicker, phase, changedAt } = state;
    return recall(`${eventTicker} ${phase} ${changedAt.getTime()}`, () => listEvent(world, state));
  }

  return {
    name: 'simulated',
    async read() {
      const at = now();
      const list = (subject: SimulatedSubject) => [listKnown(eventStateOf(world, subject, at))];
      return toData([...(await gather(subjectsAround(at, selection), list)), listRain(world, at)], at);
    },
    async find(tickers) {
      const at = now();
      const wanted = new Set(tickers);
      const events = new Set(tickers.map(eventOf));
      return [...events]
        .flatMap((eventTicker) => findEvent(world, eventTicker, at).markets)
        .filter(({ ticker }) => wanted.has(ticker));
    },
    /** Only temperature markets have prints, because rain is not traded. */
    async readPrints(tickers, since, signal) {
      const until = new Date(Math.min(world.clock.now(), since.getTime() + PRINTS_SPAN_MS));
      const wanted = new Set(tickers);
      const prints: Print[] = [];
      for (const subject of [...new Set(tickers.map(eventOf))].flatMap((name) => readSubject(name) ?? [])) {
        const states = statesWithin(world, subject, since, until);
        prints.push(...(await gather(states, (state) => printsOf(world, state, listKnown(state)), signal)));
      }
      return prints
        .filter(({ ticker, at }) => wanted.has(ticker) && at >= since && at <= until)
        .sort((a, b) => a.at.getTime() - b.at.getTime());
    },
    history: {
      readSettledDays: ({ from, to }, signal) =>
        gather(daysBetween(from, to), (date) => settledOn(world, subjectsOn(date, selection), now()), signal),
    },
  };
}

export const readMarketsOf = (world: WorldSeed, subjects: readonly SimulatedSubject[], at: Date) =>
  toData(
    subjects.map((subject) => listEvent(world, eventStateOf(world, subject, at))),
    at,
  );

function toData(events: readonly ListedEvent[], at: Date): MarketData {
  const books = new Map<string, OrderBook>();
  for (const event of events)
    for (const [i, { ticker }] of event.markets.entries()) books.set(ticker, event.books[i]!);
  const markets: ListedMarket[] = events.flatMap((event) => event.markets);
  return { fetchedAt: at, isTrading: true, markets, books, feeRules };
}

const settledOn = ({ weather }: WorldSeed, subjects: readonly SimulatedSubject[], at: Date): SettledDay[] =>
  subjects.flatMap((subject) => {
    const knownAt = finalTimeOf(subject.span, subject.kind);
    if (knownAt > at) return [];
    return [{ ...targetOf(subject), temperatureF: weather.value(subject), knownAt }];
  });

const eventOf = (ticker: string): string => ticker.slice(0, ticker.search(/-(?:[TB]-?[\d.]+|[A-Z]{3})$/));

/** Returns an event, including past events; empty for an unknown ticker and before the event opens. */
function findEvent(world: WorldSeed, eventTicker: string, at: Date): ListedEvent {
  const subject = readSubject(eventTicker);
  return subject ? listEvent(world, eventStateOf(world, subject, at)) : findRain(world, eventTicker, at);
}

function readSubject(eventTicker: string): SimulatedSubject | undefined {
  const named = readEventTicker(eventTicker);
  if (!named) return undefined;
  const { seriesTicker, date, hour } = named;
  const area = findAreaOfSeries(seriesTicker);
  if (area) return hour === undefined ? undefined : hourSubject(area, date, hour);
  const found = findSeries(seriesTicker);
  if (!found || hour !== undefined) return undefined;
  const { kind, station } = found;
  // The simulated world has no series under former names.
  if (dailySeriesOf(station, kind) !== seriesTicker) return undefined;
  return dailySubject(kind, { station, day: climateDayOf(station, date) });
}
