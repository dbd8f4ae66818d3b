import { isIP } from 'node:net';
import { validate } from 'node-cron';
import { z } from 'zod';
import { withoutMarkets } from './accounts/config.js';
import { singleSignOnConfig } from './accounts/identity/single-sign-on/config.js';
import {
  ConfigError,
  configPart,
  hasReadableCredentials,
  isLoopback,
  isOrigin,
  isSecureUrl,
  listField,
  unreadableCredentials,
  urlField,
  wholeNumber,
  type Limits,
  type MailConfig,
  type OperatorToken,
  type ServiceConfig,
  proxyField,
} from './core/config.js';
import { secretsIn } from './core/log/log-mask.js';
import { SECOND_MS } from './core/time.js';
import { products } from './products.js';

type Environment = Record<string, string | undefined>;

/** In production, no security setting has a default. */
function productionProblems(env: Environment): string[] {
  return [...keyProblems(env), ...proxyProblems(env), ...addressProblems(env)];
}

function keyProblems(env: Environment): string[] {
  return ['SESSION_KEYS', 'SECRET_KEYS'].flatMap((name) => {
    const keys = env[name]?.split(',') ?? [];
    if (keys.length === 0)
      return [`${name}: is required in production. Generate one with: openssl rand -hex 32`];
    return keys.some((key) => key.trim().length < 16)
      ? [`${name}: each key must have at least 16 characters in production`]
      : [];
  });
}

function proxyProblems({ TRUST_PROXY, PUBLIC_URL }: Environment): string[] {
  const problems: string[] = [];
  if (TRUST_PROXY === undefined)
    problems.push(
      'TRUST_PROXY: is required in production. Set it to the number of proxies in front of the service, 0 for none. Address limits use the client address that they report',
    );
  if (PUBLIC_URL === undefined)
    problems.push('PUBLIC_URL: is required in production, because every link begins with it');
  else if (isPlain(PUBLIC_URL) && !isLoopback(PUBLIC_URL))
    problems.push('PUBLIC_URL: must be https in production, because people sign in there');
  return problems;
}

/** Credentials, prices and weather forecasts travel over connections to other machines. */
function addressProblems(env: Environment): string[] {
  return Object.entries(env).flatMap(([name, value = '']) => {
    if (!name.endsWith('_URL') || name === 'PUBLIC_URL' || !URL.canParse(value) || isLoopback(value))
      return [];
    const { protocol, hostname, password, searchParams } = new URL(value);
    if (/^(http|ws):$/.test(protocol))
      return [
        `${name}: must be ${protocol === 'ws:' ? 'wss' : 'https'} in production unless it points to this machine`,
      ];
    if (isNeighbour(hostname)) return [];
    if (
      /^postgres(ql)?:$/.test(protocol) &&
      !/^(require|verify-ca|verify-full)$/.test(searchParams.get('sslmode') ?? '')
    )
      return [`${name}: must have sslmode=verify-full in production unless the database is on this machine`];
    if (protocol === 'redis:')
      return [`${name}: must be rediss in production unless Redis is on this machine`];
    if (protocol === 'rediss:' && password === '') return [`${name}: must have a password in production`];
    return [];
  });
}

const isPlain = (url: string): boolean => URL.canParse(url) && new URL(url).protocol === 'http:';

/** A host name without a dot is a container on this machine, so the traffic never leaves it. */
const isNeighbour = (hostname: string): boolean =>
  !hostname.includes('.') && !hostname.startsWith('[') && isIP(hostname) === 0;

