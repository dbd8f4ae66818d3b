import type { z } from 'zod';
import type { Clock } from '../../core/time.js';
import { createRecentMap } from '../../core/collections.js';
import { AppError } from '../../core/errors.js';
import { fieldError } from '../../core/pages/form.js';
import { createCachedAnswer, type CachedAnswer, type Sent } from '../../core/http/cached-answer.js';
import { cutPage } from '../../core/http/page.js';
import { emptyBook, type OrderBook } from '../market/book.js';
import { cityOf, type ListedMarket } from '../market/market.js';
import type { Micros } from '../market/money.js';
import type { MinuteBook } from '../weather/minutes.js';
import type { SignalReport } from '../signals/signal.js';
import { makeSignalsInSteps } from '../signals/signals.js';
import { withholdDoubtful } from '../signals/event-case.js';
import { inSlices } from '../../core/steps.js';
import { findAreaOf, findStation, isStation } from '../market/stations.js';
import {
  ageOf,
  refreshOf,
  toStateJson,
  type Snapshot,
  type SnapshotStore,
  notesOn,
} from '../snapshot/snapshot.js';
import { oldestRun, toForecastJson } from './forecast-json.js';
import { toBookStateJson, toMarketJson, toSignalsJson } from './market-json.js';
import { TIME_TO_LIVE_MS } from '../market/source.js';
import type { marketsQuerySchema } from './schema.js';

/** For custom bankrolls: anonymous callers must not exhaust memory. */
const MAX_BANKROLLS = 32;

export interface SnapshotReadDeps {
  store: SnapshotStore;
  clock: Clock;
  /** Undefined without one-minute readings. */
  minutes?: Pick<MinuteBook, 'feedOf'> | undefined;
}

export type SnapshotReads = ReturnType<typeof createSnapshotReads>;

/** Per snapshot: anonymous callers must not exhaust memory. */
const MAX_ANSWERS = 256;

export interface MarketFilter extends Omit<z.output<typeof marketsQuerySchema>, 'station'> {
  stationId?: string | undefined;
}

/** The full list is a megabyte, and `/stream` delivers book changes immediately. */
const ANSWER_MS = 250;

interface Answer {
  snapshot: Snapshot;
  madeAt: number;
  answer: CachedAnswer;
}

type Made = ReturnType<typeof begin>;

interface Present {
  made: Made;
  snapshot: Snapshot;
}

/**
 * Each answer is built on the first request and encoded again when its age in seconds changes. Every function throws
 * AppError market_data_unavailable until the first load.
 */
export function createSnapshotReads({ store, clock, minutes }: SnapshotReadDeps) {
  const { present, once } = createAnswers(store);
  const describeMarket = createMarketDescriber();

  const describeMarketOf = (snapshot: Snapshot) => (ticker: string) =>
    describeMarket(snapshot, snapshot.markets.get(ticker)!);

  function send(
    answer: CachedAnswer,
    more: (now: number) => object = () => ({}),
    { snapshot }: Present = present(),
  ): Sent {
    const now = clock.now();
    const age = ageOf(snapshot, now);
    const isStale = age > TIME_TO_LIVE_MS;
    const lastFields = { ageSeconds: Math.floor(age / 1000), stale: isStale, ...more(now) };
    return { answer, lastFields, tag: isStale ? '-stale' : '' };
  }

  const signals = (): Sent =>
    send(once('signals', (snapshot) => toSignalsJson(snapshot.signals, describeMarketOf(snapshot))));

  /** As the server does for its own bankroll. */
  function sizeFor({ data, events, forecasts, gates }: Snapshot, bankroll: Micros): Promise<SignalReport> {
    const at = new Date(clock.now());
    return inSlices(makeSignalsInSteps({ data, events, forecasts, gates, bankroll, at }));
  }

  return {
    markets(filter: MarketFilter): Sent {
      const answer = once(`markets ${JSON.stringify(filter)}`, (snapshot) => {
        const { markets, nextCursor } = pageOf(snapshot.data.markets, filter);
        const list = { markets: markets.map((market) => describeMarket(snapshot, market)) };
        return filter.limit === undefined ? list : { ...list, nextCursor };
      });
      return send(answer);
    },

    signals,

    async signalsFor(bankroll: Micros): Promise<Sent> {
      const at = present();
      const { refreshed, bankrolls } = at.made;
      if (bankroll === refreshed.signals.bankroll) return signals();
      let sizing = bankrolls.get(bankroll);
      if (!sizing) {
        sizing = sizeFor(refreshed, bankroll);
        bankrolls.set(bankroll, sizing);
      }
      const report = await sizing;
      const write = (snapshot: Snapshot) =>
        toSignalsJson(withholdDoubtful(report, snapshot.data.doubts), describeMarketOf(snapshot));
      // A refresh may have changed the markets since the request started.
      return send(once(`signals ${bankroll}`, write, at), undefined, at);
    },

    forecast(stationId: string): Sent {
      const { snapshot } = present();
      const station = findStation(stationId)!;
      const area = findAreaOf(station);
      const forecast = {
        station,
        days: snapshot.forecasts.get(stationId),
        hours: area && snapshot.forecasts.get(area.id),
        notes: notesOn(snapshot, stationId),
      };
      const today = forecast.days?.days.findLast(({ observed }) => observed !== null)?.observed ?? null;
      const feed = minutes?.feedOf(stationId, today, clock.now()) ?? null;
      if (!forecast.days && !forecast.hours) throw unavailable(`There is no forecast for ${stationId} yet.`);
      const answer = once(`forecast ${stationId}`, ({ markets }) =>
        toForecastJson({ ...forecast, feed }, markets),
      );
      const oldest = oldestRun(forecast);
      return send(answer, (now) => ({
        forecastAgeSeconds: Math.max(0, Math.floor((now - oldest) / 1000)),
      }));
    },
  };
}

