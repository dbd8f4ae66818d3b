import { DOLLAR } from '../market/money.js';
import { addDays } from '../market/calendar.js';
import { climateDayOf } from '../market/climate-day.js';
import type { Station } from '../market/stations.js';
import { uniform } from './simulation/random.js';
import { dailySubject, leadingStations } from './simulation/world.js';
import { emptyBook, type OrderBook } from '../market/book.js';
import { readEventTicker, writeEventTicker } from '../market/event-ticker.js';
import type { UnplacedMarket } from '../market/market.js';
import { linearCents, makeBook, pricesOf, volumeOf } from './simulated-book.js';
import { sceneOf, type ListedEvent, type Seeded } from './simulated-event.js';
import { rainRulesOf, rainTitleOf } from './simulated-wording.js';

export const RAIN_SERIES = 'KXRAIN';
/** Of the days on which it rains. */
const RAINY = 0.3;

/** Rain on the days around a time: it settles by the venue's word alone, as nothing here forecasts it. */
export function listRain(world: Seeded, at: Date): ListedEvent {
  const today = at.toISOString().slice(0, 10);
  return joined([-1, 0, 1].map((days) => listRainOf(world, addDays(today, days), at)));
}

/** The rain event with this ticker; empty for any other. */
export function findRain(world: Seeded, eventTicker: string, at: Date): ListedEvent {
  const { seriesTicker, date } = readEventTicker(eventTicker) ?? {};
  return seriesTicker === RAIN_SERIES ? listRainOf(world, date!, at) : joined([]);
}

const listRainOf = (world: Seeded, date: string, at: Date): ListedEvent =>
  joined(leadingStations.map((station) => listCity(world, station, date, at)));

function listCity(world: Seeded, station: Station, date: string, at: Date): ListedEvent {
  const { seed } = world;
  const day = climateDayOf(station, date);
  const eventTicker = writeEventTicker(RAIN_SERIES, date);
  // Opened, closed and settled as the temperatures of the day are.
  const { phase, changedAt, times } = sceneOf(world, dailySubject('daily_maximum', { station, day }), at);
  if (phase === 'unopened') return joined([]);
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
    problem: 'rain is not forecast here',
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

/** What those who look out of the window expect: as often as it rains, and surer as the day goes on. */
function expect(rains: boolean, at: Date, start: Date): number {
  const share = Math.max(0, Math.min(1, (at.getTime() - start.getTime()) / (24 * 60 * 60 * 1000)));
  return RAINY + (Number(rains) - RAINY) * share * 0.97;
}

const joined = (events: readonly ListedEvent[]): ListedEvent => ({
  markets: events.flatMap(({ markets }) => markets),
  books: events.flatMap(({ books }) => books),
});
