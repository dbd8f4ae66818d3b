import { calibratedModel } from '../trading/forecast/calibrated.js';
import type { DayEnsemble } from '../trading/forecast/forecast.js';
import { groupEvents, type MarketEvent } from '../trading/market/event.js';
import { emptyBook, isCrossed, asksOf } from '../trading/market/book.js';
import { spanOf, targetOf, type Market } from '../trading/market/market.js';
import type { MarketData, SettledDay } from '../trading/market/source.js';
import { DOLLAR } from '../trading/market/money.js';
import { noGates } from '../trading/signals/gate.js';
import { finalOutcomes } from '../trading/scores/records.js';
import { createLearner } from './learning.js';
import type { Moment, MomentSource } from './moment.js';
import { analogsOf } from './records/analogs.js';
import type { RecordedEvents } from './records/read-events.js';
import { bookOfTrades, type RecordedTrade } from './records/read-trades.js';

const HOUR_MS = 60 * 60 * 1000;
/** Of the venue: its result is final in the morning after the day. */
const FINAL_AFTER_MS = 9 * HOUR_MS;
/** What was traded this recently still stands, as far as anybody can tell. */
const BOOK_MS = 10 * 60 * 1000;

export interface RecordOptions {
  events: RecordedEvents['events'];
  trades: ReadonlyMap<string, readonly RecordedTrade[]>;
  /** Undefined: the last reported maxima stand in, see `analogsOf`. */
  runs: readonly DayEnsemble[] | undefined;
  everyMs: number;
}

/**
 * The moments of recorded days: books are what trades of the last ten minutes prove, fees the venue's for these series,
 * and forecasts are corrected by what was known at the time. Nothing was scored, so every gate is shut.
 */
export function momentsOfRecords(options: RecordOptions): MomentSource {
  const moments = [...listMoments(options)];
  const name = options.runs
    ? 'recorded events, given forecasts'
    : 'recorded events, the last maxima as forecast';
  return { name, count: moments.length, moments: () => moments };
}

function* listMoments({ events, trades, runs, everyMs }: RecordOptions): Generator<Moment> {
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
