import { v7 as newId } from 'uuid';
import { train } from '../../trading/archive/training.js';
import { noFits, type FitBook, calibratedModel } from '../../trading/forecast/fits.js';
import { type DayEnsemble, meanAndVariance } from '../../trading/forecast/forecast.js';
import { asksOf, emptyBook, isCrossed } from '../../trading/market/book.js';
import { groupEvents, type MarketEvent, finalOutcomes } from '../../trading/market/event.js';
import { spanOf, targetOf, type Market, type Target } from '../../trading/market/market.js';
import { DOLLAR } from '../../trading/market/money.js';
import type { MarketData, SettledDay } from '../../trading/market/source.js';
import { findPlace } from '../../trading/market/stations.js';
import { noGates } from '../../trading/signals/gate.js';
import type { Feed, PointInTime } from './feed.js';
import { bookOfTrades, type RecordedEvents, type RecordedTrade } from './records.js';
import type { KnownRun } from '../../trading/forecast/queries.js';
import { KnownHistory } from '../../trading/archive/archive.js';

const HOUR_MS = 60 * 60 * 1000;
/** Of the venue: its result is final in the morning after the day. */
const FINAL_AFTER_MS = 9 * HOUR_MS;
/** What was traded this recently is taken to stand still. */
const BOOK_MS = 10 * 60 * 1000;

export interface RecordOptions {
  events: RecordedEvents['events'];
  trades: ReadonlyMap<string, readonly RecordedTrade[]>;
  /** Undefined: the last reported maxima stand in, see `analogsOf`. */
  runs: readonly DayEnsemble[] | undefined;
  everyMs: number;
}

/**
 * Recorded days: books are what trades of the last ten minutes prove, fees the venue's for these series,
 * and forecasts are corrected by what was known at the time. Nothing was scored, so every gate is closed.
 */
export function recordsFeed(options: RecordOptions): Feed {
  const points = [...listPoints(options)];
  const name = options.runs
    ? 'recorded events, given forecasts'
    : 'recorded events, the last maxima as forecast';
  return { name, count: points.length, points: () => points };
}

function* listPoints({ events, trades, runs, everyMs }: RecordOptions): Generator<PointInTime> {
  const settled = groupEvents([...events.values()].flat());
  const reports = reportsOf(settled);
  const traded = settled.filter(({ markets }) => markets.some(({ ticker }) => trades.has(ticker)));
  const all = runs ?? settled.flatMap((event) => analogsOf(reports, targetOf(event)));
  const learner = createLearner(all, reports);
  const times = new Map<number, MarketEvent[]>();
  for (const event of traded) {
    for (const ms of decisionTimes(event, trades, everyMs)) times.set(ms, [...(times.get(ms) ?? []), event]);
    const finalMs = endOf(event) + FINAL_AFTER_MS;
    times.set(finalMs, times.get(finalMs) ?? []);
  }
  let fitted = { day: '', fits: learner.fitsAt(new Date(0)) };
  for (const ms of [...times.keys()].sort((a, b) => a - b)) {
    const at = new Date(ms);
    const day = at.toISOString().slice(0, 10);
    if (day !== fitted.day) fitted = { day, fits: learner.fitsAt(at) };
    const due = times.get(ms)!;
    const data = dataAt(traded, trades, at);
    const present = groupEvents(data.markets);
    const dueNow = present.filter((event) =>
      due.some(({ eventTicker }) => eventTicker === event.eventTicker),
    );
    const known = all.filter(({ fetchedAt, modelRunAt }) => fetchedAt <= at && modelRunAt <= at);
    const weather = { fetchedAt: at, ensembles: known, observed: [] };
    const { fits } = fitted;
    const forecasts = calibratedModel({ source: 'records', weather, events: dueNow, fits, at });
    yield { at, data, events: present, due: dueNow, forecasts, gates: noGates };
  }
}

const endOf = (event: MarketEvent): number => spanOf(event.station, event).end.getTime();

/** As they would have become known. */
const reportsOf = (events: readonly MarketEvent[]): SettledDay[] =>
  events.flatMap((event) => {
    const knownAt = new Date(endOf(event) + FINAL_AFTER_MS);
    return finalOutcomes([event]).map((outcome) => ({ ...outcome, knownAt }));
  });

