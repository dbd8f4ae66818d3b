import { v7 as newId } from 'uuid';
import { groupBy } from '../../src/core/collections.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/time.js';
import { train } from '../../src/markets/training/training.js';
import { noFits, type FitBook } from '../../src/markets/learning/fits.js';
import {
  type DayEnsemble,
  hourlyTemperatures,
  meanAndVariance,
  type ObservedExtreme,
} from '../../src/markets/weather/weather.js';
import { asksOf, emptyBook, isCrossed, type OrderBook } from '../../src/markets/market/book.js';
import { groupEvents, type MarketEvent, finalOutcomes } from '../../src/markets/market/event.js';
import { spanOf, targetKey, targetOf, type Market, type Target } from '../../src/markets/market/market.js';
import type { MarketData, SettledDay } from '../../src/markets/market/source.js';
import { findPlace } from '../../src/markets/market/stations.js';
import { noGates } from '../../src/markets/signals/signal.js';
import type { Feed, PointInTime } from './feed.js';
import { markByTrades } from './look-back.js';
import {
  bookWithTraces,
  temperatureFees,
  type RecordedEvents,
  type RecordedObservation,
  type RecordedTrade,
} from './records.js';
import type { KnownRun } from '../../src/markets/learning/queries.js';
import { KnownHistory } from '../../src/markets/training/forecast-archive.js';
import { calibratedModel } from '../../src/markets/learning/calibrated.js';

/** The venue's result is final on the morning after the day. */
const FINAL_AFTER_MS = 9 * HOUR_MS;
/** Trades within this time are evidence of the book. */
const BOOK_MS = 10 * MINUTE_MS;
/** A side that traded within this time is assumed to still exist. */
const TRACE_MS = 2 * HOUR_MS;

export interface RecordOptions {
  events: RecordedEvents['events'];
  trades: ReadonlyMap<string, readonly RecordedTrade[]>;
  /** These override the default rule. */
  feeRules?: RecordedEvents['feeRules'];
  /** If undefined, the latest reports serve as the forecast; see `analogsOf`. */
  runs: readonly DayEnsemble[] | undefined;
  /** Without measurements, nothing is known about a day in progress. */
  observations?: readonly RecordedObservation[];
  everyMs: number;
}

/**
 * Books contain only what the trades of the last ten minutes prove; forecasts are calibrated on data known at the time.
 * No forecasts are scored, so every gate is closed.
 */
export function recordsFeed(options: RecordOptions): Feed {
  const past = readPast(options);
  const name = options.runs
    ? 'recorded events, with the given forecasts'
    : 'recorded events, with the last maxima as forecast';
  return {
    name,
    count: past.times.length,
    takenMs: BOOK_MS,
    points: () => listPoints(past, options),
    lookBack: (fills) => Promise.resolve(fills.map((fill) => markByTrades(fill, options.trades))),
  };
}

type Past = ReturnType<typeof readPast>;

function readPast({ events, trades, runs, observations = [], everyMs }: RecordOptions) {
  const settled = groupEvents([...events.values()].flat());
  const reports = reportsOf(settled);
  const byStation = groupBy(reports, ({ stationId }) => stationId);
  const all =
    runs ?? settled.flatMap((event) => analogsOf(byStation.get(event.station.id) ?? [], targetOf(event)));
  const times = new Map<number, MarketEvent[]>();
  const traded = settled
    .filter(({ markets }) => markets.some(({ ticker }) => trades.has(ticker)))
    .map((event) => {
      const finalMs = endOf(event) + FINAL_AFTER_MS;
      const decisions = decisionTimes(event, trades, everyMs);
      for (const ms of decisions) times.set(ms, [...(times.get(ms) ?? []), event]);
      times.set(finalMs, times.get(finalMs) ?? []);
      return { event, startMs: decisions[0] ?? finalMs, finalMs };
    });
  return {
    /** With the times of the first decision and the settlement. */
    traded,
    times: [...times].map(([ms, due]) => ({ ms, due })).sort((a, b) => a.ms - b.ms),
    runs: groupBy(all, targetKey),
    observed: groupBy(observations, ({ stationId }) => stationId),
    fitsAt: createLearner(all, reports),
  };
}

/** A year of points does not fit in memory. */
function* listPoints({ traded, times, ...past }: Past, options: RecordOptions): Generator<PointInTime> {
  const waiting = traded.toSorted((a, b) => a.startMs - b.startMs);
  let next = 0;
  let alive: Past['traded'][number][] = [];
  for (const { ms, due } of times) {
    const at = new Date(ms);
    while (next < waiting.length && waiting[next]!.startMs <= ms) alive.push(waiting[next++]!);
    const fits = past.fitsAt(at);
    const open = alive.map(({ event }) => event);
    const data = dataAt(open, options, at);
    const present = groupEvents(data.markets);
    const isDue = new Set(due.map(({ eventTicker }) => eventTicker));
    const dueNow = present.filter(({ eventTicker }) => isDue.has(eventTicker));
    const weather = {
      fetchedAt: at,
      ensembles: dueNow.flatMap((event) =>
        (past.runs.get(targetKey(targetOf(event))) ?? []).filter(
          ({ fetchedAt, modelRunAt }) => fetchedAt <= at && modelRunAt <= at,
        ),
      ),
      observed: dueNow.flatMap((event) => extremeOf(event, past.observed.get(event.station.id) ?? [], at)),
    };
    const forecasts = calibratedModel({ source: 'records', weather, events: dueNow, fits, at });
    yield { at, data, events: present, due: dueNow, forecasts, gates: noGates };
    alive = alive.filter(({ finalMs }) => finalMs > ms);
  }
}

