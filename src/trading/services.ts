import type { Clock } from '../clock.js';
import type { Context } from '../context.js';
import { rawEnsemble } from './forecast/raw-ensemble.js';
import { createOpenMeteoSource } from './forecast/openmeteo.js';
import { createSimulatedWeatherSource } from './forecast/simulated.js';
import type { WeatherSource } from './forecast/forecast.js';
import { createLiveTrading, type LiveTimings, type LiveTrading } from './live/live.js';
import { readVenueKey, signRequest, type VenueKey } from './live/sign.js';
import { createKalshiClient } from './markets/kalshi-client.js';
import { createKalshiSource } from './markets/kalshi.js';
import { createSimulatedSource } from './markets/simulated.js';
import type { MarketSource } from './markets/source.js';
import { createRefresher, type RefreshDeps, type Refresher } from './refresh.js';
import type { LiveExecutor, Orders } from './orders/order.js';
import { createOrders } from './orders/orders.js';
import { recordOutcome } from './orders/record-outcome.js';
import { fillPast } from './scores/backfill.js';
import { createScoreKeeper, type ScoreKeeper } from './scores/keeper.js';
import { createScoreReport, type ScoreReport } from './scores/report.js';
import { createSettlement, type Settlement } from './settlement/settle-service.js';
import { simulateWeather } from './simulation/weather.js';
import { createSnapshotStore, type SnapshotStore } from './snapshot.js';
import { createMarketStream, type MarketStream, type StreamLimits } from './stream/stream.js';

/** What the trading face keeps running between requests. */
export interface TradingServices {
  markets: MarketSource;
  snapshots: SnapshotStore;
  refresher: Refresher;
  stream: MarketStream;
  orders: Orders;
  /** Undefined unless the configuration lets an Organization trade live. */
  live: LiveTrading | undefined;
  scores: ScoreKeeper;
  scoreReport: ScoreReport;
  settlement: Settlement;
  /** Ends what runs on its own: refreshes and streams. */
  stop(): Promise<void>;
}

/** The invented world of the demo: everybody who starts it sees the same one. */
const SEED = 'gauge';

export interface TradingOverrides {
  markets?: MarketSource;
  weather?: WeatherSource;
  streamLimits?: Partial<StreamLimits>;
  refreshTimes?: Pick<RefreshDeps, 'timeOutMs' | 'patienceMs'>;
  /** Stands in for the venue's. */
  live?: LiveExecutor;
  liveTimings?: Partial<LiveTimings>;
}

export function createTradingServices(context: Context, overrides: TradingOverrides = {}): TradingServices {
  const { db, clock, log, config, metrics } = context;
  const { kalshi, marketSource, forecastSource, openMeteoBaseUrl, nwsBaseUrl, paperCash } = config.trading;
  const key = readVenueKey(kalshi, log);
  const world = simulateWeather(SEED);
  const simulatedSources = (clock: Clock) => ({
    markets: createSimulatedSource({ clock, seed: SEED, weather: world }),
    weather: createSimulatedWeatherSource({ clock, seed: SEED, weather: world }),
  });
  const markets =
    overrides.markets ??
    (marketSource === 'kalshi'
      ? createKalshiSource({
          client: createKalshiClient({ baseUrl: kalshi.baseUrl, headers: key && signerOf(key, clock) }),
          series: kalshi.series,
          clock,
          log,
        })
      : simulatedSources(clock).markets);
  const weatherSources = {
    simulated: () => simulatedSources(clock).weather,
    openmeteo: () => createOpenMeteoSource({ baseUrl: openMeteoBaseUrl, nwsBaseUrl, clock, log }),
  };
  const weather = overrides.weather ?? weatherSources[forecastSource]();
  const store = createSnapshotStore();
  const refresher = createRefresher({
    markets,
    weather,
    model: rawEnsemble,
    store,
    bankroll: paperCash,
    clock,
    log,
    metrics,
    ...overrides.refreshTimes,
  });
  const stream = createMarketStream({ store, metrics, log, limits: overrides.streamLimits });
  const live = createLiveTrading(context, {
    key,
    record: (...outcome) => recordOutcome(db.orm, ...outcome),
    timings: overrides.liveTimings,
  });
  const isInvented = marketSource === 'simulated' && !overrides.markets && !overrides.weather;
  const past = { db, clock, sourcesAt: simulatedSources, model: rawEnsemble };
  const scores = createScoreKeeper({
    db,
    store,
    forecastSource: weather.name,
    clock,
    log,
    fillPast: isInvented ? (signal) => fillPast(past, signal) : undefined,
  });
  const scoreReport = createScoreReport({
    db,
    clock,
    sources: { marketSource: markets.name, forecastSource: weather.name },
  });
  const settlement = createSettlement({ db, clock, log, markets, snapshots: store, paperCash });
  return {
    markets,
    snapshots: store,
    refresher,
    stream,
    orders: createOrders(context, { snapshots: store, live: overrides.live ?? live }),
    live,
    scores,
    scoreReport,
    settlement,
    async stop() {
      stream.stop();
      scores.stop();
      await Promise.all([refresher.stop(), live?.stop(), settlement.stop()]);
    },
  };
}

/** With a key everything is read under it: some addresses answer nobody else. */
const signerOf = (key: VenueKey, clock: Clock) => (method: string, path: string) =>
  signRequest(key, { atMs: clock.now(), method, path });
