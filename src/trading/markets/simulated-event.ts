import { probabilityOf } from '../forecast/distribution.js';
import { CENT, DOLLAR, type Micros } from '../money.js';
import { bracketPays, type Bracket } from '../settlement/brackets.js';
import type { ClimateDay } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import { believe } from '../simulation/crowd.js';
import { nextGaussian, uniform, uniformsOf } from '../simulation/random.js';
import type { SimulatedWorld } from '../simulation/world.js';
import { asksOf, toLevels, type Level, type OrderBook } from './book.js';
import { writeEventTicker } from './event-ticker.js';
import type { Market, MarketStatus } from './market.js';

const HOUR_MS = 60 * 60 * 1000;
/** Markets open a day ahead, so that there are always two days to trade. */
const OPENS_BEFORE_MS = 24 * HOUR_MS;
/** The report comes in the morning; an hour later the markets follow it, and another hour later that stands. */
const REPORTED_AFTER_MS = 7 * HOUR_MS;
const DETERMINED_AFTER_MS = 8 * HOUR_MS;
const FINAL_AFTER_MS = 9 * HOUR_MS;
/** Books change this often. */
const BOOK_MS = 15_000;
const LEVELS = 5;

const linearCents = [{ start: 0n, end: DOLLAR, step: CENT }];

/** A day at a station, as it stands at a time. */
export interface EventScene extends Pick<SimulatedWorld, 'seed' | 'weather'> {
  station: Station;
  day: ClimateDay;
  at: Date;
}

/** The markets of an event, from cold to warm; their books are added to `books`. */
export function listMarkets(scene: EventScene, books: Map<string, OrderBook>): Market[] {
  const { seed, weather, station, day, at } = scene;
  const status = statusAt(day, at);
  const belief = believe(seed, weather, station, day.date, at);
  const report = weather.report(station, day.date);
  const isKnown = status === 'determined' || status === 'finalized';
  const isReported = at.getTime() - day.end.getTime() >= REPORTED_AFTER_MS;
  const eventTicker = writeEventTicker(station.series.maximum, day.date);
  return makeLadder(scene).map((bracket) => {
    const ticker = `${eventTicker}-${bracketSuffix(bracket)}`;
    const book =
      status === 'active' ? makeBook(scene, ticker, probabilityOf(belief, bracket)) : { yes: [], no: [] };
    books.set(ticker, book);
    const volume = volumeOf(scene, ticker);
    return {
      ticker,
      eventTicker,
      seriesTicker: station.series.maximum,
      kind: 'daily_maximum',
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
      openTime: openTimeOf(day),
      closeTime: day.end,
      priceRanges: linearCents,
      settlement: { source: null, rulesText: rulesOf(station, day.date, bracket) },
      settlementValue: isKnown ? (bracketPays(bracket, report) ? DOLLAR : 0n) : null,
      settledTemperature: isReported ? report : null,
    };
  });
}

/** As the venue words them, but for who decides. */
function rulesOf({ rulesCity, report }: Station, date: string, bracket: Bracket): string {
  const day = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' }).format(
    new Date(date),
  );
  return `If the maximum temperature recorded at ${rulesCity} (${report}) for ${day}, is ${wordsOf(bracket)}° fahrenheit according to the invented world, then the market resolves to Yes.`;
}

function wordsOf({ kind, floor, cap }: Bracket): string {
  if (kind === 'between') return `between ${floor}-${cap}`;
  return kind === 'less' ? `less than ${cap}` : `greater than ${floor}`;
}

const openTimeOf = ({ start }: ClimateDay): Date => new Date(start.getTime() - OPENS_BEFORE_MS);

/** When what a day's markets pay stands. */
export const finalTimeOf = ({ end }: ClimateDay): Date => new Date(end.getTime() + FINAL_AFTER_MS);

function statusAt({ end }: ClimateDay, at: Date): MarketStatus {
  const since = at.getTime() - end.getTime();
  if (since < 0) return 'active';
  if (since < DETERMINED_AFTER_MS) return 'closed';
  return since < FINAL_AFTER_MS ? 'determined' : 'finalized';
}

/** Six brackets around what was expected when the markets opened. */
function makeLadder({ seed, weather, station, day }: EventScene): Bracket[] {
  const lowest = Math.floor(believe(seed, weather, station, day.date, openTimeOf(day)).mean) - 3;
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
function makeBook({ seed, at }: EventScene, ticker: string, probability: number): OrderBook {
  const next = uniformsOf(seed, ticker, Math.floor(at.getTime() / BOOK_MS));
  const mid = probability * 100 + 0.5 * nextGaussian(next);
  const half = 0.6 + 1.2 * next();
  const side = (best: number): Level[] =>
    toLevels(
      Array.from({ length: LEVELS }, (_, i) => ({
        price: BigInt(best - i) * CENT,
        contracts: Math.ceil((20 + 30 * i) * (0.3 + 1.4 * next())),
      })),
    );
  return { yes: side(Math.floor(mid - half)), no: side(Math.floor(100 - mid - half)) };
}

const toCents = (probability: number): Micros =>
  BigInt(Math.max(1, Math.min(99, Math.round(probability * 100)))) * CENT;

/** Grows from the opening to the close. */
function volumeOf({ seed, day, at }: EventScene, ticker: string): number {
  const opened = openTimeOf(day).getTime();
  const share = Math.max(0, Math.min(1, (at.getTime() - opened) / (day.end.getTime() - opened)));
  return Math.floor((500 + 9_000 * uniform(seed, ticker, 'volume') ** 2) * share ** 1.5);
}