function extremeOf(
  event: MarketEvent,
  observations: readonly RecordedObservation[],
  at: Date,
): ObservedExtreme[] {
  const { kind, station, date } = event;
  if (kind === 'hourly') return [];
  const { start, end } = spanOf(station, event);
  const known = observations.filter(
    ({ observedAt, fetchedAt }) => observedAt >= start && observedAt < end && fetchedAt <= at,
  );
  if (known.length === 0) return [];
  const temperatures = known.map(({ temperatureF }) => temperatureF);
  const latest = known.reduce((last, each) => (each.observedAt > last.observedAt ? each : last));
  const extremeF = kind === 'daily_maximum' ? Math.max(...temperatures) : Math.min(...temperatures);
  const reports = known.map(({ observedAt, temperatureF }) => ({ at: observedAt, temperatureF }));
  return [
    {
      kind,
      stationId: station.id,
      date,
      extremeF,
      observedAt: latest.observedAt,
      fetchedAt: latest.fetchedAt,
      hoursF: hourlyTemperatures(start, reports),
    },
  ];
}

const endOf = (event: MarketEvent): number => spanOf(event.station, event).end.getTime();

const reportsOf = (events: readonly MarketEvent[]): SettledDay[] =>
  events.flatMap((event) => {
    const knownAt = new Date(endOf(event) + FINAL_AFTER_MS);
    return finalOutcomes([event]).map((outcome) => ({ ...outcome, knownAt }));
  });

function decisionTimes(event: MarketEvent, trades: RecordOptions['trades'], everyMs: number): number[] {
  const first = Math.min(...event.markets.map(({ ticker }) => trades.get(ticker)?.[0]?.atMs ?? Infinity));
  const times: number[] = [];
  for (let ms = Math.ceil(first / everyMs) * everyMs; ms < endOf(event); ms += everyMs) times.push(ms);
  return times;
}

/** Until the day ends, markets are open; they settle once the result is final. */
function dataAt(
  events: readonly MarketEvent[],
  { trades, feeRules = new Map() }: RecordOptions,
  at: Date,
): MarketData {
  const books = new Map<string, OrderBook>();
  const markets = events.flatMap((event) => {
    const sinceEnd = at.getTime() - endOf(event);
    return event.markets.map((market): Market => {
      if (sinceEnd >= FINAL_AFTER_MS) return market;
      const isOpen = sinceEnd < 0 && at >= market.openTime;
      const book = isOpen
        ? bookWithTraces(trades.get(market.ticker) ?? [], {
            fromMs: at.getTime() - BOOK_MS,
            traceMs: at.getTime() - TRACE_MS,
            toMs: at.getTime(),
          })
        : emptyBook;
      books.set(market.ticker, isCrossed(book) ? emptyBook : book);
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
    books,
    feeRules: new Map([...[...series].map((ticker) => [ticker, temperatureFees] as const), ...feeRules]),
  };
}

/** As in the service's archive. */
const WINDOW_MS = 90 * DAY_MS;

/** Once per day, on data known at the first time requested for it. Times must be requested in ascending order. */
function createLearner(runs: readonly DayEnsemble[], reports: readonly SettledDay[]) {
  const known = runs
    .map(({ membersF, ...run }): KnownRun => {
      const { mean: meanF, variance: varianceF } = meanAndVariance(membersF);
      return { ...run, members: membersF.length, meanF, varianceF };
    })
    .sort((a, b) => a.fetchedAt.getTime() - b.fetchedAt.getTime());
  const fits = new Map<string, FitBook>();
  let book: FitBook = noFits;
  return (at: Date): FitBook => {
    const day = dateOf(at);
    const found = fits.get(day);
    if (found) return found;
    const since = dateOf(new Date(at.getTime() - WINDOW_MS));
    const history = KnownHistory.at(at, {
      runs: known.filter(({ date }) => date >= since),
      reports: reports.filter(({ date }) => date >= since),
    });
    ({ book } = train(history, { previous: book, newId }));
    fits.set(day, book);
    return book;
  };
}

const dateOf = (at: Date): string => at.toISOString().slice(0, 10);

const MEMBERS = 31;
const MIN_MEMBERS = 10;
/** Before the day's end, from the opening of the markets. Older forecasts are not traded on. */
const LEADS = [48, 42, 36, 30, 24, 18, 12, 6];

/**
 * The last 31 reports of the same kind (and hour) as ensemble members, so that days can be replayed without forecasts.
 * Trading on this should earn nothing. Empty if fewer than ten days were known.
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
