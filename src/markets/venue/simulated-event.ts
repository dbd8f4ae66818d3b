import { createRecall } from '../../core/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { asksOf, emptyBook, toLevels, type Level, type OrderBook } from '../market/book.js';
import { bracketOf, bracketPays, type Bracket } from '../market/brackets.js';
import { writeEventTicker } from '../market/event.js';
import type { ListedMarket, Market, MarketStatus, TemperatureKind } from '../market/market.js';
import { CENT, DOLLAR, type Micros } from '../market/money.js';
import type { Print } from '../market/source.js';
import { dailySeriesOf, indexAreas, isStation, type Station } from '../market/stations.js';
import { believe } from './simulation/crowd.js';
import { nextGaussian, uniform, uniformsOf } from './simulation/random.js';
import { HOUR_OPENS_BEFORE_MS, type SimulatedSubject } from './simulation/world.js';
import type { SimulatedWorld } from './simulation/weather.js';

const BOOK_MS = 15_000;

/** Differs between events. Nothing about the event changes in between. */
function bookTimeOf(seed: string, eventTicker: string, at: Date): Date {
  const offsetMs = Math.floor(uniform(seed, eventTicker, 'rhythm') * BOOK_MS);
  return new Date(Math.floor((at.getTime() - offsetMs) / BOOK_MS) * BOOK_MS + offsetMs);
}

/** Contracts per level, best price first. Costs are quoted for ten contracts, so the best ask has about that many. */
const askContracts = [12, 3, 1, 1, 1];
const bidContracts = [3, 1, 1, 1, 1];

/** Creates a book around the crowd's belief; levels farther from it are smaller and have worse prices. */
export function makeBook(seed: string, ticker: string, probability: number, changedAt: Date): OrderBook {
  const next = uniformsOf(seed, ticker, changedAt.getTime());
  const mid = probability * 100 + 0.5 * nextGaussian(next);
  const half = 0.3 + 0.6 * next();
  const side = (best: number, contracts: readonly number[]): Level[] =>
    toLevels(
      contracts.map((usual, i) => ({
        price: BigInt(best - i) * CENT,
        contracts: Math.ceil(usual * (0.7 + 0.6 * next())),
      })),
    );
  return {
    yes: side(Math.floor(mid - half), bidContracts),
    no: side(Math.floor(100 - mid - half), askContracts),
  };
}

type Prices = Pick<
  Market,
  'yesBid' | 'yesAsk' | 'noBid' | 'noAsk' | 'lastPrice' | 'volume' | 'volume24h' | 'openInterest'
>;

export const pricesOf = (book: OrderBook, probability: number, volume: number): Prices => ({
  yesBid: book.yes[0]?.price ?? null,
  yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
  noBid: book.no[0]?.price ?? null,
  noAsk: asksOf(book, 'no')[0]?.price ?? null,
  lastPrice: volume === 0 ? null : toCents(probability),
  volume,
  volume24h: volume,
  openInterest: Math.floor(volume * 0.6),
});

const toCents = (probability: number): Micros =>
  BigInt(Math.max(1, Math.min(99, Math.round(probability * 100)))) * CENT;

export function volumeOf(
  seed: string,
  ticker: string,
  { openTime, closeTime }: Pick<Market, 'openTime' | 'closeTime'>,
  at: Date,
): number {
  const open = closeTime.getTime() - openTime.getTime();
  const share = Math.max(0, Math.min(1, (at.getTime() - openTime.getTime()) / open));
  return Math.floor((500 + 9_000 * uniform(seed, ticker, 'volume') ** 2) * share ** 1.5);
}

export const linearCents = [{ start: 0n, end: DOLLAR, step: CENT }];

const dayFormat = new Intl.DateTimeFormat('en-US', { timeZone: 'UTC', dateStyle: 'medium' });
const recallZoneFormat = createRecall<Intl.DateTimeFormat>(100);

function rulesOf(subject: SimulatedSubject, bracket: Bracket): string {
  const { kind, station, date } = subject;
  const day = dayFormat.format(new Date(date));
  if (!isStation(station))
    return `If the temperature recorded at ${areaNames[station.id] ?? station.city} for ${day} at ${clockOf(subject)} as reported by Synoptic Data, is above ${bracket.floor}°, then the market resolves to Yes.`;
  const measure = kind === 'daily_maximum' ? 'maximum' : 'minimum';
  return `If the ${measure} temperature recorded at ${station.rulesCity} (${station.report}) for ${day}, is ${wordsOf(bracket)}° fahrenheit according to The Weather Company, then the market resolves to Yes.`;
}

