import { isIP } from 'node:net';
import { validate } from 'node-cron';
import { z } from 'zod';
import type { TradingConfig } from './trading/config.js';
import { parseDollars } from './trading/market/money.js';
import { productionProblems } from './config-production.js';
import { ConfigError, type OperatorToken, type ServiceConfig } from './core/config.js';

const whole = (fallback: number, max = 1_000_000_000) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(1, 'must be at least 1').max(max, `must be at most ${max}`))
    .default(fallback);

const url = (protocols: RegExp, example: string) =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && protocols.test(new URL(value).protocol),
      `must be a URL like ${example}`,
    );

const environment = z.object({
  NODE_ENV: z.enum(['development', 'test', 'production']).default('development'),
  PORT: z
    .string()
    .regex(/^\d{1,5}$/, 'must be a port number')
    .transform(Number)
    .pipe(z.number().max(65_535, 'must be at most 65535'))
    .default(3000),
  HOST: z.string().optional(),
  DATABASE_URL: url(/^postgres(ql)?:$/, 'postgres://user:password@host:5432/gauge').optional(),
  MIGRATION_DATABASE_URL: url(/^postgres(ql)?:$/, 'postgres://owner:password@host:5432/gauge').optional(),
  DATA_DIR: z.string().default('./data'),
  REDIS_URL: url(/^rediss?:$/, 'redis://host:6379').optional(),
  SESSION_KEYS: z
    .string()
    .transform((value) => value.split(',').map((key) => key.trim()))
    .pipe(z.array(z.string().min(1, 'must not contain an empty key')).min(1))
    .optional(),
  SECRET_KEYS: z
    .string()
    .transform((value) => value.split(',').map((key) => key.trim()))
    .pipe(z.array(z.string().min(1, 'must not contain an empty key')).min(1))
    // What is encrypted must still open after a restart. It protects nothing, so production does not take it.
    .default(['a key for trying gauge']),
  AUDIT_EXPORT: z
    .string()
    .refine(isExportTarget, 'must be a file, or an https URL (http for this machine only)')
    .optional(),
  AUDIT_EXPORT_SCHEDULE: z
    .string()
    .refine(validate, 'must be a cron expression like 0 7 3 * * *')
    .default('0 7 3 * * *'),
  METRICS_TOKEN: z.string().min(32, 'must have 32 characters or more').optional(),
  PUBLIC_URL: z
    .string()
    .refine(isOrigin, 'must be an origin like https://gauge.example.com, without a path')
    .optional(),
  OPERATOR_TOKEN: z.string().min(32, 'must have 32 characters or more').optional(),
  OPERATOR_TOKENS: z
    .string()
    .transform((value) => value.split(',').map((part) => part.trim()))
    .pipe(
      z.array(
        z
          .string()
          .regex(
            /^[a-z0-9][a-z0-9-]{0,31}:.{32,}$/s,
            'must be name:token, separated by commas, each name of a-z, 0-9 and -, each token of 32 characters or more',
          ),
      ),
    )
    .optional(),
  CORS_ORIGINS: z
    .string()
    .transform((value) => value.split(',').map((origin) => origin.trim()))
    .pipe(
      z.array(
        z.string().refine(isOrigin, 'must be origins like https://app.example.com, separated by commas'),
      ),
    )
    .optional(),
  TRUST_PROXY: z
    .string()
    .refine(
      isTrustProxy,
      'must be a number of proxies, true, false, or addresses and networks separated by commas',
    )
    .optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  MARKET_SOURCE: z.enum(['simulated', 'kalshi']).default('simulated'),
  KALSHI_BASE_URL: url(/^https?:$/, 'https://external-api.kalshi.com/trade-api/v2').default(
    'https://external-api.kalshi.com/trade-api/v2',
  ),
  KALSHI_WS_URL: url(/^wss?:$/, 'wss://external-api-ws.kalshi.com/trade-api/ws/v2').optional(),
  KALSHI_KEY_ID: z.string().optional(),
  KALSHI_PRIVATE_KEY_FILE: z.string().optional(),
  KALSHI_SERIES: z
    .string()
    .transform((value) => value.split(',').map((ticker) => ticker.trim()))
    .pipe(
      z.array(
        z.string().regex(/^[A-Z0-9]{1,64}$/, {
          error: (issue) => `has ${JSON.stringify(issue.input)}, which is no ticker of a series`,
        }),
      ),
    )
    .optional(),
  FORECAST_SOURCE: z.enum(['simulated', 'openmeteo', 'http']).optional(),
  OPEN_METEO_BASE_URL: url(/^https?:$/, 'https://ensemble-api.open-meteo.com').default(
    'https://ensemble-api.open-meteo.com',
  ),
  OPEN_METEO_HISTORY_BASE_URL: url(/^https?:$/, 'https://previous-runs-api.open-meteo.com').default(
    'https://previous-runs-api.open-meteo.com',
  ),
  MODEL_URL: url(/^https?:$/, 'http://127.0.0.1:8080/forecasts').optional(),
  NWS_BASE_URL: url(/^https?:$/, 'https://api.weather.gov').default('https://api.weather.gov'),
  PAPER_CASH: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be an amount in dollars like 1000.00')
    .default('1000.00'),
  TAPE_FILE: z.string().optional(),
  LIVE_TRADING: z.enum(['off', 'on']).default('off'),
  LIVE_TRADING_ORG: z.string().optional(),
  REFRESH_SECONDS: whole(30).refine(
    (seconds) => 60 % seconds === 0,
    'must divide a minute evenly, like 10, 15 or 30',
  ),
  LIMIT_USAGE_PER_MINUTE: whole(600),
  LIMIT_ENTITLEMENTS_PER_MINUTE: whole(1200),
  LIMIT_TRADING_PER_MINUTE: whole(600),
  LIMIT_KEY_CHANGES_PER_HOUR: whole(10),
  LIMIT_READS_PER_MINUTE: whole(600),
  LIMIT_DOCUMENTS_PER_MINUTE: whole(300),
  LIMIT_DASHBOARD_PER_MINUTE: whole(300),
  LIMIT_CONNECTIONS: whole(10_000),
  LIMIT_CONNECTIONS_PER_ADDRESS: whole(4_000),
  LIMIT_BUFFERED_MB: whole(64, 100_000),
});

