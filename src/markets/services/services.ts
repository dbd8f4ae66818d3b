import type { Job } from '../../core/db/jobs.js';
import { DAY_MS, MINUTE_MS } from '../../core/time.js';
import {
  createBackground,
  type Background,
  type BackgroundDeps,
  type BackgroundOptions,
} from '../background/background.js';
import { createClimateReader } from '../climate/product.js';
import { readObserved } from '../climate/queries.js';
import { createClimateWatch } from '../climate/watch.js';
import type { Context, WorkContext } from '../../core/http/context.js';
import type { WeatherSource } from '../weather/weather.js';
import type { SourceNames } from '../learning/queries.js';
import { createBookMemory } from '../execution/books.js';
import { createMarker } from '../execution/marker.js';
import { createQueueWatch } from '../execution/queue-watch.js';
import { createLiveTrading, type LiveTimings } from '../live/live.js';
import { readVenueKey } from '../live/sign.js';
import type { MarketSource } from '../market/source.js';
import type { LiveExecutor } from '../orders/order.js';
import { createOrders } from '../orders/orders.js';
import { createResting } from '../orders/resting.js';
import { createPortfolioHistory } from '../portfolio/history.js';
import { createScoreKeeper } from '../scores/keeper.js';
import { PAST_DAYS } from '../scores/records.js';
import { createScoreReport } from '../scores/report.js';
import { createSettlement } from '../settlement/settlement.js';
import { createPriceRecorder } from '../snapshot/price-history.js';
import { createCollector } from '../training/news.js';
import { createRefresher, type RefreshDeps, type Refresher } from '../snapshot/refresh.js';
import {
  createCalibrationStore,
  createSnapshotStore,
  type CalibrationStore,
  type SnapshotStore,
} from '../snapshot/snapshot.js';
import { createMarketStream, type StreamLimits } from '../api/stream.js';
import { tapedMarkets, type TapePlayer } from '../tape/player.js';
import { createPrintFollower, tapedPrints } from '../tape/prints.js';
import { createTapeWriter, requireTapeTarget, type TapeWriter } from '../tape/writer.js';
import type { Selection } from '../venue/simulation/world.js';
import type { KeptBooksTimings } from '../venue/socket/kept-books.js';
import { createVenueBudget, type VenueBudget } from '../venue/venue-budget.js';
import {
  createHeldTickers,
  createSources,
  signalTickers,
  stationsOfInterest,
  type SourceOptions,
  type Sources,
} from './sources.js';
import { calibratedModel } from '../learning/calibrated.js';

export const tradingJobs = ({ config }: Context, services: TradingServices): Job[] => {
  const { refresher, live, queueWatch, printFollower, climate, index, isReplay } = services;
  const jobs = [
    {
      name: 'refresh-markets',
      schedule: everySeconds(config.trading.refreshSeconds),
      run: () => refresher.refresh(),
    },
    // Each city's readings appear at seconds of their own.
    !isReplay &&
      index && {
        name: 'read-minutes',
        schedule: '*/2 * * * * *',
        run: async () => index.isDue() && refresher.readMinutes(),
      },
    live && { name: 'reconcile-live', schedule: '20 * * * * *', run: () => live.reconcile() },
    live && { name: 'watch-resting-orders', schedule: '*/5 * * * * *', run: () => live.watchResting() },
    queueWatch && {
      name: 'read-queue-positions',
      schedule: '9,24,39,54 * * * * *',
      run: () => queueWatch.read(),
    },
    // New reports arrive only a few times a night.
    climate && { name: 'read-climate-reports', schedule: '35 */5 * * * *', run: () => climate.run() },
    climate && { name: 'clean-up-climate-reports', schedule: '0 53 3 * * *', run: () => climate.cleanUp() },
    // On the default schedule, runs a few seconds after each market refresh.
    printFollower && { name: 'tape-prints', schedule: '6,36 * * * * *', run: () => printFollower.follow() },
    ...(isReplay ? [] : learningJobs(services)),
  ];
  return jobs.filter((job) => job !== undefined && job !== false);
};