/** From the first trade to the end of the day. */
function decisionTimes(event: MarketEvent, trades: RecordOptions['trades'], everyMs: number): number[] {
  const first = Math.min(...event.markets.map(({ ticker }) => trades.get(ticker)?.[0]?.atMs ?? Infinity));
  const times: number[] = [];
  for (let ms = Math.ceil(first / everyMs) * everyMs; ms < endOf(event); ms += everyMs) times.push(ms);
  return times;
}

/** The markets as they stood: open with what trades prove of their books until the day is over, then as they were settled. */
function dataAt(events: readonly MarketEvent[], trades: RecordOptions['trades'], at: Date): MarketData {
  const books: [string, MarketData['books'] extends ReadonlyMap<string, infer Book> ? Book : never][] = [];
  const markets = events.flatMap((event) => {
    const sinceEnd = at.getTime() - endOf(event);
    return event.markets.map((market): Market => {
      if (sinceEnd >= FINAL_AFTER_MS) return market;
      const isOpen = sinceEnd < 0 && at >= market.openTime;
      const book = isOpen
        ? bookOfTrades(trades.get(market.ticker) ?? [], at.getTime() - BOOK_MS, at.getTime())
        : emptyBook;
      books.push([market.ticker, isCrossed(book) ? emptyBook : book]);
      return {
        ...market,
        status: isOpen ? 'active' : 'closed',
        yesBid: book.yes[0]?.price ?? null,
        yesAsk: asksOf(book, 'yes')[0]?.price ?? null,
        noBid: book.no[0]?.price ?? null,
        noAsk: asksOf(book, 'no')[0]?.price ?? null,
        settlementValue: null,
        settledTemperature: null,
      };
    });
  });
  const series = new Set(markets.map(({ seriesTicker }) => seriesTicker));
  return {
    fetchedAt: at,
    isTrading: true,
    markets,
    books: new Map(books),
    feeRules: new Map([...series].map((ticker) => [ticker, { type: 'quadratic', multiplier: DOLLAR }])),
  };
}

/** As far back as the service reads, see the archive. */
const WINDOW_MS = 90 * 24 * 60 * 60 * 1000;

/** Trains on what was known at each time that is asked for, which only goes forward. */
export function createLearner(runs: readonly DayEnsemble[], reports: readonly SettledDay[]) {
  const known = runs
    .map(({ membersF, ...run }): KnownRun => ({ ...run, members: membersF.length, ...inDegrees(membersF) }))
    .sort((a, b) => a.fetchedAt.getTime() - b.fetchedAt.getTime());
  let book: FitBook = noFits;
  return {
    fitsAt(at: Date): FitBook {
      const since = new Date(at.getTime() - WINDOW_MS).toISOString().slice(0, 10);
      const recent = known.filter(({ date }) => date >= since);
      const history = KnownHistory.at(at, {
        runs: recent,
        reports: reports.filter(({ date }) => date >= since),
      });
      ({ book } = train(history, { previous: book, newId }));
      return book;
    },
  };
}

function inDegrees(membersF: readonly number[]): Pick<KnownRun, 'meanF' | 'varianceF'> {
  const { mean, variance } = meanAndVariance(membersF);
  return { meanF: mean, varianceF: variance };
}

const MEMBERS = 31;
const MIN_MEMBERS = 10;
/** Hours before the day's end (before the hour) at which it is made anew, from about the opening of its markets on. */
const LEADS = [48, 42, 36, 30, 24];

/**
 * The simplest forecast: the last 31 reports of the same kind (and hour), as members of an
 * ensemble. It stands in where no forecasts are given, so that recorded days can be gone through at all; it should
 * earn nothing.
 * @returns none where fewer than ten days were known
 */
export function analogsOf(reports: readonly SettledDay[], target: Target): DayEnsemble[] {
  const { end } = spanOf(findPlace(target.stationId)!, target);
  return LEADS.flatMap((lead) => {
    const at = new Date(end.getTime() - lead * HOUR_MS);
    const membersF = lastReports(reports, target, at);
    if (membersF.length < MIN_MEMBERS) return [];
    return [{ ...target, modelRunAt: at, fetchedAt: at, membersF }];
  });
}

const lastReports = (reports: readonly SettledDay[], { kind, stationId, hour }: Target, at: Date): number[] =>
  reports
    .filter(
      (report) =>
        report.stationId === stationId &&
        report.kind === kind &&
        report.hour === hour &&
        report.knownAt <= at,
    )
    .toSorted((a, b) => (a.date < b.date ? 1 : -1))
    .slice(0, MEMBERS)
    .map(({ temperatureF }) => temperatureF);
