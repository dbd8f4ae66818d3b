import { DOLLAR } from '../market/money.js';
import { daysBetween } from '../market/calendar.js';
import { climateDayOf } from '../market/climate-day.js';
import { findSeries, indexAreas, stations } from '../market/stations.js';
import { createPace } from './simulation/pace.js';
import { createRecall } from './simulation/recall.js';
import {
  dailySubject,
  everything,
  hourSubject,
  subjectsAround,
  subjectsOf,
  subjectsOn,
  targetOfSubject,
  type Selection,
  type SimulatedWorld,
  type StationDay,
  type Subject,
} from './simulation/world.js';
import type { FeeRule } from '../market/fees.js';
import type { OrderBook } from '../market/book.js';
import { readEventTicker } from '../market/event-ticker.js';
import type { ListedMarket } from '../market/market.js';
import {
  finalTimeOf,
  listEvent,
  sceneOf,
  seriesOf,
  type ListedEvent,
  type Seeded,
} from './simulated-event.js';
import { findRain, listRain, RAIN_SERIES } from './simulated-rain.js';
import type { MarketData, MarketHistory, MarketSource, SettledDay } from '../market/source.js';

const fee: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const areaOfSeries = new Map(indexAreas.map((area) => [seriesOf({ kind: 'hourly', station: area }), area]));
const feeRules = new Map(
  [
    ...stations.flatMap(({ series }) => [series.maximum, series.minimum]),
    ...areaOfSeries.keys(),
    RAIN_SERIES,
  ].map((series) => [series, fee]),
);
/** More than there are events at a time. */
const MAX_KEPT = 500;

/** Markets of an invented world that follow from its seed and the clock: the same for everybody, at any time, offline. */
export function createSimulatedSource(
  world: SimulatedWorld,
  selection: Selection = everything,
): MarketSource & { history: MarketHistory } {
  const now = () => new Date(world.clock.now());
  // An event stays as it is until its books change: most of them are as they were.
  const recall = createRecall<ListedEvent>(MAX_KEPT);

  function listKnown(subject: Subject, at: Date): ListedEvent {
    const scene = sceneOf(world, subject, at);
    const { eventTicker, phase, changedAt } = scene;
    return recall(`${eventTicker} ${phase} ${changedAt.getTime()}`, () => listEvent(world, scene));
  }

  return {
    name: 'simulated',
    async read() {
      const at = now();
      const pace = createPace();
      const events: ListedEvent[] = [];
      for (const subject of subjectsAround(at, selection)) {
        events.push(listKnown(subject, at));
        await pace();
      }
      return toData([...events, listRain(world, at)], at);
    },
    async find(tickers) {
      const at = now();
      const wanted = new Set(tickers);
      const events = new Set(tickers.map(eventOf));
      return [...events]
        .flatMap((eventTicker) => findEvent(world, eventTicker, at).markets)
        .filter(({ ticker }) => wanted.has(ticker));
    },
    history: {
      async readSettledDays({ from, to }, signal) {
        const pace = createPace();
        const days: SettledDay[] = [];
        for (const date of daysBetween(from, to)) {
          signal.throwIfAborted();
          days.push(...settledOn(world, subjectsOn(date, selection), now()));
          await pace();
        }
        return days;
      },
    },
  };
}

/** The markets of some days, maxima and minima, as they stood at any time. */
export const readMarkets = (world: Seeded, days: readonly StationDay[], at: Date): MarketData =>
  readMarketsOf(world, subjectsOf(days), at);

/** The same of any subjects. */
export const readMarketsOf = (world: Seeded, subjects: readonly Subject[], at: Date): MarketData =>
  toData(
    subjects.map((subject) => listEvent(world, sceneOf(world, subject, at))),
    at,
  );

function toData(events: readonly ListedEvent[], at: Date): MarketData {
  const books = new Map<string, OrderBook>();
  for (const event of events)
    for (const [i, { ticker }] of event.markets.entries()) books.set(ticker, event.books[i]!);
  const markets: ListedMarket[] = events.flatMap((event) => event.markets);
  return { fetchedAt: at, isTrading: true, markets, books, feeRules };
}

const settledOn = ({ weather }: Seeded, subjects: readonly Subject[], at: Date): SettledDay[] =>
  subjects.flatMap((subject) => {
    const knownAt = finalTimeOf(subject.span, subject.kind);
    if (knownAt > at) return [];
    return [{ ...targetOfSubject(subject), temperatureF: weather.value(subject), knownAt }];
  });

/** The event of a market: what is before the last part of its ticker. */
const eventOf = (ticker: string): string => ticker.slice(0, ticker.search(/-(?:[TB]-?[\d.]+|[A-Z]{3})$/));

/** The event with this ticker, also one of long ago; empty for what is none and before it opens. */
function findEvent(world: Seeded, eventTicker: string, at: Date): ListedEvent {
  const subject = readSubject(eventTicker);
  return subject ? listEvent(world, sceneOf(world, subject, at)) : findRain(world, eventTicker, at);
}

function readSubject(eventTicker: string): Subject | undefined {
  const named = readEventTicker(eventTicker);
  if (!named) return undefined;
  const { seriesTicker, date, hour } = named;
  const area = areaOfSeries.get(seriesTicker);
  if (area) return hour === undefined ? undefined : hourSubject(area, date, hour);
  const found = findSeries(seriesTicker);
  if (!found || hour !== undefined) return undefined;
  const { kind, station } = found;
  // A series' former name is not one of this world.
  if (seriesOf({ kind, station }) !== seriesTicker) return undefined;
  return dailySubject(kind, { station, day: climateDayOf(station, date) });
}
