import type { Logger } from 'pino';
import type { WorkContext } from '../../core/http/context.js';
import { shareRun } from '../../core/steps.js';
import { MINUTE_MS, type Clock } from '../../core/time.js';
import type { TradingConfig } from '../config.js';
import { createHttpModelSource } from '../weather/http-model.js';
import type { Database } from '../../core/db/client.js';
import type { ObservationPart } from '../weather/weather.js';
import { createIndexReader } from '../weather/kalshi-index.js';
import { createMinuteBook } from '../weather/minutes.js';
import { createGridpoints } from '../weather/gridpoints.js';
import { createStationBulletins } from '../weather/station-bulletins.js';
import { createObservationReader } from '../weather/nws-observations.js';
import { createOpenMeteoSource } from '../weather/open-meteo.js';
import { createSimulatedWeatherSource, readWeatherOf } from '../weather/simulated.js';
import { calibratedModel } from '../learning/calibrated.js';
import type { FitBook } from '../learning/fits.js';
import { signRequest, type VenueKey } from '../live/sign.js';
import { isPlaced } from '../market/market.js';
import { listHeldTickers, listRestingTickers } from '../ledger/queries.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { createKalshiClient } from '../venue/kalshi-client.js';
import { createKalshiSource } from '../venue/kalshi.js';
import { createSimulatedSource } from '../venue/simulated.js';
import { createWorld, type SimulatedWorld } from '../venue/simulation/weather.js';
import type { Selection } from '../venue/simulation/world.js';
import { createKeptBooks, type KeptBooksOptions } from '../venue/socket/kept-books.js';
import type { VenueBudget } from '../venue/venue-budget.js';

/** More would have little effect. */
const MAX_HELD = 200;

/** As of the last lookup. Each call starts a new one in the background. */
export function createHeldTickers({ db, log }: { db: Database; log: Pick<Logger, 'warn'> }) {
  let tickers: readonly string[] = [];
  async function ask(): Promise<void> {
    try {
      const found = [
        ...(await listRestingTickers(db.orm, MAX_HELD)),
        ...(await listHeldTickers(db.orm, '', MAX_HELD)),
      ];
      tickers = found.map(({ ticker }) => ticker);
    } catch (error) {
      // Only the order in which books are read depends on it.
      log.warn({ err: error }, 'holdings could not be read; books are read in the previous order');
    }
  }

  const asking = shareRun(ask);
  return {
    current(): readonly string[] {
      void asking.run();
      return tickers;
    },
  };
}

export const signalTickers = (snapshot: Snapshot | undefined): string[] =>
  (snapshot?.signals.events ?? []).flatMap(({ signals }) => signals.map(({ market }) => market.ticker));

/** Stations with open daily markets, or with markets in which something is held or rests. */
export function stationsOfInterest(snapshot: Snapshot | undefined, held: readonly string[]): Set<string> {
  const isHeld = new Set(held);
  const markets = (snapshot?.data.markets ?? []).filter(isPlaced);
  return new Set(
    markets
      .filter(({ kind, status, ticker }) => kind !== 'hourly' && (status === 'active' || isHeld.has(ticker)))
      .map(({ station }) => station.id),
  );
}

/** 24 stations need 7,000 requests a day. The weather service asks clients to request no more than they need. */
const OBSERVATIONS_EVERY_MS = 5 * MINUTE_MS;

export interface SourceOptions extends Pick<WorkContext, 'clock' | 'log'> {
  config: TradingConfig;
  /** Without a key, only public data is read. */
  key: VenueKey | undefined;
  budget: VenueBudget;
  /** Their books are read first. */
  interest?: () => ReadonlySet<string>;
  /** Their one-minute readings are read. */
  wantedStations?: () => ReadonlySet<string>;
  observations?: readonly ObservationPart[] | undefined;
  /** Default: no updates between reads. */
  stream?: Pick<KeptBooksOptions, 'metrics' | 'timings'>;
  /** Default: all of the simulated world. */
  selection?: Selection | undefined;
  /** Some traders of the simulated world follow the forecasts made with them. Default: no trader does. */
  fits?: () => FitBook;
}

