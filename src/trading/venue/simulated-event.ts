import { DOLLAR } from '../market/money.js';
import { bracketPays, type Bracket } from '../market/brackets.js';
import { isStation } from '../market/stations.js';
import { believe } from './simulation/crowd.js';
import { HOUR_OPENS_BEFORE_MS, type SimulatedWorld, type Subject } from './simulation/world.js';
import { emptyBook, type OrderBook } from '../market/book.js';
import { writeEventTicker } from '../market/event-ticker.js';
import type { ListedMarket, Market, MarketStatus, TemperatureKind } from '../market/market.js';
import { bookTimeOf, linearCents, makeBook, pricesOf, volumeOf } from './simulated-book.js';
import { rulesOf } from './simulated-wording.js';

const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Markets of a day open the day before at 14:00 UTC. */
const DAYS_OPEN_AT_MS = 14 * HOUR_MS;

/** From the end of what a market is about. */
interface Timings {
  /** The value is known. */
  reportedMs: number;
  /** The market says what it pays. */
  determinedMs: number;
  /** That stands. */
  finalMs: number;
}
const ofDays: Timings = { reportedMs: 7 * HOUR_MS, determinedMs: 8 * HOUR_MS, finalMs: 9 * HOUR_MS };
const ofHours: Timings = { reportedMs: 5 * MINUTE_MS, determinedMs: 10 * MINUTE_MS, finalMs: 40 * MINUTE_MS };
const timingsOf = (kind: TemperatureKind): Timings => (kind === 'hourly' ? ofHours : ofDays);

const areaSeries: Readonly<Record<string, string>> = {
  'INDEX-MIAMI': 'KXTEMPMIAH',
  'INDEX-NYC': 'KXTEMPNYCHS',
  'INDEX-CHICAGO': 'KXTEMPCHIHS',
  'INDEX-LA-COASTAL': 'KXTEMPLAXHS',
};
const THRESHOLDS = 10;

export type Seeded = Pick<SimulatedWorld, 'seed' | 'weather'>;

/** The markets of one event with their books, in the order of their brackets. */
export interface ListedEvent {
  markets: readonly ListedMarket[];
  books: readonly OrderBook[];
}

/** An event as it stands at a time. */
export interface EventScene {
  subject: Subject;
  eventTicker: string;
  phase: Phase;
  times: Pick<Market, 'openTime' | 'closeTime'>;
  /** Of the books and of everything else that moves. */
  changedAt: Date;
}

/** `reported`: closed, and the value is known. */
type Phase =
  'unopened' | 'reported' | Extract<MarketStatus, 'active' | 'closed' | 'determined' | 'finalized'>;

/** The scene of a subject at a time: scenes that are alike make the same event. */
export function sceneOf({ seed }: Seeded, subject: Subject, at: Date): EventScene {
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

/** From cold to warm; none before the event opens. */
export function listEvent({ seed, weather }: Seeded, scene: EventScene): ListedEvent {
  const { subject, eventTicker, phase, times, changedAt } = scene;
  if (phase === 'unopened') return { markets: [], books: [] };
  const { kind, station, date, hour } = subject;
  const value = weather.value(subject);
  const isPaying = phase === 'determined' || phase === 'finalized';
  const isKnown = isPaying || phase === 'reported';
  const belief = isPaying ? undefined : believe(seed, weather, subject, changedAt);
  const books: OrderBook[] = [];
  const markets = makeLadder({ seed, weather }, subject).map((bracket): Market => {
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

/** What the venue calls the series of a subject. */
export function seriesOf({ kind, station }: Pick<Subject, 'kind' | 'station'>): string {
  if (!isStation(station)) return areaSeries[station.id]!;
  return kind === 'daily_maximum' ? station.series.maximum : station.series.minimum;
}

function timesOf({ kind, date, span }: Subject): Pick<Market, 'openTime' | 'closeTime'> {
  const openMs =
    kind === 'hourly'
      ? span.end.getTime() - HOUR_OPENS_BEFORE_MS
      : Date.parse(date) - DAY_MS + DAYS_OPEN_AT_MS;
  return { openTime: new Date(openMs), closeTime: span.end };
}

/** When what the markets of a day or an hour pay stands. */
export const finalTimeOf = ({ end }: { end: Date }, kind: TemperatureKind = 'daily_maximum'): Date =>
  new Date(end.getTime() + timingsOf(kind).finalMs);

function phaseOf({ reportedMs, determinedMs, finalMs }: Timings, open: Date, close: Date, at: Date): Phase {
  if (at < open) return 'unopened';
  const since = at.getTime() - close.getTime();
  if (since < 0) return 'active';
  if (since < determinedMs) return since < reportedMs ? 'closed' : 'reported';
  return since < finalMs ? 'determined' : 'finalized';
}

/** Brackets around what was expected when the markets opened: six of a day, ten thresholds of an hour. */
function makeLadder({ seed, weather }: Seeded, subject: Subject): Bracket[] {
  const expected = Math.floor(believe(seed, weather, subject, timesOf(subject).openTime).meanF);
  if (subject.kind === 'hourly')
    return Array.from({ length: THRESHOLDS }, (_, i) => ({
      kind: 'greater',
      floor: Math.round((expected - 4 + i) * 100 - 1) / 100,
      cap: null,
      step: 0.01,
    }));
  const lowest = expected - 3;
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
