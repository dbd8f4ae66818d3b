import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../clock.js';
import type { Metrics } from '../metrics.js';
import type { ForecastModel, WeatherSource } from './forecast/forecast.js';
import { groupEvents, type MarketEvent } from './markets/event.js';
import type { MarketData, MarketSource } from './markets/source.js';
import type { Micros } from './money.js';
import { makeSignals } from './signals/signals.js';
import type { Snapshot, SnapshotStore } from './snapshot.js';
import { createSourcePart } from './source-part.js';

export interface RefreshDeps {
  markets: MarketSource;
  weather: WeatherSource;
  model: ForecastModel;
  store: SnapshotStore;
  bankroll: Micros;
  clock: Clock;
  log: Logger;
  metrics: Pick<Metrics, 'refreshes' | 'refreshSeconds' | 'snapshotTime'>;
  /** A source that takes longer is given up, even if it does not listen. */
  timeOutMs?: number;
  /** How long fresh markets wait for fresh forecasts. */
  patienceMs?: number;
}

export interface Refresher {
  /**
   * Asks the sources whose data are due and swaps the snapshot. One at a time: a call while it runs waits for that one.
   * Never rejects.
   */
  refresh(): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Markets are what a snapshot is about: it is swapped as soon as they are there. Forecasts have their own pace and
 * come along if they come in time; otherwise the last good ones stay, and the late ones make a snapshot of their own.
 */
export function createRefresher(deps: RefreshDeps): Refresher {
  const { clock, store, log, metrics, timeOutMs = 25_000, patienceMs = 3_000 } = deps;
  const stopping = new AbortController();
  const whatParts = { clock, log, metrics, timeOutMs, stopping: stopping.signal };
  const markets = createSourcePart('markets', deps.markets, whatParts);
  const weather = createSourcePart('forecasts', deps.weather, whatParts);
  let sequence = 0;
  let running: Promise<void> | undefined;
  let isSwapAhead = false;
  let asking: Promise<void> | undefined;

  async function once(): Promise<void> {
    isSwapAhead = true;
    if (isWeatherDue()) asking ??= askForecasts();
    await markets.ask();
    await within(patienceMs, asking);
    isSwapAhead = false;
    swap();
  }

  const isWeatherDue = (): boolean =>
    weather.state.state !== 'ok' || clock.now() - weather.data!.fetchedAt.getTime() >= deps.weather.freshMs;

  async function askForecasts(): Promise<void> {
    await weather.ask();
    asking = undefined;
    if (!isSwapAhead) swap();
  }

  function swap(): void {
    if (stopping.signal.aborted) return;
    const sources = Object.freeze([markets.state, weather.state]);
    if (!markets.data) {
      store.setSources(sources);
      return;
    }
    try {
      store.replace(build(markets.data, sources));
      metrics.snapshotTime.set(markets.data.fetchedAt.getTime() / 1000);
    } catch (error) {
      log.error({ err: error }, 'a snapshot could not be made: the last one stays');
    }
  }

  function build(data: MarketData, sources: Snapshot['sources']): Snapshot {
    const events = groupEvents(data.markets);
    const at = new Date(clock.now());
    const forecasts = forecast(events, at);
    return Object.freeze({
      sequence: ++sequence,
      asOf: data.fetchedAt,
      marketSource: deps.markets.name,
      data,
      markets: new Map(data.markets.map((market) => [market.ticker, market])),
      events,
      forecasts,
      signals: makeSignals({ data, events, forecasts, bankroll: deps.bankroll, at }),
      sources,
    });
  }

  /** Markets go on without a model that fails: its last forecasts stay, and grow old. */
  function forecast(events: readonly MarketEvent[], at: Date): Snapshot['forecasts'] {
    if (!weather.data) return new Map();
    try {
      return deps.model({ source: deps.weather.name, weather: weather.data, events, at });
    } catch (error) {
      log.error({ err: error }, 'the forecast could not be made: the last one stays');
      return store.current?.forecasts ?? new Map();
    }
  }

  return {
    refresh: () => (running ??= once().finally(() => (running = undefined))),
    async stop() {
      stopping.abort();
      await running;
      await asking;
    },
  };
}

/** Resolves with the work, or when the time is over. */
async function within(ms: number, work: Promise<void> | undefined): Promise<void> {
  if (!work) return;
  const over = new AbortController();
  await Promise.race([work, sleep(ms, undefined, { signal: over.signal }).catch(() => undefined)]);
  over.abort();
}
