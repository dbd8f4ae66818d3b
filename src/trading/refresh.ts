import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../clock.js';
import type { Metrics } from '../metrics.js';
import { buildSnapshot, type SnapshotInputs } from './build-snapshot.js';
import type { CalibrationStore } from './calibration.js';
import type { ForecastModel, WeatherSource } from './forecast/forecast.js';
import type { MarketData, MarketSource } from './markets/source.js';
import type { Micros } from './money.js';
import { patchSnapshot } from './patch-snapshot.js';
import type { Snapshot, SnapshotStore } from './snapshot.js';
import { createSourcePart } from './source-part.js';
import type { TapeWriter } from './tape/writer.js';

export interface RefreshDeps {
  markets: MarketSource;
  weather: WeatherSource;
  model: ForecastModel;
  /** What has been learned so far; read anew with each snapshot. */
  calibration: Pick<CalibrationStore, 'current'>;
  store: SnapshotStore;
  bankroll: Micros;
  /** Takes down what each snapshot was made of. */
  tape?: Pick<TapeWriter, 'write'> | undefined;
  clock: Clock;
  log: Logger;
  metrics: Pick<Metrics, 'refreshes' | 'refreshSeconds' | 'snapshotTime' | 'sourceNotes'>;
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
 * What the venue tells between two refreshes changes the present snapshot's books and prices, and nothing else of it.
 */
export function createRefresher(deps: RefreshDeps): Refresher {
  const { clock, store, log, metrics, timeOutMs = 25_000, patienceMs = 3_000 } = deps;
  const stopping = new AbortController();
  const whatParts = { clock, log, metrics, timeOutMs, stopping: stopping.signal };
  const markets = createSourcePart('markets', deps.markets, whatParts);
  const weather = createSourcePart('forecasts', deps.weather, whatParts);
  const rules = {
    marketSource: deps.markets.name,
    forecastSource: deps.weather.name,
    bankroll: deps.bankroll,
    model: deps.model,
  };
  const { changes } = deps.markets;
  const unsubscribe = changes?.subscribe(patch);
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
      store.replace(build(changes?.apply(markets.data) ?? markets.data, sources));
      metrics.snapshotTime.set(markets.data.fetchedAt.getTime() / 1000);
    } catch (error) {
      log.error({ err: error }, 'a snapshot could not be made: the last one stays');
    }
  }

  function patch(tickers: ReadonlySet<string>): void {
    const { current } = store;
    const data = current && changes!.apply(current.data, tickers);
    if (stopping.signal.aborted || !current || !data || data === current.data) return;
    const patched = patchSnapshot(current, data);
    ({ sequence } = patched);
    store.replace(patched);
  }

  function build(data: MarketData, sources: Snapshot['sources']): Snapshot {
    const inputs: SnapshotInputs = {
      sequence: ++sequence,
      at: new Date(clock.now()),
      data,
      weather: weather.data,
      calibration: deps.calibration.current,
      sources,
    };
    deps.tape?.write(inputs);
    return buildSnapshot(inputs, rules, store.current, log);
  }

  return {
    refresh: () => (running ??= once().finally(() => (running = undefined))),
    async stop() {
      stopping.abort();
      unsubscribe?.();
      changes?.stop();
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
