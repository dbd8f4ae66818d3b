import { z } from 'zod';

export interface ServiceConfig {
  production: boolean;
  /** Whether the service has markets, forecasts, portfolios and orders. If not, no page or answer mentions them. */
  hasMarkets: boolean;
  /** Preselected access of a new Organization: in production the default must not grant real markets. */
  firstMarketAccess: 'none' | 'trade';
  port: number;
  host: string;
  databaseUrl: string | undefined;
  /** URL with the role that owns and migrates the schema; undefined: `databaseUrl` is used. */
  migrationDatabaseUrl: string | undefined;
  dataDir: string;
  redisUrl: string | undefined;
  /** Keys that sign the session cookie, newest first; undefined only outside production. */
  sessionKeys: string[] | undefined;
  /** Keys that encrypt the secrets of authenticator apps and webhooks, newest first. */
  secretKeys: string[];
  /** Lets webhooks go to private addresses, for receivers in one's own network. */
  webhooksAllowPrivate: boolean;
  /** Secrets from the environment, masked in every log. */
  secrets: string[];
  /** Where and when the heads of the audit log are exported: a file or a URL. Undefined: no export. */
  auditExport: { target: string; schedule: string } | undefined;
  /** If empty, the operator API does not exist. */
  operatorTokens: OperatorToken[];
  /** Token required to read `/metrics`. Without one, production refuses everyone and other environments allow everyone. */
  metricsToken: string | undefined;
  /** Public origin of the service; undefined only outside production, where links use the origin of the request. */
  publicUrl: string | undefined;
  /** Undefined: no mail is sent, and links are displayed for people to pass on. */
  mail: MailConfig | undefined;
  /** Express's `trust proxy`: a number of hops, addresses, or false. */
  trustProxy: number | string | boolean;
  logLevel: string;
  /** Whole months for which an idempotency key is remembered after its event's month. Undefined: forever. */
  dedupeHorizonMonths: number | undefined;
  /** Origins whose pages may read the trading API from a browser. */
  corsOrigins: string[];
  limits: {
    usagePerMinute: number;
    entitlementsPerMinute: number;
    /** Calls per key about its portfolio and orders. */
    tradingPerMinute: number;
    /** Per address, over all reads of market data. */
    readsPerMinute: number;
    keyChangesPerHour: number;
    /** Per address, over the API reference and its document. */
    documentsPerMinute: number;
    /** Per session. */
    dashboardPerMinute: number;
    connections: {
      connections: number;
      /** Infinity behind a proxy, whose connections carry all callers. */
      connectionsPerAddress: number;
      /** Limit for answers not yet read by their clients, over all connections. */
      bufferedBytes: number;
    };
  };
}

export interface MailConfig {
  host: string;
  /** Undefined: the default port of the scheme. */
  port: number | undefined;
  /** TLS from the first byte, by STARTTLS, or none, for this machine or a neighbouring container. */
  tls: 'implicit' | 'starttls' | 'none';
  auth: { user: string; pass: string } | undefined;
  from: { name: string; address: string };
  origin: string;
}

export interface OperatorToken {
  /** Name of the token's bearer in the audit log: `operator`, or `operator:` and the token's name. */
  actor: string;
  token: string;
}

/** Thrown for a configuration that the service must not run with; the message lists every problem. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    );
  }
}

/** @param max largest value accepted; the smallest is 1 */
export const wholeNumber = (fallback: number, max = 1_000_000_000) => wholeField(max).default(fallback);

export const wholeField = (max: number) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(1, 'must be at least 1').max(max, `must be at most ${max}`));

/** @param example shown in the message */
export const urlField = (protocols: RegExp, example: string) =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && protocols.test(new URL(value).protocol),
      `must be a URL like ${example}`,
    )
    .refine(hasReadableCredentials, unreadableCredentials);

/** Drivers decode the credentials, and their own errors for broken ones would be unclear. */
export function hasReadableCredentials(url: string): boolean {
  if (!URL.canParse(url)) return true;
  const { username, password } = new URL(url);
  try {
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

export const unreadableCredentials = 'must have each % of its user name and password written as %25';