/** Optionally after a name: `Gauge <gauge@example.com>`. */
const mailFrom = /^(?:([^<>"\p{Cc}]{1,100}) <([^\s<>@,;]+@[^\s<>@,;]+)>|([^\s<>@,;]+@[^\s<>@,;]+))$/u;

function mailProblems({ SMTP_URL, MAIL_FROM, PUBLIC_URL }: Environment, production: boolean): string[] {
  if (SMTP_URL === undefined) return [];
  return [
    ...(MAIL_FROM === undefined
      ? ['MAIL_FROM: is required with SMTP_URL. Mail is sent from this address']
      : []),
    // Links in mail must not depend on the Host header of a request.
    ...(PUBLIC_URL === undefined && !production
      ? ['PUBLIC_URL: is required with SMTP_URL. Links in mail begin with it']
      : []),
  ];
}

function isSmtpUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol, hostname, pathname, search, hash } = new URL(value);
  return /^smtps?:$/.test(protocol) && hostname !== '' && /^\/?$/.test(pathname) && search + hash === '';
}

function readMail({
  SMTP_URL,
  MAIL_FROM = '',
  PUBLIC_URL = '',
  SECRET_KEYS,
}: z.output<z.ZodObject<typeof environment>>): MailConfig | undefined {
  if (SMTP_URL === undefined) return undefined;
  const { protocol, hostname, port, username, password } = new URL(SMTP_URL);
  const isNear = isLoopback(SMTP_URL) || isNeighbour(hostname);
  const [, name = '', named, address = named] = mailFrom.exec(MAIL_FROM) ?? [];
  const [user, pass] = [username, password].map(decodeURIComponent) as [string, string];
  return {
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? undefined : Number(port),
    // Mail never goes to a remote server without TLS, whatever NODE_ENV says.
    tls: protocol === 'smtps:' ? 'implicit' : isNear ? 'none' : 'starttls',
    auth: user === '' ? undefined : { user, pass },
    from: { name: name.trim(), address: address! },
    origin: PUBLIC_URL,
    secretKeys: SECRET_KEYS,
  };
}

const portField = z
  .string()
  .regex(/^\d{1,5}$/, 'must be a port number')
  .transform(Number)
  .pipe(z.number().max(65_535, 'must be at most 65535'));

const environment = {
  NODE_ENV: z.enum(['development', 'test', 'production']).default('development'),
  PORT: portField.default(3000),
  HEALTH_PORT: portField.optional(),
  // Only this machine: the demo prints its passwords, and callers that bypass the proxy could forge their address.
  HOST: z.string().default('127.0.0.1'),
  KEEP_ALIVE_SECONDS: wholeNumber(65, 3_600),
  DATABASE_URL: urlField(/^postgres(ql)?:$/, 'postgres://user:password@host:5432/gauge').optional(),
  MIGRATION_DATABASE_URL: urlField(
    /^postgres(ql)?:$/,
    'postgres://owner:password@host:5432/gauge',
  ).optional(),
  DATA_DIR: z.string().default('./data'),
  REDIS_URL: urlField(/^rediss?:$/, 'redis://host:6379').optional(),
  SESSION_KEYS: listField(z.string().min(1, 'must not contain an empty key')).optional(),
  SECRET_KEYS: listField(z.string().min(1, 'must not contain an empty key'))
    // Encrypted secrets must stay readable after a restart. This key is public, so production refuses it.
    .default(['a key for trying gauge']),
  AUDIT_EXPORT: z
    .string()
    .refine(isExportTarget, 'must be a file, or an https URL (http for this machine only)')
    .optional(),
  AUDIT_EXPORT_SCHEDULE: z
    .string()
    .refine(validate, 'must be a cron expression like 0 7 3 * * *')
    .default('0 7 3 * * *'),
  METRICS_TOKEN: z.string().min(32, 'must have at least 32 characters').optional(),
  PUBLIC_URL: z
    .string()
    .refine(isOrigin, 'must be an origin like https://gauge.example.com, without a path')
    .optional(),
  SMTP_URL: z
    .string()
    .refine(
      isSmtpUrl,
      'must be a URL like smtps://user:password@mail.example.com:465, with nothing after the port',
    )
    .refine(hasReadableCredentials, unreadableCredentials)
    .optional(),
  MAIL_FROM: z
    .string()
    .regex(mailFrom, 'must be an address like gauge@example.com, or Gauge <gauge@example.com>')
    .optional(),
  OPERATOR_TOKEN: z.string().min(32, 'must have at least 32 characters').optional(),
  OPERATOR_TOKENS: listField(
    z
      .string()
      .regex(
        /^[a-z0-9][a-z0-9-]{0,31}:.{32,}$/s,
        'must be name:token, separated by commas, each name of a-z, 0-9 and -, each token of at least 32 characters',
      ),
  ).optional(),
  TRUST_PROXY: z
    .string()
    .refine(
      isTrustProxy,
      'must be a number of proxies, true, false, or addresses and networks separated by commas',
    )
    .optional(),
  WEBHOOK_ALLOW_PRIVATE: z.enum(['on', 'off']).default('off'),
  WEBHOOK_PROXY: z.enum(['on', 'off']).default('off'),
  HTTP_PROXY: proxyField.optional(),
  HTTPS_PROXY: proxyField.optional(),
  NO_PROXY: z.string().optional(),
  PORTAL_ORIGINS: listField(
    z.string().refine(isOrigin, 'must be origins like https://app.example.com, with commas between them'),
  ).optional(),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  LIMIT_KEY_CHANGES_PER_HOUR: wholeNumber(10),
  LIMIT_SERVICE_PER_MINUTE: wholeNumber(6_000),
  LIMIT_DOCUMENTS_PER_MINUTE: wholeNumber(300),
  LIMIT_DASHBOARD_PER_MINUTE: wholeNumber(300),
  LIMIT_CONNECTIONS: wholeNumber(10_000),
  LIMIT_CONNECTIONS_PER_ADDRESS: wholeNumber(4_000),
  LIMIT_BUFFERED_MB: wholeNumber(64, 100_000),
};

export type Config = ServiceConfig;

/**
 * Empty variables count as unset, because compose files and shells produce them.
 * @throws ConfigError listing every problem
 */
export function readConfig(env: Environment): Config {
  const given = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value.trim() !== ''),
  );
  const production = given.NODE_ENV === 'production';
  const parts = [shellConfig(env), singleSignOnConfig, ...products.map(({ config }) => config)];
  const names = new Set(parts.flatMap((part) => part.names));
  const known = Object.fromEntries(Object.entries(given).filter(([name]) => names.has(name)));
  const read = parts.map((part) => part.read(given));
  const problems = read.flatMap((part) => part.problems);
  if (production) problems.push(...productionProblems(known));
  problems.push(...mailProblems(given, production));
  if (problems.length > 0) throw new ConfigError(problems);
  const values = read.map((part) => part.values as Partial<Config>);
  const limits = Object.assign({}, ...values.map((value) => value.limits)) as Limits;
  return { ...withoutMarkets, ...(Object.assign({}, ...values) as Config), limits };
}