export interface Config extends ServiceConfig {
  trading: TradingConfig;
}

/**
 * Reads the environment. An empty variable counts as unset, as compose files and shells produce them.
 * @throws ConfigError with every problem at once
 */
export function readConfig(env: Record<string, string | undefined>): Config {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== ''),
  );
  const parsed = environment.safeParse(given);
  const problems = parsed.success
    ? []
    : parsed.error.issues.map((issue) => `${issue.path[0] as string}: ${issue.message}`);
  const production = given.NODE_ENV === 'production';
  const known = Object.fromEntries(Object.entries(given).filter(([name]) => name in environment.shape));
  if (production) problems.push(...productionProblems(known));
  problems.push(...tradingProblems(given));
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const e = parsed.data;
  const trustProxy = parseTrustProxy(e.TRUST_PROXY);
  return {
    production,
    port: e.PORT,
    // The demo prints its passwords: it listens on this machine only, unless it is told otherwise.
    host: e.HOST ?? (production ? '0.0.0.0' : '127.0.0.1'),
    databaseUrl: e.DATABASE_URL,
    migrationDatabaseUrl: e.MIGRATION_DATABASE_URL,
    dataDir: e.DATA_DIR,
    redisUrl: e.REDIS_URL,
    sessionKeys: e.SESSION_KEYS,
    secretKeys: e.SECRET_KEYS,
    auditExport:
      e.AUDIT_EXPORT === undefined
        ? undefined
        : { target: e.AUDIT_EXPORT, schedule: e.AUDIT_EXPORT_SCHEDULE },
    operatorTokens: readOperatorTokens(e.OPERATOR_TOKEN, e.OPERATOR_TOKENS),
    metricsToken: e.METRICS_TOKEN,
    publicUrl: e.PUBLIC_URL,
    trustProxy,
    logLevel: e.LOG_LEVEL,
    corsOrigins: e.CORS_ORIGINS ?? [],
    trading: {
      marketSource: e.MARKET_SOURCE,
      kalshi: {
        baseUrl: e.KALSHI_BASE_URL.replace(/\/+$/, ''),
        wsUrl: e.KALSHI_WS_URL ?? streamUrlOf(e.KALSHI_BASE_URL),
        keyId: e.KALSHI_KEY_ID,
        privateKeyFile: e.KALSHI_PRIVATE_KEY_FILE,
        series: e.KALSHI_SERIES,
      },
      // A forecast of an invented world says nothing about real markets, and the other way round.
      forecastSource: e.FORECAST_SOURCE ?? (e.MARKET_SOURCE === 'kalshi' ? 'openmeteo' : 'simulated'),
      openMeteoBaseUrl: e.OPEN_METEO_BASE_URL.replace(/\/+$/, ''),
      openMeteoHistoryBaseUrl: e.OPEN_METEO_HISTORY_BASE_URL.replace(/\/+$/, ''),
      modelUrl: e.MODEL_URL,
      nwsBaseUrl: e.NWS_BASE_URL.replace(/\/+$/, ''),
      paperCash: parseDollars(e.PAPER_CASH),
      tapeFile: e.TAPE_FILE,
      liveOrg: e.LIVE_TRADING === 'on' ? e.LIVE_TRADING_ORG : undefined,
      refreshSeconds: e.REFRESH_SECONDS,
    },
    limits: {
      usagePerMinute: e.LIMIT_USAGE_PER_MINUTE,
      entitlementsPerMinute: e.LIMIT_ENTITLEMENTS_PER_MINUTE,
      tradingPerMinute: e.LIMIT_TRADING_PER_MINUTE,
      keyChangesPerHour: e.LIMIT_KEY_CHANGES_PER_HOUR,
      readsPerMinute: e.LIMIT_READS_PER_MINUTE,
      documentsPerMinute: e.LIMIT_DOCUMENTS_PER_MINUTE,
      dashboardPerMinute: e.LIMIT_DASHBOARD_PER_MINUTE,
      connections: {
        connections: e.LIMIT_CONNECTIONS,
        connectionsPerAddress: trustProxy ? Infinity : e.LIMIT_CONNECTIONS_PER_ADDRESS,
        bufferedBytes: e.LIMIT_BUFFERED_MB * 1024 * 1024,
      },
    },
  };
}

