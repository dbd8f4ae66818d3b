import type { Clock } from '../../clock.js';
import { AppError } from '../../errors.js';
import { fieldError } from '../../pages/form.js';
import { createCachedAnswer, type CachedAnswer, type Sent } from '../../http/cached-answer.js';
import { emptyBook } from '../markets/book.js';
import { cityOf, type ListedMarket, type MarketKind, type MarketStatus } from '../markets/market.js';
import type { Micros } from '../money.js';
import { makeSignals } from '../signals/signals.js';
import { isStation } from '../settlement/stations.js';
import { ageOf, TIME_TO_LIVE_MS, type Snapshot, type SnapshotStore, type SourceState } from '../snapshot.js';
import { oldestRun, writeForecast } from './forecast-json.js';
import { toMarketJson } from './market-json.js';
import { writeSignals } from './signal-json.js';

/** Signals for other bankrolls than the server's are kept for this many, so that strangers cannot fill the memory. */
const MAX_BANKROLLS = 32;

export interface SnapshotReads {
  markets(filter: MarketFilter): Sent;
  signals(bankroll: Micros | undefined): Sent;
  forecast(stationId: string): Sent;
}

/** Answers of one snapshot to different questions that are kept, so that strangers cannot fill the memory. */
const MAX_ANSWERS = 256;

export interface MarketFilter {
  stationId?: string | undefined;
  kind?: MarketKind | undefined;
  /** As any market has it, in any case. */
  city?: string | undefined;
  /** Left out: every status but `finalized`. */
  status?: MarketStatus | undefined;
  /** A page of so many, from behind the market that `cursor` names; left out: all at once. */
  limit?: number | undefined;
  cursor?: string | undefined;
}

/** What was made of one snapshot so far. */
interface Made {
  snapshot: Snapshot;
  /** The fields that are the same in each of its answers. */
  head: string;
  /** By ticker, in the snapshot's order. */
  marketJson: ReadonlyMap<string, string>;
  answers: Map<string, CachedAnswer>;
  bankrolls: Map<Micros, CachedAnswer>;
}

/**
 * The answers of the shared reads. Everything that a snapshot says is written when it is first asked for, and once;
 * what the clock says (the age) comes last in each object and is all that is written anew.
 * Each of them throws AppError market_data_unavailable while nothing has been loaded.
 */
export function createSnapshotReads({ store, clock }: { store: SnapshotStore; clock: Clock }): SnapshotReads {
  let made: Made | undefined;

  function present(): Made {
    const snapshot = store.current;
    if (!snapshot) throw unavailable('No market data could be loaded yet.');
    if (made?.snapshot !== snapshot) made = begin(snapshot);
    return made;
  }

  function once(key: string, write: () => string): CachedAnswer {
    const { answers, head } = present();
    let answer = answers.get(key);
    if (answer) return answer;
    answer = createCachedAnswer(`${write()},${head}`);
    if (answers.size >= MAX_ANSWERS) answers.delete(answers.keys().next().value!);
    answers.set(key, answer);
    return answer;
  }

  function send(answer: CachedAnswer, more: (now: number) => string = () => ''): Sent {
    const now = clock.now();
    const age = ageOf(present().snapshot, now);
    const isStale = age > TIME_TO_LIVE_MS;
    const end = `"ageSeconds":${Math.floor(age / 1000)},"stale":${isStale}${more(now)}}`;
    return { answer, end, tag: isStale ? '-stale' : '' };
  }

  return {
    markets(filter) {
      const { snapshot, marketJson } = present();
      const answer = once(`markets ${JSON.stringify(filter)}`, () => {
        const page = pageOf(snapshot.data.markets, filter);
        const list = `{"markets":[${page.markets.map(({ ticker }) => marketJson.get(ticker)!).join(',')}]`;
        return filter.limit === undefined ? list : `${list},"nextCursor":${JSON.stringify(page.nextCursor)}`;
      });
      return send(answer);
    },

    signals(bankroll) {
      const { snapshot, marketJson, bankrolls, head } = present();
      const write = (report: Snapshot['signals']) =>
        writeSignals(report, (ticker) => marketJson.get(ticker)!);
      if (bankroll === undefined || bankroll === snapshot.signals.bankroll)
        return send(once('signals', () => write(snapshot.signals)));
      let answer = bankrolls.get(bankroll);
      if (!answer) {
        const { data, events, forecasts, gates } = snapshot;
        const at = new Date(clock.now());
        answer = createCachedAnswer(
          `${write(makeSignals({ data, events, forecasts, gates, bankroll, at }))},${head}`,
        );
        if (bankrolls.size >= MAX_BANKROLLS) bankrolls.delete(bankrolls.keys().next().value!);
        bankrolls.set(bankroll, answer);
      }
      return send(answer);
    },

    forecast(stationId) {
      const { snapshot } = present();
      const forecast = snapshot.forecasts.get(stationId);
      if (!forecast || forecast.days.length === 0)
        throw unavailable(`There is no forecast for ${stationId} yet.`);
      const answer = once(`forecast ${stationId}`, () => writeForecast(forecast, snapshot.markets));
      const oldest = oldestRun(forecast);
      return send(answer, (now) => `,"forecastAgeSeconds":${Math.max(0, Math.floor((now - oldest) / 1000))}`);
    },
  };
}