/** No request triggers these jobs. */
export const bookingJobs = (services: TradingServices): Job[] => {
  const { settlement, resting, marker, background, learn, prices, isReplay } = services;
  return [
    // On the default schedule, runs twice per market refresh, the first time a few seconds after it.
    { name: 'advance-resting-orders', schedule: '4,19,34,49 * * * * *', run: () => resting.pass() },
    // On the default schedule, runs a few seconds after each market refresh.
    { name: 'settle-markets', schedule: '8,38 * * * * *', run: () => settlement.settle() },
    { name: 'record-portfolio-history', schedule: '15 */15 * * * *', run: () => settlement.recordHistory() },
    { name: 'clean-up-trading', schedule: '0 41 * * * *', run: () => settlement.cleanUp() },
    // On the default schedule, runs a few seconds after each market refresh.
    ...(isReplay
      ? []
      : [
          { name: 'mark-fills', schedule: '12,42 * * * * *', run: () => marker.mark() },
          // Runs only after the demo's trades, which reconstruct the same forecasts.
          { name: 'backfill-forecasts', schedule: '5 * * * * *', run: () => background.fillPast() },
          // New data arrive only a few times a day. Before the past is filled in, there is too little to learn from.
          { name: 'train-forecasts', schedule: '25 * * * * *', run: () => learn() },
          // A record is due only every five minutes. Simulated prices follow the forecasts that the past has taught.
          { name: 'record-prices', schedule: '18 * * * * *', run: () => prices.record() },
        ]),
  ];
};

const learningJobs = ({ scores, background, prices }: TradingServices): Job[] => [
  { name: 'clean-up-forecasts', schedule: '0 47 * * * *', run: () => background.cleanUp() },
  { name: 'record-forecasts', schedule: '10 * * * * *', run: () => scores.record() },
  { name: 'score-forecasts', schedule: '40 */5 * * * *', run: () => scores.score() },
  { name: 'judge-gates', schedule: '50 */5 * * * *', run: () => background.judge() },
  { name: 'clean-up-prices', schedule: '0 51 * * * *', run: () => prices.cleanUp() },
];

/** @param seconds a divisor of 60 */
const everySeconds = (seconds: number): string => (seconds === 60 ? '0 * * * * *' : `*/${seconds} * * * * *`);

export type TradingServices = ReturnType<typeof createTradingServices>;

export interface TradingOverrides {
  markets?: MarketSource;
  weather?: WeatherSource;
  streamLimits?: Partial<StreamLimits>;
  refreshTimes?: Pick<RefreshDeps, 'timeOutMs' | 'forecastWaitMs'>;
  /** From a tape: no source is queried, and nothing is trained or scored. */
  replay?: TapePlayer;
  live?: LiveExecutor;
  /** Replaces a paper order's simulated latency. */
  onTheWay?: (ms: number) => Promise<void>;
  liveTimings?: Partial<LiveTimings>;
  streamTimings?: Partial<KeptBooksTimings>;
  venueBudget?: VenueBudget;
  /** In a simulated world; 0 for none. Default: 75. */
  pastDays?: number;
  /** Default: on this thread. */
  startBackground?: (deps: BackgroundDeps, options: BackgroundOptions) => Background;
  /** Default: all of the simulated world. */
  selection?: Selection;
}

export function createTradingServices(context: WorkContext, overrides: TradingOverrides = {}) {
  const { db, clock, log, config, metrics, lifecycle } = context;
  const { kalshi, paperCash, tapeFile } = config.trading;
  if (tapeFile !== undefined && !overrides.replay) requireTapeTarget(tapeFile);
  const key = readVenueKey(kalshi, log);
  const budget = overrides.venueBudget ?? createVenueBudget();
  const store = createSnapshotStore();
  const calibration = createCalibrationStore(undefined, metrics);
  const parts = { key, budget, store, calibration };
  const { markets, weather, index, minutes, world } = chooseSources(context, overrides, parts);
  const shared = { store, calibration, names: { marketSource: markets.name, forecastSource: weather.name } };
  const { refresher, tape } = createSnapshots(context, overrides, { ...shared, markets, weather, index });
  const prints = tapedPrints(markets, tape, clock);
  const printFollower =
    tape && createPrintFollower({ prints, tickers: () => signalTickers(store.current), clock, log });
  const learning = createLearning(context, overrides, {
    ...shared,
    world,
    furtherModels: weather.furtherModels,
  });
  const stream = createMarketStream({ store, metrics, log, lifecycle, limits: overrides.streamLimits });
  const { liveTimings: timings, streamTimings } = overrides;
  const live = createLiveTrading(context, { key, budget, timings, streamTimings });
  const executor = overrides.live ?? live;
  const resting = createResting(context, { markets: prints, snapshots: store, live: executor });
  const history = createPortfolioHistory({ db, clock, log, snapshots: store, paperCash });
  const settlement = createSettlement({ ...context, markets, snapshots: store, history });
  const marker = createMarker({ ...context, markets: prints, books: createBookMemory({ store, clock }) });
  const queueWatch = live && createQueueWatch(context, { live, markets: prints, snapshots: store });
  const climate = createClimate(context, overrides, store);
  return {
    markets,
    snapshots: store,
    calibration,
    ...learning,
    refresher,
    stream,
    orders: createOrders(context, {
      snapshots: store,
      live: executor,
      resting,
      onTheWay: overrides.onTheWay,
    }),
    resting,
    live,
    prices: createPriceRecorder({ db, store, clock }),
    marker,
    /** Undefined without live trading. */
    queueWatch,
    printFollower,
    settlement,
    /** Undefined in a simulated world. */
    climate,
    /** Both are undefined in a simulated world. */
    index,
    minutes,
    /** From a tape, so there is nothing to learn. */
    isReplay: overrides.replay !== undefined,
    async stop(): Promise<void> {
      stream.stop();
      printFollower?.stop();
      await Promise.all([
        learning.background.stop(),
        refresher.stop(),
        live?.stop(),
        settlement.stop(),
        resting.stop(),
        marker.stop(),
        queueWatch?.stop(),
        climate?.stop(),
      ]);
      await tape?.close();
    },
  };
}

