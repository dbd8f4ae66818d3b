import type { Logger } from 'pino';
import { MINUTE_MS, type Clock } from '../../core/time.js';
import type { TradingConfig } from '../config.js';
import { createHttpModelSource } from '../weather/http-model.js';
import type { Database } from '../../core/db/client.js';
import type { ObservationPart, WeatherSource } from '../weather/weather.js';
import { createIndexReader, type IndexReader } from '../weather/kalshi-index.js';
import { createObservationReader } from '../weather/nws-observations.js';
import { createOpenMeteoSource } from '../weather/open-meteo.js';
import { createSimulatedWeatherSource } from '../weather/simulated.js';
import { signRequest, type VenueKey } from '../live/sign.js';
import type { MarketSource } from '../market/source.js';
import { listHeldTickers, listRestingTickers } from '../ledger/queries.js';
import type { Snapshot } from '../snapshot/snapshot.js';
import { createKalshiClient } from '../venue/kalshi-client.js';
import { createKalshiSource } from '../venue/kalshi.js';
import { createSimulatedSource } from '../venue/simulated.js';
import { simulateWeather } from '../venue/simulation/weather.js';
import type { Selection, SimulatedWorld } from '../venue/simulation/world.js';
import { createKeptBooks, type KeptBooksOptions } from '../venue/socket/kept-books.js';
import type { VenueBudget } from '../venue/venue-budget.js';

/** More markets than this are never preferred: then it would be no preference. */
const MAX_HELD = 200;

/** Markets in which an account holds something or has an order resting, as of the last time this was asked; each call reads anew behind it. */
export function createHeldTickers({ db, log }: { db: Database; log: Pick<Logger, 'warn'> }) {
  let tickers: readonly string[] = [];
  let asking: Promise<void> | undefined;

  async function ask(): Promise<void> {
    try {
      const found = [
        ...(await listRestingTickers(db.orm, MAX_HELD)),
        ...(await listHeldTickers(db.orm, '', MAX_HELD)),
      ];
      tickers = found.map(({ ticker }) => ticker);
    } catch (error) {
      // The order in which books are read is no reason to fail.
      log.warn({ err: error }, 'what is held could not be looked up: books are read in the order of before');
    } finally {
      asking = undefined;
    }
  }

  return {
    current(): readonly string[] {
      asking ??= ask();
      return tickers;
    },
  };
}

/** Markets in which something is worth doing. */
export const signalTickers = (snapshot: Snapshot | undefined): string[] =>
  (snapshot?.signals.events ?? []).flatMap(({ signals }) => signals.map(({ market }) => market.ticker));

/**
 * Stations report once an hour, in between when the weather changes. 24 stations at this pace are 7,000 questions a day, four at a
 * time; the weather service names no number, and asks for no more than is needed: each brings the last three hours.
 */
const OBSERVATIONS_EVERY_MS = 5 * MINUTE_MS;

/** The invented world of the demo: the same one on every instance. */
const SEED = 'gauge';

export interface SourceOptions {
  config: TradingConfig;
  /** Of the venue; without one only what is public is read. */
  key: VenueKey | undefined;
  budget: VenueBudget;
  /** Markets whose books are read first where not all can be. */
  interest?: () => ReadonlySet<string>;
  /** What is known of days besides the stations' own reports. */
  observations?: readonly ObservationPart[] | undefined;
  /** How the venue's stream is kept; left out: nothing is heard between two reads. */
  stream?: Pick<KeptBooksOptions, 'metrics' | 'timings'>;
  clock: Clock;
  log: Logger;
  /** What there is of the invented world; left out: everything. */
  selection?: Selection | undefined;
}

export interface Sources {
  markets: MarketSource;
  weather: WeatherSource;
  /** The venue's own temperature index; undefined for an invented world. */
  index: IndexReader | undefined;
  /** What the invented world follows from. */
  world: Pick<SimulatedWorld, 'seed' | 'weather'>;
}

/** Where markets and forecasts come from, as configured. Nothing is asked yet. */
export function createSources(options: SourceOptions): Sources {
  const { config, key, budget, interest, stream, clock, log, selection, observations = [] } = options;
  const { kalshi, openMeteoBaseUrl, openMeteoHistoryBaseUrl, openMeteoApiKey, nwsBaseUrl, modelUrl } = config;
  const world = { seed: SEED, weather: simulateWeather(SEED) };
  const client = createKalshiClient({
    baseUrl: kalshi.baseUrl,
    budget,
    headers: key && signerOf(key, clock),
  });
  const index = config.marketSource === 'kalshi' ? createIndexReader({ client, clock, log }) : undefined;
  const createMarkets = {
    simulated: () => createSimulatedSource({ ...world, clock }, selection),
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
            createKeptBooks({ url: kalshi.wsUrl, headers: signerOf(key, clock), log, clock, ...stream })),
        clock,
        log,
      }),
  };
  const createWeather = {
    simulated: () => createSimulatedWeatherSource({ ...world, clock }, selection),
    openmeteo: () =>
      createOpenMeteoSource({
        baseUrl: openMeteoBaseUrl,
        historyBaseUrl: openMeteoHistoryBaseUrl,
        apiKey: openMeteoApiKey,
        observations: observationParts(),
        clock,
        log,
      }),
    http: () => createHttpModelSource({ url: modelUrl!, observations: observationParts(), clock, log }),
  };

  /** What measures in the world that the markets are about. */
  function observationParts(): ObservationPart[] {
    const weather = createSimulatedWeatherSource({ ...world, clock });
    const read =
      config.marketSource === 'kalshi' || config.forecastSource === 'openmeteo'
        ? createObservationReader({ baseUrl: nwsBaseUrl, clock, log })
        : async (signal: AbortSignal) => (await weather.read(signal)).observed;
    const stations = { name: 'observations', everyMs: OBSERVATIONS_EVERY_MS, read };
    // The index has its own pace for each area.
    return index
      ? [
          stations,
          ...observations,
          { name: 'values of the index', everyMs: 0, read: (signal) => index.read(signal) },
        ]
      : [stations];
  }

  return {
    markets: createMarkets[config.marketSource](),
    weather: createWeather[config.forecastSource](),
    index,
    world,
  };
}

/** With a key everything is read under it: some addresses answer no other caller. */
const signerOf = (key: VenueKey, clock: Clock) => (method: string, path: string) =>
  signRequest(key, { atMs: clock.now(), method, path });
