import { isIP } from 'node:net';
import { z } from 'zod';

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
  DATA_DIR: z.string().default('./data'),
  REDIS_URL: url(/^rediss?:$/, 'redis://host:6379').optional(),
  SESSION_KEYS: z
    .string()
    .transform((value) => value.split(',').map((key) => key.trim()))
    .pipe(z.array(z.string().min(1, 'must not contain an empty key')).min(1))
    .optional(),
  OPERATOR_TOKEN: z.string().min(32, 'must have 32 characters or more').optional(),
  TRUST_PROXY: z
    .string()
    .refine(
      isTrustProxy,
      'must be a number of proxies, true, false, or addresses and networks separated by commas',
    )
    .optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  LIMIT_USAGE_PER_MINUTE: whole(600),
  LIMIT_ENTITLEMENTS_PER_MINUTE: whole(1200),
  LIMIT_KEY_CHANGES_PER_HOUR: whole(10),
});

export interface Config {
  production: boolean;
  port: number;
  host: string;
  databaseUrl: string | undefined;
  dataDir: string;
  redisUrl: string | undefined;
  /** Keys that sign the session cookie, newest first; undefined only outside production. */
  sessionKeys: string[] | undefined;
  operatorToken: string | undefined;
  /** Express's `trust proxy`: a number of hops, addresses, or false. */
  trustProxy: number | string | boolean;
  logLevel: string;
  limits: { usagePerMinute: number; entitlementsPerMinute: number; keyChangesPerHour: number };
}

/** The environment does not describe a service that may run; the message lists every problem. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    );
  }
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
  if (production) problems.push(...productionProblems(given));
  if (!parsed.success || problems.length > 0) throw new ConfigError(problems);
  const e = parsed.data;
  return {
    production,
    port: e.PORT,
    // The demo prints its passwords: it listens on this machine only, unless it is told otherwise.
    host: e.HOST ?? (production ? '0.0.0.0' : '127.0.0.1'),
    databaseUrl: e.DATABASE_URL,
    dataDir: e.DATA_DIR,
    redisUrl: e.REDIS_URL,
    sessionKeys: e.SESSION_KEYS,
    operatorToken: e.OPERATOR_TOKEN,
    trustProxy: parseTrustProxy(e.TRUST_PROXY),
    logLevel: e.LOG_LEVEL,
    limits: {
      usagePerMinute: e.LIMIT_USAGE_PER_MINUTE,
      entitlementsPerMinute: e.LIMIT_ENTITLEMENTS_PER_MINUTE,
      keyChangesPerHour: e.LIMIT_KEY_CHANGES_PER_HOUR,
    },
  };
}

function productionProblems(env: Record<string, string | undefined>): string[] {
  const keys = env.SESSION_KEYS?.split(',') ?? [];
  if (keys.length === 0)
    return ['SESSION_KEYS: is required in production (make one with: openssl rand -hex 32)'];
  return keys.some((key) => key.trim().length < 16)
    ? ['SESSION_KEYS: each key must have 16 characters or more in production']
    : [];
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
