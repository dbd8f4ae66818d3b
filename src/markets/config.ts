import { z } from 'zod';
import { configPart, isOrigin, listField, urlField, wholeNumber } from '../core/config.js';
import { parseDollars } from './market/money.js';

/** For non-commercial use. Subscribers use the same names with the prefix `customer-`. */
const FREE_ENSEMBLES = 'https://ensemble-api.open-meteo.com';
const FREE_RUNS = 'https://previous-runs-api.open-meteo.com';

const toCustomerHost = (freeHost: string): string => freeHost.replace('://', '://customer-');

const isFreeHost = (url: string): boolean =>
  URL.canParse(url) && /^(?!customer-)[\w.-]+\.open-meteo\.com$/.test(new URL(url).hostname);

/** Also shown by `venue:check` and on the console. */
export const FREE_FORECASTS =
  'Forecasts come from the free service of Open-Meteo, which is for non-commercial use. Commercial use needs an Open-Meteo subscription that includes ensembles and previous runs, with its key in OPEN_METEO_API_KEY.';

const tradingEnvironment = {
  MARKETS: z.enum(['on', 'off']).optional(),
  MARKET_SOURCE: z.enum(['simulated', 'kalshi']).optional(),
  KALSHI_BASE_URL: urlField(/^https?:$/, 'https://external-api.kalshi.com/trade-api/v2').default(
    'https://external-api.kalshi.com/trade-api/v2',
  ),
  KALSHI_WS_URL: urlField(/^wss?:$/, 'wss://external-api-ws.kalshi.com/trade-api/ws/v2').optional(),
  KALSHI_KEY_ID: z.string().optional(),
  KALSHI_PRIVATE_KEY_FILE: z.string().optional(),
  KALSHI_SERIES: z
    .string()
    .transform((value) => value.split(',').map((ticker) => ticker.trim()))
    .pipe(
      z.array(
        z.string().regex(/^[A-Z0-9]{1,64}$/, {
          error: (issue) => `has ${JSON.stringify(issue.input)}, which is not the ticker of a series`,
        }),
      ),
    )
    .optional(),
  FORECAST_SOURCE: z.enum(['simulated', 'openmeteo', 'http']).optional(),
  OPEN_METEO_BASE_URL: urlField(/^https?:$/, FREE_ENSEMBLES).optional(),
  OPEN_METEO_HISTORY_BASE_URL: urlField(/^https?:$/, FREE_RUNS).optional(),
  // Masking in the log looks for the key exactly as written here, so URL encoding must not change it.
  OPEN_METEO_API_KEY: z
    .string()
    .regex(/^[\w.~-]{8,200}$/, 'must be a subscription key: at least 8 characters of A-Z, a-z, 0-9 and -._~')
    .optional(),
  MODEL_URL: urlField(/^https?:$/, 'http://127.0.0.1:8080/forecasts').optional(),
  STATION_FORECASTS: z.enum(['on', 'off']).default('on'),
  MESONET_BASE_URL: urlField(/^https?:$/, 'https://mesonet.agron.iastate.edu').default(
    'https://mesonet.agron.iastate.edu',
  ),
  NWS_BASE_URL: urlField(/^https?:$/, 'https://api.weather.gov').default('https://api.weather.gov'),
  PAPER_CASH: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be an amount in dollars like 1000.00')
    .default('1000.00'),
  PAPER_LATENCY_MS: z
    .string()
    .regex(/^\d{1,5}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().max(10_000, 'must be at most 10000'))
    .default(250),
  TAPE_FILE: z.string().optional(),
  LIVE_TRADING: z.enum(['off', 'on']).default('off'),
  LIVE_TRADING_ORG: z.string().optional(),
  REFRESH_SECONDS: wholeNumber(30).refine(
    (seconds) => 60 % seconds === 0,
    'must divide a minute evenly, like 10, 15 or 30',
  ),
  CORS_ORIGINS: listField(
    z.string().refine(isOrigin, 'must be origins like https://app.example.com, separated by commas'),
  ).optional(),
  LIMIT_TRADING_PER_MINUTE: wholeNumber(600),
  LIMIT_READS_PER_MINUTE: wholeNumber(600),
};

export type TradingConfig = ReturnType<typeof readTradingConfig>;

type Environment = z.output<z.ZodObject<typeof tradingEnvironment>>;

interface MarketsConfig {
  trading: TradingConfig;
  corsOrigins: string[];
}

interface MarketLimits {
  /** Per key. */
  tradingPerMinute: number;
  /** Per IP address. */
  readsPerMinute: number;
}

declare module '../core/config.js' {
  interface ServiceConfig extends MarketsConfig {}
  interface Limits extends MarketLimits {}
}

export const marketsConfig = configPart(
  tradingEnvironment,
  (e, { NODE_ENV }) => {
    const trading = readTradingConfig(e);
    const hasMarkets = isOn(e, NODE_ENV === 'production');
    return {
      hasMarkets,
      firstMarketAccess: hasMarkets && trading.marketSource === 'simulated' ? 'trade' : 'none',
      trading,
      corsOrigins: e.CORS_ORIGINS ?? [],
      limits: { tradingPerMinute: e.LIMIT_TRADING_PER_MINUTE, readsPerMinute: e.LIMIT_READS_PER_MINUTE },
    };
  },
  findConflicts,
);