export const rainRulesOf = ({ rulesCity, report }: Station, date: string): string =>
  `If the total precipitation at ${report} in ${rulesCity} in ${dayFormat.format(new Date(date))} is strictly greater than 0 inches, then the market resolves to Yes.`;

export const rainTitleOf = ({ rulesCity }: Station, date: string): string =>
  `Will it rain in ${rulesCity} on ${dayFormat.format(new Date(date))}?`;

const areaNames: Readonly<Record<string, string>> = {
  'INDEX-MIAMI': 'Miami, FL',
  'INDEX-NYC': 'New York City, NY',
  'INDEX-CHICAGO': 'Chicago, IL',
  'INDEX-LA-COASTAL': 'Los Angeles, CA',
};

function clockOf({ station: { timeZone }, hour, span }: SimulatedSubject): string {
  const format = recallZoneFormat(
    timeZone,
    () => new Intl.DateTimeFormat('en-US', { timeZone, timeZoneName: 'short' }),
  );
  const zone = format.formatToParts(span.end).find(({ type }) => type === 'timeZoneName')!.value;
  return `${hour! % 12 || 12} ${hour! < 12 ? 'AM' : 'PM'} ${zone}`;
}

function wordsOf({ kind, floor, cap }: Bracket): string {
  if (kind === 'between') return `between ${floor}-${cap}`;
  return kind === 'less' ? `less than ${cap}` : `greater than ${floor}`;
}

/** Daily markets open on the previous day at 14:00 UTC. */
const DAYS_OPEN_AT_MS = 14 * HOUR_MS;

/** Delays after the end of the subject's time span. */
const dailyTimings = { reportedMs: 7 * HOUR_MS, determinedMs: 8 * HOUR_MS, finalMs: 9 * HOUR_MS };
type Timings = typeof dailyTimings;
const hourlyTimings: Timings = {
  reportedMs: 5 * MINUTE_MS,
  determinedMs: 10 * MINUTE_MS,
  finalMs: 40 * MINUTE_MS,
};
const timingsOf = (kind: TemperatureKind): Timings => (kind === 'hourly' ? hourlyTimings : dailyTimings);

const THRESHOLDS = 10;

export type WorldSeed = Pick<SimulatedWorld, 'seed' | 'weather' | 'noticedAt' | 'forecast'>;

export interface ListedEvent {
  markets: readonly ListedMarket[];
  books: readonly OrderBook[];
}

export type EventState = ReturnType<typeof eventStateOf>;

type Phase =
  | 'unopened'
  | 'reported'
  | Extract<MarketStatus, 'active' | 'closed' | 'determined' | 'finalized'>;

export function eventStateOf({ seed }: WorldSeed, subject: SimulatedSubject, at: Date) {
  const eventTicker = writeEventTicker(seriesOf(subject), subject.date, subject.hour);
  const times = timesOf(subject);
  const { openTime, closeTime } = times;
  const phase = phaseOf(timingsOf(subject.kind), openTime, closeTime, at);
  const changedMs = phase === 'active' ? bookTimeOf(seed, eventTicker, at).getTime() : closeTime.getTime();
  return {
    subject,
    eventTicker,
    phase,
    times,
    changedAt: new Date(Math.max(openTime.getTime(), changedMs)),
  };
}

/** Lists the event's markets from cold to warm; empty before the event opens. */
export function listEvent(world: WorldSeed, state: EventState): ListedEvent {
  const { seed, weather } = world;
  const { subject, eventTicker, phase, times, changedAt } = state;
  if (phase === 'unopened') return { markets: [], books: [] };
  const { kind, station, date, hour } = subject;
  const value = weather.value(subject);
  const isPaying = phase === 'determined' || phase === 'finalized';
  const isKnown = isPaying || phase === 'reported';
  const belief = isPaying ? undefined : believe(world, subject, changedAt);
  const books: OrderBook[] = [];
  const markets = makeLadder(world, subject).map((bracket): Market => {
    const ticker = `${eventTicker}-${bracketSuffix(bracket)}`;
    const pays = bracketPays(bracket, value);
    const probability = belief?.probabilityOf(bracket) ?? Number(pays);
    const book = phase === 'active' ? makeBook(seed, ticker, probability, changedAt) : emptyBook;
    books.push(book);
    return {
      ticker,
      eventTicker,
      seriesTicker: seriesOf(subject),
      kind,
      station,
      date,
      ...(hour === undefined ? {} : { hour }),
      bracket,
      status: phase === 'reported' ? 'closed' : phase,
      ...pricesOf(book, probability, volumeOf(seed, ticker, times, changedAt)),
      ...times,
      priceRanges: linearCents,
      settlement: {
        source: kind === 'hourly' ? 'Kalshi Weather Index' : 'The Weather Company',
        rulesText: rulesOf(subject, bracket),
      },
      settlementValue: isPaying ? (pays ? DOLLAR : 0n) : null,
      settledTemperature: isKnown ? value : null,
    };
  });
  return { markets, books };
}

