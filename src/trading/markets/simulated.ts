import { DOLLAR } from '../money.js';
import { climateDayOf } from '../settlement/climate-day.js';
import { findSeries, stations } from '../settlement/stations.js';
import {
  stationDaysAround,
  stationDaysBetween,
  type SimulatedWorld,
  type StationDay,
} from '../simulation/world.js';
import type { FeeRule } from '../sizing/fees.js';
import type { OrderBook } from './book.js';
import { readEventTicker } from './event-ticker.js';
import type { Market } from './market.js';
import { finalTimeOf, listMarkets } from './simulated-event.js';
import type { MarketData, MarketHistory, MarketSource } from './source.js';

const fee: FeeRule = { type: 'quadratic', multiplier: DOLLAR };
const feeRules = new Map(stations.map(({ series }) => [series.maximum, fee]));

type Seeded = Pick<SimulatedWorld, 'seed' | 'weather'>;

/** Markets of an invented world that follow from its seed and the clock: the same for everybody, at any time, offline. */
export function createSimulatedSource(world: SimulatedWorld): MarketSource & { history: MarketHistory } {
  const now = () => new Date(world.clock.now());
  return {
    name: 'simulated',
    read: async () => {
      const at = now();
      return readMarkets(world, stationDaysAround(at), at);
    },
    find: async (tickers) => {
      const at = now();
      const wanted = new Set(tickers);
      const events = new Set(tickers.map((ticker) => ticker.slice(0, ticker.search(/-[TB]-?[\d.]+$/))));
      return [...events]
        .flatMap((eventTicker) => listEvent(world, eventTicker, at))
        .filter(({ ticker, openTime }) => wanted.has(ticker) && openTime <= at);
    },
    history: {
      readSettledDays: async (range) =>
        stationDaysBetween(range).flatMap(({ station, day }) => {
          const knownAt = finalTimeOf(day);
          const temperatureF = world.weather.report(station, day.date);
          return knownAt <= now()
            ? [
                {
                  kind: 'daily_maximum' as const,
                  stationId: station.id,
                  date: day.date,
                  temperatureF,
                  knownAt,
                },
              ]
            : [];
        }),
    },
  };
}

/** The markets of some days as they stood at any time. */
export function readMarkets({ seed, weather }: Seeded, days: readonly StationDay[], at: Date): MarketData {
  const books = new Map<string, OrderBook>();
  const markets = days.flatMap((day) => listMarkets({ ...day, seed, weather, at }, books));
  return { fetchedAt: at, isTrading: true, markets, books, feeRules };
}

/** The markets of any day, also of one long ago; none for what is no event. */
function listEvent({ seed, weather }: Seeded, eventTicker: string, at: Date): Market[] {
  const { seriesTicker = '', date = '' } = readEventTicker(eventTicker) ?? {};
  const station = findSeries(seriesTicker)?.station;
  if (station?.series.maximum !== seriesTicker) return [];
  return listMarkets({ seed, weather, station, day: climateDayOf(station, date), at }, new Map());
}