/** The venue's newer hosts have one of their own for it; the shared ones do not. */
function streamUrlOf(baseUrl: string): string {
  const { protocol, host } = new URL(baseUrl);
  const name = host.replace(/^external-api\./, 'external-api-ws.');
  return `${protocol === 'https:' ? 'wss' : 'ws'}://${name}/trade-api/ws/v2`;
}

function readOperatorTokens(unnamed: string | undefined, named: string[] = []): OperatorToken[] {
  const tokens = named.map((part) => {
    const colon = part.indexOf(':');
    return { actor: `operator:${part.slice(0, colon)}`, token: part.slice(colon + 1) };
  });
  return unnamed === undefined ? tokens : [{ actor: 'operator', token: unnamed }, ...tokens];
}

function tradingProblems(env: Record<string, string | undefined>): string[] {
  const problems: string[] = [];
  const isKalshi = env.MARKET_SOURCE === 'kalshi';
  if ((env.KALSHI_KEY_ID === undefined) !== (env.KALSHI_PRIVATE_KEY_FILE === undefined))
    problems.push('KALSHI_KEY_ID, KALSHI_PRIVATE_KEY_FILE: are needed both, or neither of them');
  // A model of the operator's own knows which world it is about.
  if (env.FORECAST_SOURCE === 'http' && env.MODEL_URL === undefined)
    problems.push('MODEL_URL: is required while FORECAST_SOURCE is http: where the model answers');
  if (env.FORECAST_SOURCE === (isKalshi ? 'simulated' : 'openmeteo'))
    problems.push(
      `FORECAST_SOURCE: must be ${isKalshi ? 'openmeteo' : 'simulated'} while MARKET_SOURCE is ${env.MARKET_SOURCE ?? 'simulated'}: an invented world's weather says nothing about the real one's markets`,
    );
  if (env.LIVE_TRADING !== 'on') return problems;
  if (!isKalshi) problems.push('LIVE_TRADING: needs MARKET_SOURCE=kalshi');
  if (env.LIVE_TRADING_ORG === undefined)
    problems.push('LIVE_TRADING_ORG: is required for live trading: the slug of the Organization that may');
  if (env.KALSHI_KEY_ID === undefined)
    problems.push('KALSHI_KEY_ID: is required for live trading, with KALSHI_PRIVATE_KEY_FILE');
  return problems;
}

/** Heads that are to prove something must not be changed on their way. */
function isExportTarget(value: string): boolean {
  if (!/^\w+:\/\//.test(value)) return true;
  if (!URL.canParse(value)) return false;
  const { protocol, hostname } = new URL(value);
  return (
    protocol === 'https:' || (protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(hostname))
  );
}

/** A scheme and a host, nothing else, as browsers send it. */
function isOrigin(value: string): boolean {
  return URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && new URL(value).origin === value;
}

/** Express takes these words for the private ranges. */
const networkNames = new Set(['loopback', 'linklocal', 'uniquelocal']);

function isTrustProxy(value: string): boolean {
  if (/^(true|false|\d{1,2})$/.test(value)) return true;
  return value.split(',').every((part) => {
    const [address = '', bits = '1', ...rest] = part.trim().split('/');
    if (networkNames.has(part.trim())) return true;
    const maxBits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0;
    return rest.length === 0 && /^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= maxBits;
  });
}

function parseTrustProxy(value: string | undefined): number | string | boolean {
  if (value === undefined || value === 'false') return false;
  if (/^\d+$/.test(value)) return Number(value);
  // Trusting every hop would let any caller choose its own address, and with it its own rate limit.
  return value === 'true' ? 1 : value;
}
