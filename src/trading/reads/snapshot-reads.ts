import type { Clock } from '../../clock.js';
import { AppError } from '../../errors.js';
import { createCachedAnswer, type CachedAnswer, type Sent } from '../../http/cached-answer.js';
import { emptyBook } from '../markets/book.js';
import type { MarketStatus } from '../markets/market.js';
import type { Micros } from '../money.js';
import { makeSignals } from '../signals/signals.js';
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

export interface MarketFilter {
  stationId?: string | undefined;
  /** Left out: every status but `finalized`. */
  status?: MarketStatus | undefined;
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
    if (!answer) answers.set(key, (answer = createCachedAnswer(`${write()},${head}`)));
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
    markets({ stationId, status }) {
      const { snapshot, marketJson } = present();
      const answer = once(`markets ${stationId ?? ''} ${status ?? ''}`, () => {
        const wanted = snapshot.data.markets.filter(
          (market) =>
            (stationId === undefined || market.station.id === stationId) &&
            (status === undefined ? market.status !== 'finalized' : market.status === status),
        );
        return `{"markets":[${wanted.map(({ ticker }) => marketJson.get(ticker)!).join(',')}]`;
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