/** In production, the simulated world is never shown by default. */
const isOn = ({ MARKETS, MARKET_SOURCE }: Environment, production: boolean): boolean =>
  MARKETS === undefined ? !production || MARKET_SOURCE !== undefined : MARKETS === 'on';

function readTradingConfig(e: Environment) {
  // Forecasts of a simulated world say nothing about real markets, and vice versa.
  const forecastSource =
    e.FORECAST_SOURCE ?? (e.MARKET_SOURCE === 'kalshi' ? ('openmeteo' as const) : ('simulated' as const));
  const openMeteoUrls = [
    toOpenMeteoUrl(e, e.OPEN_METEO_BASE_URL, FREE_ENSEMBLES),
    toOpenMeteoUrl(e, e.OPEN_METEO_HISTORY_BASE_URL, FREE_RUNS),
  ] as const;
  return {
    marketSource: e.MARKET_SOURCE ?? ('simulated' as const),
    kalshi: {
      baseUrl: e.KALSHI_BASE_URL.replace(/\/+$/, ''),
      /** Used only with a key. */
      wsUrl: e.KALSHI_WS_URL ?? streamUrlOf(e.KALSHI_BASE_URL),
      /** Without a key and its file, only public data is read. */
      keyId: e.KALSHI_KEY_ID,
      privateKeyFile: e.KALSHI_PRIVATE_KEY_FILE,
      /** Default: the venue's climate category. */
      series: e.KALSHI_SERIES,
    },
    forecastSource,
    /** For ensembles. */
    openMeteoBaseUrl: openMeteoUrls[0],
    /** For individual runs, current and past. */
    openMeteoHistoryBaseUrl: openMeteoUrls[1],
    openMeteoApiKey: e.OPEN_METEO_API_KEY,
    /** Free for non-commercial use only. */
    hasFreeForecasts: forecastSource === 'openmeteo' && openMeteoUrls.some(isFreeHost),
    /** Set whenever the model is the forecast source. */
    modelUrl: e.MODEL_URL,
    /** Supplement Open-Meteo's models. */
    hasStationForecasts: e.STATION_FORECASTS === 'on',
    mesonetBaseUrl: e.MESONET_BASE_URL.replace(/\/+$/, ''),
    nwsBaseUrl: e.NWS_BASE_URL.replace(/\/+$/, ''),
    paperCash: parseDollars(e.PAPER_CASH),
    paperLatencyMs: e.PAPER_LATENCY_MS,
    /** Each refresh's inputs; undefined disables the tape. */
    tapeFile: e.TAPE_FILE,
    /** The only Organization allowed to trade live; undefined if live trading is off. */
    liveOrg: e.LIVE_TRADING === 'on' ? e.LIVE_TRADING_ORG : undefined,
    refreshSeconds: e.REFRESH_SECONDS,
  };
}

function toOpenMeteoUrl(e: Environment, given: string | undefined, free: string): string {
  const chosen = given ?? (e.OPEN_METEO_API_KEY === undefined ? free : toCustomerHost(free));
  return chosen.replace(/\/+$/, '');
}

/** Newer API hosts have a separate host name for streams, older ones do not. */
function streamUrlOf(baseUrl: string): string {
  const { protocol, host } = new URL(baseUrl);
  const name = host.replace(/^external-api\./, 'external-api-ws.');
  return `${protocol === 'https:' ? 'wss' : 'ws'}://${name}/trade-api/ws/v2`;
}

function findConflicts(env: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  const isKalshi = env.MARKET_SOURCE === 'kalshi';
  if ((env.KALSHI_KEY_ID === undefined) !== (env.KALSHI_PRIVATE_KEY_FILE === undefined))
    problems.push('KALSHI_KEY_ID, KALSHI_PRIVATE_KEY_FILE: must be set together');
  // An operator's own model may forecast either world over `http`.
  if (env.FORECAST_SOURCE === 'http' && env.MODEL_URL === undefined)
    problems.push('MODEL_URL: is required if FORECAST_SOURCE is http. It is the address of the model');
  if (env.FORECAST_SOURCE === (isKalshi ? 'simulated' : 'openmeteo'))
    problems.push(
      `FORECAST_SOURCE: must be ${isKalshi ? 'openmeteo' : 'simulated'} while MARKET_SOURCE is ${env.MARKET_SOURCE ?? 'simulated'}: simulated weather does not predict real markets`,
    );
  if (env.OPEN_METEO_API_KEY !== undefined)
    for (const [name, free] of [
      ['OPEN_METEO_BASE_URL', FREE_ENSEMBLES],
      ['OPEN_METEO_HISTORY_BASE_URL', FREE_RUNS],
    ] as const)
      if (isFreeHost(env[name] ?? ''))
        problems.push(
          `${name}: must be left out, or ${toCustomerHost(free)}, if OPEN_METEO_API_KEY is set, because the free host accepts no key`,
        );
  if (env.LIVE_TRADING !== 'on') return problems;
  if (env.MARKETS === 'off') problems.push('LIVE_TRADING: needs MARKETS=on');
  if (!isKalshi) problems.push('LIVE_TRADING: needs MARKET_SOURCE=kalshi');
  if (env.LIVE_TRADING_ORG === undefined)
    problems.push(
      'LIVE_TRADING_ORG: is required for live trading. Set it to the slug of the Organization that may trade live',
    );
  if (env.KALSHI_KEY_ID === undefined)
    problems.push('KALSHI_KEY_ID: is required for live trading, with KALSHI_PRIVATE_KEY_FILE');
  return problems;
}
