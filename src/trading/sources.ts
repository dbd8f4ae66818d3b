import type { Logger } from 'pino';
import type { Clock } from '../clock.js';
import type { TradingConfig } from '../config.js';
import { createHttpModelSource } from './forecast/http-model.js';
import type { ObservedExtreme, WeatherSource } from './forecast/forecast.js';
import { createObservationReader } from './forecast/nws-observations.js';
import { createOpenMeteoSource } from './forecast/openmeteo.js';
import { createSimulatedWeatherSource } from './forecast/simulated.js';
import { signRequest, type VenueKey } from './live/sign.js';
import { createKalshiClient } from './markets/kalshi-client.js';
import { createKalshiSource } from './markets/kalshi.js';
import { createSimulatedSource } from './markets/simulated.js';
import { createKeptBooks, type KeptBooksOptions } from './markets/socket/kept-books.js';
import type { MarketSource } from './markets/source.js';
import type { VenueBudget } from './markets/venue-budget.js';
import { simulateWeather } from './simulation/weather.js';
import type { SimulatedWorld } from './simulation/world.js';

/** The invented world of the demo: everybody who starts it sees the same one. */
const SEED = 'gauge';

export interface SourceOptions {
  config: TradingConfig;
  /** Of the venue; without one it shows what it shows to anybody. */
  key: VenueKey | undefined;
  budget: VenueBudget;
  /** Markets whose books are read first where not all can be. */
  interest?: () => ReadonlySet<string>;
  /** How the venue's stream is kept; left out: nothing is heard between two reads. */
  stream?: Pick<KeptBooksOptions, 'metrics' | 'timings'>;
  clock: Clock;
  log: Logger;
}

export interface Sources {
  markets: MarketSource;
  weather: WeatherSource;
  /** What the invented world follows from. */
  world: Pick<SimulatedWorld, 'seed' | 'weather'>;
}

/** Where markets and forecasts come from, as configured. Nothing is asked yet. */
export function createSources(options: SourceOptions): Sources {
  const { config, key, budget, interest, stream, clock, log } = options;
  const { kalshi, openMeteoBaseUrl, openMeteoHistoryBaseUrl, nwsBaseUrl, modelUrl } = config;
  const world = { seed: SEED, weather: simulateWeather(SEED) };
  const createMarkets = {
    simulated: () => createSimulatedSource({ ...world, clock }),
    kalshi: () =>
      createKalshiSource({
        client: createKalshiClient({ baseUrl: kalshi.baseUrl, budget, headers: key && signerOf(key, clock) }),
        series: kalshi.series,
        budget,
        interest,
        keepBooks:
          key &&
          stream &&
          (() => createKeptBooks({ url: kalshi.wsUrl, headers: signerOf(key, clock), log, ...stream })),
        clock,
        log,
      }),
  };
  const createWeather = {
    simulated: () => createSimulatedWeatherSource({ ...world, clock }),
    openmeteo: () =>
      createOpenMeteoSource({
        baseUrl: openMeteoBaseUrl,
        historyBaseUrl: openMeteoHistoryBaseUrl,
        nwsBaseUrl,
        clock,
        log,
      }),
    http: () => createHttpModelSource({ url: modelUrl!, observe: createObserver(), clock, log }),
  };

  /** What happens in the world that the markets are about. */
  function createObserver(): (signal: AbortSignal) => Promise<readonly ObservedExtreme[]> {
    if (config.marketSource === 'kalshi') return createObservationReader({ baseUrl: nwsBaseUrl, clock, log });
    const weather = createSimulatedWeatherSource({ ...world, clock });
    return async (signal) => (await weather.read(signal)).observed;
  }

  return {
    markets: createMarkets[config.marketSource](),
    weather: createWeather[config.forecastSource](),
    world,
  };
}

/** With a key everything is read under it: some addresses answer nobody else. */
const signerOf = (key: VenueKey, clock: Clock) => (method: string, path: string) =>
  signRequest(key, { atMs: clock.now(), method, path });