/** At most one print a market: its growth in volume, at the best bid or ask since the last change of its book. */
export function printsOf({ seed }: WorldSeed, state: EventState, { markets, books }: ListedEvent): Print[] {
  const { phase, times, changedAt } = state;
  if (phase !== 'active') return [];
  const untilMs = Math.min(nextBookTime(seed, state), times.closeTime.getTime());
  return markets.flatMap(({ ticker, volume }, i) => {
    const contracts = volumeOf(seed, ticker, times, new Date(untilMs)) - volume;
    if (contracts === 0) return [];
    const next = uniformsOf(seed, ticker, changedAt.getTime(), 'print');
    const [ask, bid] = [asksOf(books[i]!, 'yes')[0], books[i]!.yes[0]];
    const takerSide = ask && (!bid || next() < 0.5) ? 'yes' : 'no';
    const level = takerSide === 'yes' ? ask : bid;
    if (!level) return [];
    const at = new Date(changedAt.getTime() + Math.ceil(next() * (untilMs - changedAt.getTime())));
    const id = `${ticker}-${changedAt.getTime()}`;
    return [{ id, ticker, at, yesPrice: level.price, contracts, takerSide }];
  });
}

const nextBookTime = (seed: string, { eventTicker, changedAt }: EventState): number =>
  bookTimeOf(seed, eventTicker, changedAt).getTime() + BOOK_MS;

export function* statesWithin(world: WorldSeed, subject: SimulatedSubject, from: Date, until: Date) {
  for (let at = from; at <= until;) {
    const state = eventStateOf(world, subject, at);
    yield state;
    at = new Date(nextBookTime(world.seed, { ...state, changedAt: at }));
  }
}

const seriesOf = ({ kind, station }: SimulatedSubject): string =>
  isStation(station) ? dailySeriesOf(station, kind) : indexAreas.find(({ id }) => id === station.id)!.series;

function timesOf({ kind, date, span }: SimulatedSubject): Pick<Market, 'openTime' | 'closeTime'> {
  const openMs =
    kind === 'hourly'
      ? span.end.getTime() - HOUR_OPENS_BEFORE_MS
      : Date.parse(date) - DAY_MS + DAYS_OPEN_AT_MS;
  return { openTime: new Date(openMs), closeTime: span.end };
}

export const finalTimeOf = ({ end }: { end: Date }, kind: TemperatureKind = 'daily_maximum'): Date =>
  new Date(end.getTime() + timingsOf(kind).finalMs);

function phaseOf({ reportedMs, determinedMs, finalMs }: Timings, open: Date, close: Date, at: Date): Phase {
  if (at < open) return 'unopened';
  const since = at.getTime() - close.getTime();
  if (since < 0) return 'active';
  if (since < determinedMs) return since < reportedMs ? 'closed' : 'reported';
  return since < finalMs ? 'determined' : 'finalized';
}

/** A day has six brackets and an hour ten thresholds, around the value expected at opening, whatever Gauge learned. */
function makeLadder({ seed, weather, noticedAt }: WorldSeed, subject: SimulatedSubject): Bracket[] {
  const world = { seed, weather, ...(noticedAt && { noticedAt }) };
  const expected = Math.floor(believe(world, subject, timesOf(subject).openTime).meanF);
  if (subject.kind === 'hourly')
    return Array.from({ length: THRESHOLDS }, (_, i) =>
      bracketOf(Math.round((expected - 4 + i) * 100 - 1) / 100, null, 0.01),
    );
  const lowest = expected - 3;
  return [
    bracketOf(null, lowest),
    ...[0, 2, 4, 6].map((step) => bracketOf(lowest + step, lowest + step + 1)),
    bracketOf(lowest + 7, null),
  ];
}

function bracketSuffix(bracket: Bracket): string {
  if (bracket.kind === 'between') return `B${(bracket.floor + bracket.cap) / 2}`;
  return `T${bracket.kind === 'less' ? bracket.cap : bracket.floor}`;
}