/** Answers are cached until the next refresh. */
function createAnswers(store: SnapshotStore) {
  let made: Made | undefined;

  function present(): Present {
    const snapshot = store.current;
    if (!snapshot) throw unavailable('No market data has been loaded yet.');
    const refreshed = refreshOf(snapshot);
    if (made?.refreshed !== refreshed) made = begin(refreshed);
    return { made, snapshot };
  }

  function once(key: string, write: (snapshot: Snapshot) => object, at: Present = present()): CachedAnswer {
    const { answers, source } = at.made;
    const { snapshot } = at;
    const known = answers.get(key);
    const now = performance.now();
    if (known && (known.snapshot === snapshot || now - known.madeAt < ANSWER_MS)) return known.answer;
    const answer = createCachedAnswer({ ...write(snapshot), ...source });
    answers.set(key, { snapshot, madeAt: now, answer });
    return answer;
  }

  return { present, once };
}

function isWanted(market: ListedMarket, { stationId, kind, city, status }: MarketFilter): boolean {
  return (
    (stationId === undefined || market.station?.id === stationId) &&
    (kind === undefined || market.kind === kind) &&
    (city === undefined || namesCity(market, city)) &&
    (status === undefined ? market.status !== 'finalized' : market.status === status)
  );
}

/** By our name or the one in the venue's rules. */
function namesCity(market: ListedMarket, city: string): boolean {
  const wanted = city.toLowerCase();
  const { station } = market;
  return (
    cityOf(market)?.toLowerCase() === wanted ||
    (station !== null && isStation(station) && station.rulesCity.toLowerCase() === wanted)
  );
}

/** @throws AppError invalid_request for a cursor whose market is no longer listed */
function pageOf(listed: readonly ListedMarket[], filter: MarketFilter) {
  const { limit = Infinity, cursor } = filter;
  const last = cursor === undefined ? -1 : listed.findIndex(({ ticker }) => ticker === cursor);
  if (cursor !== undefined && last < 0)
    throw fieldError('cursor', 'does not match a market in the current list. Start again without it');
  const found = listed.slice(last + 1).filter((market) => isWanted(market, filter));
  const { page: markets, nextCursor = null } = cutPage(found, limit, ({ ticker }) => ticker);
  return { markets, nextCursor };
}

function begin(refreshed: Snapshot) {
  const { asOf, sources } = refreshed;
  const source = {
    asOf: asOf.toISOString(),
    sources: sources.map(({ notes, ...state }) => ({ ...toStateJson(state), notes })),
  };
  return {
    refreshed,
    source,
    answers: createRecentMap<string, Answer>(MAX_ANSWERS),
    bankrolls: createRecentMap<Micros, Promise<SignalReport>>(MAX_BANKROLLS),
  };
}

/** Describes each state of a market and its book once. */
function createMarketDescriber(): (snapshot: Snapshot, market: ListedMarket) => object {
  const described = new WeakMap<ListedMarket, { book: OrderBook; state: string; fields: object }>();
  return ({ data, marketSource }, market) => {
    const book = data.books.get(market.ticker) ?? emptyBook;
    const known = toBookStateJson(data, market.ticker);
    const state = `${known.bookState} ${known.bookAsOf}`;
    const before = described.get(market);
    if (before?.book === book && before.state === state) return before.fields;
    const fields = { ...toMarketJson(market, book, marketSource), ...known };
    described.set(market, { book, state, fields });
    return fields;
  };
}

const unavailable = (detail: string) =>
  new AppError('market_data_unavailable', detail, { retryAfterSeconds: 5 });