function isWanted(market: ListedMarket, { stationId, kind, city, status }: MarketFilter): boolean {
  return (
    (stationId === undefined || market.station?.id === stationId) &&
    (kind === undefined || market.kind === kind) &&
    (city === undefined || namesCity(market, city)) &&
    (status === undefined ? market.status !== 'finalized' : market.status === status)
  );
}

/** Rules write some cities in another way than everybody else: both are found. */
function namesCity(market: ListedMarket, city: string): boolean {
  const wanted = city.toLowerCase();
  const { station } = market;
  return (
    cityOf(market)?.toLowerCase() === wanted ||
    (station !== null && isStation(station) && station.rulesCity.toLowerCase() === wanted)
  );
}

/** @throws AppError invalid_request for a cursor whose market is no longer listed */
function pageOf(
  listed: readonly ListedMarket[],
  filter: MarketFilter,
): { markets: readonly ListedMarket[]; nextCursor: string | null } {
  const { limit = Infinity, cursor } = filter;
  const last = cursor === undefined ? -1 : listed.findIndex(({ ticker }) => ticker === cursor);
  if (cursor !== undefined && last < 0)
    throw fieldError('cursor', 'names no market of the present list: begin again without it');
  const found = listed.slice(last + 1).filter((market) => isWanted(market, filter));
  const markets = found.slice(0, limit);
  return { markets, nextCursor: found.length > limit ? markets.at(-1)!.ticker : null };
}

function begin(snapshot: Snapshot): Made {
  const { data, asOf, sources, marketSource } = snapshot;
  const marketJson = new Map(
    data.markets.map((market) => [
      market.ticker,
      JSON.stringify(toMarketJson(market, data.books.get(market.ticker) ?? emptyBook, marketSource)),
    ]),
  );
  const head = `"asOf":"${asOf.toISOString()}","sources":${JSON.stringify(sources.map(toSourceJson))},`;
  return { snapshot, head, marketJson, answers: new Map(), bankrolls: new Map() };
}

/** What went wrong is for the log: it may name hosts that are nobody's business. */
export const toSourceJson = ({ part, name, state, fetchedAt, failingSince }: SourceState) => ({
  part,
  name,
  state,
  fetchedAt: fetchedAt?.toISOString() ?? null,
  failingSince: failingSince?.toISOString() ?? null,
});

/** The next refresh may bring it. */
const unavailable = (detail: string) =>
  new AppError('market_data_unavailable', detail, { retryAfterSeconds: 5 });