export type Sources = ReturnType<typeof createSources>;

/** `index` and `minutes` are undefined in a simulated world. */
export function createSources(options: SourceOptions) {
  const { config, key, budget, interest, stream, clock, log, selection, fits } = options;
  const { kalshi, openMeteoBaseUrl, openMeteoHistoryBaseUrl, openMeteoApiKey, nwsBaseUrl, modelUrl } = config;
  const world = createWorld();
  const client = createKalshiClient({
    baseUrl: kalshi.baseUrl,
    budget,
    headers: key && signerOf(key, clock),
  });
  const minutes = config.marketSource === 'kalshi' ? createMinuteBook() : undefined;
  const index = minutes && createIndexReader({ client, clock, log, minutes, wanted: options.wantedStations });
  const createMarkets = {
    simulated: () =>
      createSimulatedSource(
        { ...world, clock, ...(fits && { forecast: forecasterIn(world, fits) }) },
        selection,
      ),
    kalshi: () =>
      createKalshiSource({
        client,
        series: kalshi.series,
        budget,
        interest,
        keepBooks:
          key &&
          stream &&
          (() =>
            createKeptBooks({
              url: kalshi.wsUrl,
              headers: signerOf(key, clock),
              log,
              clock,
              clockSkewMs: () => client.clockSkewMs,
              ...stream,
            })),
        clock,
        log,
      }),
  };
  const observed = {
    observations: observationParts(options, world, index !== undefined),
    minutes: index && {
      get values() {
        return index.values;
      },
      addTo: minutes.addTo,
    },
  };
  const mesonet = { baseUrl: config.mesonetBaseUrl, clock, log };
  const createWeather = {
    simulated: () => createSimulatedWeatherSource({ ...world, clock }, selection),
    openmeteo: () =>
      createOpenMeteoSource({
        baseUrl: openMeteoBaseUrl,
        historyBaseUrl: openMeteoHistoryBaseUrl,
        apiKey: openMeteoApiKey,
        ...observed,
        byPlace: config.hasStationForecasts
          ? [createStationBulletins(mesonet), createGridpoints({ baseUrl: nwsBaseUrl, clock, log })]
          : [],
        clock,
        log,
      }),
    http: () => createHttpModelSource({ url: modelUrl!, ...observed, clock, log }),
  };

  return {
    markets: createMarkets[config.marketSource](),
    weather: createWeather[config.forecastSource](),
    index,
    minutes,
    world,
  };
}

/** As the service forecasts from the same weather, once it has learned to. */
export const forecasterIn =
  (world: Pick<SimulatedWorld, 'weather'>, fits: () => FitBook): NonNullable<SimulatedWorld['forecast']> =>
  (subject, at) => {
    const weather = readWeatherOf(world, [subject], at);
    const made = calibratedModel({ source: 'simulated', weather, events: [], fits: fits(), at });
    const day = made.get(subject.station.id)?.days[0];
    return day?.isCalibrated ? day.distribution : undefined;
  };

function observationParts(
  { config, clock, log, observations = [] }: SourceOptions,
  world: ReturnType<typeof createWorld>,
  isReal: boolean,
): ObservationPart[] {
  const weather = createSimulatedWeatherSource({ ...world, clock });
  const reader =
    config.marketSource === 'kalshi' || config.forecastSource === 'openmeteo'
      ? createObservationReader({ baseUrl: config.nwsBaseUrl, clock, log })
      : { read: async (signal: AbortSignal) => (await weather.read(signal)).observed };
  const stations = { name: 'observations', everyMs: OBSERVATIONS_EVERY_MS, ...reader };
  return isReal ? [stations, ...observations] : [stations];
}

/** Some endpoints require a signature. */
const signerOf = (key: VenueKey, clock: Clock) => (method: string, path: string) =>
  signRequest(key, { atMs: clock.now(), method, path });
