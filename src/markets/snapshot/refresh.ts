import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { WorkContext } from '../../core/http/context.js';
import type { Metrics } from '../../core/metrics.js';
import { buildSnapshotInSteps, patchSnapshot, type SnapshotInputs } from './build-snapshot.js';
import type { CalibrationStore, Snapshot, SnapshotStore } from './snapshot.js';
import type { WeatherData, WeatherSource } from '../weather/weather.js';
import type { ForecastModel } from '../learning/forecast.js';
import type { MarketData, MarketSource } from '../market/source.js';
import type { Micros } from '../market/money.js';
import { inSlices, shareRun } from '../../core/steps.js';
import { createSourcePart, type SourcePart } from './source-part.js';

export interface RefreshDeps extends Pick<WorkContext, 'clock' | 'log'> {
  markets: MarketSource;
  weather: WeatherSource;
  /** Read on their own. Never rejects. */
  minutes?: { read(signal: AbortSignal): Promise<unknown> } | undefined;
  model: ForecastModel;
  calibration: Pick<CalibrationStore, 'current'>;
  store: SnapshotStore;
  bankroll: Micros;
  tape?: { write(inputs: SnapshotInputs): void } | undefined;
  metrics: Pick<Metrics, 'refreshes' | 'refreshSeconds' | 'snapshotTime' | 'sourceNotes'>;
  /** A slower source is abandoned, even if it ignores its abort signal. */
  timeOutMs?: number;
  forecastWaitMs?: number;
}

export type Refresher = ReturnType<typeof createRefresher>;

/** Swaps once the markets arrive. Late forecasts lead to another snapshot. */
export function createRefresher(deps: RefreshDeps) {
  const { clock, log, metrics, timeOutMs = 25_000, forecastWaitMs = 3_000 } = deps;
  const stopping = new AbortController();
  const partDeps = { clock, log, metrics, timeOutMs, stopping: stopping.signal };
  const markets = createSourcePart('markets', deps.markets, partDeps);
  const weather = createSourcePart('forecasts', deps.weather, partDeps);
  const known = createKnownWeather(weather, deps.weather);
  const maker = createSnapshotMaker(deps, { markets, weather: known }, stopping.signal);
  let isSwapAhead = false;
  let asking: Promise<void> | undefined;

  async function once(): Promise<void> {
    isSwapAhead = true;
    if (isWeatherDue()) asking ??= askForecasts();
    await markets.ask();
    if (asking) await Promise.race([asking, sleep(forecastWaitMs, undefined, { ref: false })]);
    isSwapAhead = false;
    await maker.swap();
  }

  const isWeatherDue = (): boolean =>
    weather.state.state !== 'ok' || clock.now() - weather.data!.fetchedAt.getTime() >= deps.weather.freshMs;

  async function askForecasts(): Promise<void> {
    await weather.ask();
    asking = undefined;
    if (!isSwapAhead) await maker.swap();
  }

  const refreshes = shareRun(once);
  return {
    /** A concurrent call joins the running refresh. Never rejects. */
    refresh: refreshes.run,
    /** Takes new one-minute readings into account, ahead of the next refresh. Never rejects. */
    async readMinutes(): Promise<void> {
      await deps.minutes?.read(AbortSignal.any([stopping.signal, AbortSignal.timeout(timeOutMs)]));
      known.move();
      if (!isSwapAhead) await maker.swap();
    },
    async stop(): Promise<void> {
      stopping.abort();
      maker.stop();
      await refreshes.running;
      await asking;
      await maker.swapping;
    },
  };
}

/** The forecasts of the last read, with observations that may be newer. */
function createKnownWeather(part: SourcePart<WeatherData>, source: Pick<WeatherSource, 'observed'>) {
  let moved: { of: WeatherData; data: WeatherData } | undefined;
  return {
    get data() {
      return moved && moved.of === part.data ? moved.data : part.data;
    },
    get state() {
      return part.state;
    },
    move(): void {
      const observed = source.observed?.();
      if (part.data && observed) moved = { of: part.data, data: { ...part.data, observed } };
    },
  };
}

interface Parts {
  markets: SourcePart<MarketData>;
  weather: Pick<SourcePart<WeatherData>, 'data' | 'state'>;
}

/** Between snapshots, venue changes update only books and prices. */
function createSnapshotMaker(deps: RefreshDeps, { markets, weather }: Parts, stopping: AbortSignal) {
  const { clock, store, log, metrics } = deps;
  const rules = {
    marketSource: deps.markets.name,
    forecastSource: deps.weather.name,
    bankroll: deps.bankroll,
    model: deps.model,
  };
  const { changes } = deps.markets;
  const unsubscribe = changes?.subscribe(patch);
  let sequence = 0;
  let swapping = Promise.resolve();

  async function swapNow(): Promise<void> {
    if (stopping.aborted) return;
    const sources = Object.freeze([markets.state, weather.state]);
    if (!markets.data) {
      store.setSources(sources);
      return;
    }
    try {
      const data = changes?.apply(markets.data) ?? markets.data;
      // Reading the markets, building the snapshot and publishing it take one event-loop turn each.
      await nextTurn();
      const snapshot = await build(data, sources);
      await nextTurn();
      if (stopping.aborted) return;
      publish(snapshot);
      metrics.snapshotTime.set(data.fetchedAt.getTime() / 1000);
    } catch (error) {
      log.error({ err: error }, 'a snapshot could not be built; the previous one is kept');
    }
  }

  /** Numbers the snapshot after any that were published in the meantime. */
  function publish(made: Snapshot): void {
    const isOvertaken = made.sequence <= (store.current?.sequence ?? 0);
    const snapshot = isOvertaken ? Object.freeze({ ...made, sequence: ++sequence }) : made;
    const data = changes?.apply(snapshot.data) ?? snapshot.data;
    store.replace(data === snapshot.data ? snapshot : patchSnapshot(snapshot, data, ++sequence));
  }

  function patch(tickers: ReadonlySet<string>): void {
    const { current } = store;
    const data = current && changes!.apply(current.data, tickers);
    if (stopping.aborted || !current || !data || data === current.data) return;
    store.replace(patchSnapshot(current, data, ++sequence));
  }

  /** In slices: hundreds of events take a tenth of a second, and no request should wait that long. */
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
    /** One after another, each with the data available when it starts. */
    swap: (): Promise<void> => (swapping = swapping.then(swapNow)),
    get swapping() {
      return swapping;
    },
    stop(): void {
      unsubscribe?.();
      changes?.stop();
    },
  };
}