const shellConfig = (env: Environment) =>
  configPart(environment, (e) => {
    const production = e.NODE_ENV === 'production';
    const trustProxy = parseTrustProxy(e.TRUST_PROXY);
    return {
      production,
      port: e.PORT,
      healthPort: e.HEALTH_PORT,
      keepAliveMs: e.KEEP_ALIVE_SECONDS * SECOND_MS,
      host: e.HOST,
      databaseUrl: e.DATABASE_URL,
      migrationDatabaseUrl: e.MIGRATION_DATABASE_URL,
      dataDir: e.DATA_DIR,
      redisUrl: e.REDIS_URL,
      sessionKeys: e.SESSION_KEYS,
      secretKeys: e.SECRET_KEYS,
      secrets: secretsIn(env),
      webhooksAllowPrivate: e.WEBHOOK_ALLOW_PRIVATE === 'on',
      webhooksUseProxy: e.WEBHOOK_PROXY === 'on',
      auditExport:
        e.AUDIT_EXPORT === undefined
          ? undefined
          : { target: e.AUDIT_EXPORT, schedule: e.AUDIT_EXPORT_SCHEDULE },
      operatorTokens: readOperatorTokens(e.OPERATOR_TOKEN, e.OPERATOR_TOKENS),
      metricsToken: e.METRICS_TOKEN,
      publicUrl: e.PUBLIC_URL,
      portalOrigins: e.PORTAL_ORIGINS ?? [],
      mail: readMail(e),
      trustProxy,
      logLevel: e.LOG_LEVEL,
      limits: {
        keyChangesPerHour: e.LIMIT_KEY_CHANGES_PER_HOUR,
        servicePerMinute: e.LIMIT_SERVICE_PER_MINUTE,
        documentsPerMinute: e.LIMIT_DOCUMENTS_PER_MINUTE,
        dashboardPerMinute: e.LIMIT_DASHBOARD_PER_MINUTE,
        connections: {
          connections: e.LIMIT_CONNECTIONS,
          connectionsPerAddress: trustProxy ? Infinity : e.LIMIT_CONNECTIONS_PER_ADDRESS,
          bufferedBytes: e.LIMIT_BUFFERED_MB * 1024 * 1024,
        },
      },
    };
  });

function readOperatorTokens(unnamed: string | undefined, named: string[] = []): OperatorToken[] {
  const tokens = named.map((part) => {
    const colon = part.indexOf(':');
    return { actor: `operator:${part.slice(0, colon)}`, token: part.slice(colon + 1) };
  });
  return unnamed === undefined ? tokens : [{ actor: 'operator', token: unnamed }, ...tokens];
}

/** Heads of the audit log are evidence and must not be altered in transit. */
function isExportTarget(value: string): boolean {
  return !/^\w+:\/\//.test(value) || isSecureUrl(value);
}

/** Express's names. */
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
  // With `true`, Express would trust every hop, and callers could evade rate limits by forging their address.
  return value === 'true' ? 1 : value;
}