interface Shared {
  store: SnapshotStore;
  calibration: CalibrationStore;
  names: SourceNames;
}

/** The configured ones unless a tape or the caller provides others. */
function chooseSources(
  { db, clock, log, config, metrics }: WorkContext,
  { markets, weather, replay, streamTimings, selection }: TradingOverrides,
  shared: Pick<SourceOptions, 'key' | 'budget'> & Pick<Shared, 'store' | 'calibration'>,
): Sources {
  const { key, budget, store, calibration } = shared;
  const held = createHeldTickers({ db, log });
  const sources = createSources({
    config: config.trading,
    key,
    budget,
    interest: () => new Set([...held.current(), ...signalTickers(store.current)]),
    wantedStations: () => stationsOfInterest(store.current, held.current()),
    observations: [
      {
        name: 'climate reports',
        everyMs: MINUTE_MS,
        read: () => readObserved(db.orm, new Date(clock.now() - 2 * DAY_MS).toISOString().slice(0, 10)),
      },
    ],
    stream: { metrics, timings: streamTimings },
    clock,
    log,
    selection,
    fits: () => calibration.current.fits,
  });
  const taped = replay && tapedMarkets(replay.marketSource, store);
  return { ...sources, markets: markets ?? taped ?? sources.markets, weather: weather ?? sources.weather };
}

/** The tape records live snapshots only. */
function createSnapshots(
  { clock, log, config, metrics }: WorkContext,
  { replay, refreshTimes }: TradingOverrides,
  { index, names, ...parts }: Shared & Pick<Sources, 'markets' | 'weather' | 'index'>,
): { refresher: Refresher; tape: TapeWriter | undefined } {
  const { tapeFile, paperCash: bankroll } = config.trading;
  if (replay)
    return {
      refresher: replay.createRefresher({ store: parts.store, model: calibratedModel, log }),
      tape: undefined,
    };
  const tape =
    tapeFile === undefined
      ? undefined
      : createTapeWriter({ file: tapeFile, header: { ...names, bankroll }, log });
  const refresher = createRefresher({
    ...parts,
    minutes: index,
    model: calibratedModel,
    bankroll,
    clock,
    log,
    metrics,
    tape,
    ...refreshTimes,
  });
  return { refresher, tape };
}

function createLearning(
  { db, clock, log, config }: WorkContext,
  { pastDays = PAST_DAYS, startBackground, markets, weather, replay }: TradingOverrides,
  shared: Shared & Pick<Sources, 'world'> & Pick<WeatherSource, 'furtherModels'>,
) {
  const { store, calibration, names, world, furtherModels } = shared;
  const { marketSource, forecastSource } = config.trading;
  const isInvented =
    marketSource === 'simulated' && forecastSource === 'simulated' && !markets && !weather && !replay;
  const deps = { db, clock, log, calibration };
  const options = { names, furtherModels, pastDays: isInvented && pastDays > 0 ? pastDays : undefined };
  const local = startBackground ? undefined : createBackground(deps, options, world);
  const background = local ?? startBackground!(deps, options);
  const collect = createCollector((news) => background.learn(news));
  return {
    background,
    /** Undefined if the background work runs elsewhere. */
    local,
    learn: () => collect(store.current),
    scores: createScoreKeeper({ db, store, ...names, clock, log, judge: () => background.judge() }),
    scoreReport: createScoreReport({ db, clock, sources: names, calibration }),
  };
}

function createClimate(context: WorkContext, { replay }: TradingOverrides, snapshots: SnapshotStore) {
  const { marketSource, nwsBaseUrl: baseUrl } = context.config.trading;
  if (marketSource !== 'kalshi' || replay) return undefined;
  return createClimateWatch({ ...context, reader: createClimateReader({ baseUrl }), snapshots });
}
