import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Clock } from '../../core/clock.js';
import type { Metrics } from '../../core/metrics.js';
import { buildSnapshotInSteps, type SnapshotInputs } from './build-snapshot.js';
import type { CalibrationStore } from './calibration.js';
import type { ForecastModel, WeatherSource } from '../forecast/forecast.js';
import type { MarketData, MarketSource } from '../market/source.js';
import type { Micros } from '../market/money.js';
import { patchSnapshot } from './patch-snapshot.js';
import type { Snapshot, SnapshotStore } from './snapshot.js';
import { inSlices } from '../market/steps.js';
import { createSourcePart } from './source-part.js';
import type { TapeWriter } from '../tape/writer.js';

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
  let swapping = Promise.resolve();

  async function once(): Promise<void> {
    isSwapAhead = true;
    if (isWeatherDue()) asking ??= askForecasts();
    await markets.ask();
    await within(patienceMs, asking);
    isSwapAhead = false;
    await swap();
  }

  const isWeatherDue = (): boolean =>
    weather.state.state !== 'ok' || clock.now() - weather.data!.fetchedAt.getTime() >= deps.weather.freshMs;

  async function askForecasts(): Promise<void> {
    await weather.ask();
    asking = undefined;
    if (!isSwapAhead) await swap();
  }

  /** One after the other: each is made of what is there when its turn comes. */
  const swap = (): Promise<void> => (swapping = swapping.then(swapNow));

  async function swapNow(): Promise<void> {
    if (stopping.signal.aborted) return;
    const sources = Object.freeze([markets.state, weather.state]);
    if (!markets.data) {
      store.setSources(sources);
      return;
    }
    try {
      const data = changes?.apply(markets.data) ?? markets.data;
      const snapshot = await build(data, sources);
      if (stopping.signal.aborted) return;
      publish(snapshot);
      metrics.snapshotTime.set(data.fetchedAt.getTime() / 1000);
    } catch (error) {
      log.error({ err: error }, 'a snapshot could not be made: the last one stays');
    }
  }

  /** What the venue has told while the snapshot was made is put into it, and counts after what was shown meanwhile. */
  function publish(made: Snapshot): void {
    const isOvertaken = made.sequence <= (store.current?.sequence ?? 0);
    const snapshot = isOvertaken ? Object.freeze({ ...made, sequence: ++sequence }) : made;
    const data = changes?.apply(snapshot.data) ?? snapshot.data;
    store.replace(data === snapshot.data ? snapshot : patchSnapshot(snapshot, data, ++sequence));
  }

  function patch(tickers: ReadonlySet<string>): void {
    const { current } = store;
    const data = current && changes!.apply(current.data, tickers);
    if (stopping.signal.aborted || !current || !data || data === current.data) return;
    store.replace(patchSnapshot(current, data, ++sequence));
  }

  /** In slices: hundreds of events are a tenth of a second of work, and nobody waits that long for an answer. */
  function build(data: MarketData, sources: Snapshot['sources']): Promise<Snapshot> {
    const inputs: SnapshotInputs = {
      sequence: ++sequence,
      at: new Date(clock.now()),
      data,
      weather: weather.data,
      calibration: deps.calibration.current,
      sources,
    };
    deps.tape?.write(inputs);
    return inSlices(buildSnapshotInSteps(inputs, rules, store.current, log));
  }

  return {
    refresh: () => (running ??= once().finally(() => (running = undefined))),
    async stop() {
      stopping.abort();
      unsubscribe?.();
      changes?.stop();
      await running;
      await asking;
      await swapping;
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
