import type { TradingContext } from '../config.js';
import { createClimateReader } from '../climate/reader.js';
import { createClimateWatch, type ClimateWatch } from '../climate/watch.js';
import { createCalibrationStore, type CalibrationStore } from '../snapshot/calibration.js';
import { createArchive, type Archive } from '../archive/archive.js';
import { createTrainer, type Trainer } from '../archive/trainer.js';
import { calibratedModel } from '../forecast/calibrated.js';
import type { WeatherSource } from '../forecast/forecast.js';
import { createLiveTrading, type LiveTimings, type LiveTrading } from '../live/live.js';
import { readVenueKey } from '../live/sign.js';
import { createHeldTickers, signalTickers } from '../snapshot/interest.js';
import type { KeptBooksTimings } from '../venue/socket/kept-books.js';
import type { IndexReader } from '../forecast/kalshi-index.js';
import type { MarketSource } from '../market/source.js';
import { createVenueBudget, type VenueBudget } from '../venue/venue-budget.js';
import { createRefresher, type RefreshDeps, type Refresher } from '../snapshot/refresh.js';
import type { LiveExecutor, Orders } from '../orders/order.js';
import { createOrders } from '../orders/orders.js';
import { recordOutcome } from '../orders/record-outcome.js';
import { createPast, type Past } from '../past/past.js';
import { PAST_DAYS } from '../scores/records.js';
import { createScoreKeeper, type ScoreKeeper } from '../scores/keeper.js';
import { createScoreReport, type ScoreReport } from '../scores/report.js';
import { createSettlement, type Settlement } from '../settlement/settle-service.js';
import { createSnapshotStore, type SnapshotStore } from '../snapshot/snapshot.js';
import type { Selection } from '../venue/simulation/world.js';
import { createSources } from './sources.js';
import { tapedMarkets, type TapePlayer } from '../tape/player.js';
import { requireTapeTarget } from '../tape/target.js';
import { createTapeWriter } from '../tape/writer.js';
import { createMarketStream, type MarketStream, type StreamLimits } from '../stream/stream.js';

/** What the trading face keeps running between requests. */
export interface TradingServices {
  markets: MarketSource;
  snapshots: SnapshotStore;
  calibration: CalibrationStore;
  /** What was known when. */
  archive: Archive;
  trainer: Trainer;
  /** Undefined where the past cannot be made up for. */
  past: Past | undefined;
  refresher: Refresher;
  stream: MarketStream;
  orders: Orders;
  /** Undefined unless the configuration lets an Organization trade live. */
  live: LiveTrading | undefined;
  scores: ScoreKeeper;
  scoreReport: ScoreReport;
  settlement: Settlement;
  /** Undefined for an invented world. */
  climate: ClimateWatch | undefined;
  /** The venue's own temperature index; undefined for an invented world. */
  index: IndexReader | undefined;
  /** Snapshots come from a tape: there is nothing to learn. */
  isReplay: boolean;
  /** Ends what runs on its own: refreshes and streams. */
  stop(): Promise<void>;
}

export interface TradingOverrides {
  markets?: MarketSource;
  weather?: WeatherSource;
  streamLimits?: Partial<StreamLimits>;
  refreshTimes?: Pick<RefreshDeps, 'timeOutMs' | 'patienceMs'>;
  /** Snapshots come from a tape, and nothing is asked, learned or scored. */
  replay?: TapePlayer;
  /** Stands in for the venue's. */
  live?: LiveExecutor;
  liveTimings?: Partial<LiveTimings>;
  /** Of the venue's WebSocket. */
  streamTimings?: Partial<KeptBooksTimings>;
  /** What may be asked of the venue. */
  venueBudget?: VenueBudget;
  /** How many days of an invented world's past are made up for; 0: none. Left out: 75. */
  pastDays?: number;
  /** What there is of an invented world; left out: everything. */
  selection?: Selection;
}

export function createTradingServices(
  context: TradingContext,
  overrides: TradingOverrides = {},
): TradingServices {
  const { db, clock, log, config, metrics } = context;
  const { pastDays = PAST_DAYS } = overrides;
  const { kalshi, marketSource, forecastSource, paperCash, tapeFile } = config.trading;
  if (tapeFile !== undefined && !overrides.replay) requireTapeTarget(tapeFile);
  const key = readVenueKey(kalshi, log);
  const { venueBudget: budget = createVenueBudget(), selection } = overrides;
  const store = createSnapshotStore();
  const held = createHeldTickers({ db, log });
  const sources = createSources({
    config: config.trading,
    key,
    budget,
    interest: () => new Set([...held.current(), ...signalTickers(store.current)]),
    stream: { metrics, timings: overrides.streamTimings },
    clock,
    log,
    selection,
  });
  const markets =
    overrides.markets ??
    (overrides.replay && tapedMarkets(overrides.replay.marketSource, store)) ??
    sources.markets;
  const weather = overrides.weather ?? sources.weather;
  const calibration = createCalibrationStore(undefined, metrics);
  const names = { marketSource: markets.name, forecastSource: weather.name };
  const archive = createArchive({ db, ...names });
  const trainer = createTrainer({ db, archive, sources: names, store, calibration, clock, log });
  const tape =
    tapeFile === undefined || overrides.replay
      ? undefined
      : createTapeWriter({
          file: tapeFile,
          header: { ...names, bankroll: paperCash },
          log,
        });
  const whatIsLive = {
    markets,
    weather,
    model: calibratedModel,
    calibration,
    store,
    bankroll: paperCash,
    clock,
    log,
    metrics,
    tape,
    ...overrides.refreshTimes,
  };
  const refresher = overrides.replay?.createRefresher(whatIsLive) ?? createRefresher(whatIsLive);
  const stream = createMarketStream({ store, metrics, log, limits: overrides.streamLimits });
  const live = createLiveTrading(context, {
    key,
    budget,
    record: (...outcome) => recordOutcome(db.orm, ...outcome),
    timings: overrides.liveTimings,
  });
  const isInvented =
    marketSource === 'simulated' &&
    forecastSource === 'simulated' &&
    !overrides.markets &&
    !overrides.weather &&
    !overrides.replay;
  const past =
    isInvented && pastDays > 0
      ? createPast({ db, archive, clock, names, world: sources.world, days: pastDays })
      : undefined;
  const scores = createScoreKeeper({
    db,
    store,
    calibration,
    ...names,
    clock,
    log,
    past,
  });
  const scoreReport = createScoreReport({ db, clock, sources: names, calibration });
  const climate =
    marketSource === 'kalshi' && !overrides.replay
      ? createClimateWatch({
          reader: createClimateReader({ baseUrl: config.trading.nwsBaseUrl }),
          db,
          snapshots: store,
          clock,
          log,
        })
      : undefined;
  const settlement = createSettlement({ db, clock, log, markets, snapshots: store, paperCash });
  return {
    markets,
    snapshots: store,
    calibration,
    archive,
    trainer,
    past,
    refresher,
    stream,
    orders: createOrders(context, { snapshots: store, live: overrides.live ?? live }),
    live,
    scores,
    scoreReport,
    settlement,
    climate,
    index: sources.index,
    isReplay: overrides.replay !== undefined,
    async stop() {
      stream.stop();
      scores.stop();
      trainer.stop();
      await Promise.all([refresher.stop(), live?.stop(), settlement.stop(), climate?.stop()]);
      await tape?.close();
    },
  };
}
