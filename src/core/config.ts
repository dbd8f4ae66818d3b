import { z } from 'zod';

/** What the service is started with, but for what its features add. */
export interface ServiceConfig {
  production: boolean;
  /** Whether there are markets, forecasts, portfolios and orders. Without them, nothing shows that there could be. */
  hasMarkets: boolean;
  /** What forms for a new Organization begin with: a choice that was left as it is gives nothing of real markets away. */
  firstMarketAccess: 'none' | 'trade';
  port: number;
  host: string;
  databaseUrl: string | undefined;
  /** The role that owns the schema and migrates it; undefined: that of `databaseUrl`. */
  migrationDatabaseUrl: string | undefined;
  dataDir: string;
  redisUrl: string | undefined;
  /** Keys that sign the session cookie, newest first; undefined only outside production. */
  sessionKeys: string[] | undefined;
  /** Keys that encrypt the secrets of authenticator apps and webhooks, newest first. */
  secretKeys: string[];
  /** Webhooks go to private addresses, too: to receivers in one's own network. */
  webhooksAllowPrivate: boolean;
  /** Secrets of the environment, word by word: no log shows them. */
  secrets: string[];
  /** Where the heads of the audit log are written to, and when: a file or a URL. Undefined: nowhere. */
  auditExport: { target: string; schedule: string } | undefined;
  /** Empty: the operator API does not exist. */
  operatorTokens: OperatorToken[];
  /** What reads `/metrics` must present; without it every caller may outside of production, and none in it. */
  metricsToken: string | undefined;
  /** Where people reach the service, an origin; undefined only outside production: then links lead to where a request came. */
  publicUrl: string | undefined;
  /** Undefined: no mail is sent, and links are shown to be passed on. */
  mail: MailConfig | undefined;
  /** Express's `trust proxy`: a number of hops, addresses, or false. */
  trustProxy: number | string | boolean;
  logLevel: string;
  /**
   * How many whole months an idempotency key is remembered after the month of its event; then the event may be archived.
   * Undefined: for ever.
   */
  dedupeHorizonMonths: number | undefined;
  /** Origins whose pages may read the trading API from a browser. */
  corsOrigins: string[];
  limits: {
    usagePerMinute: number;
    entitlementsPerMinute: number;
    /** Calls with one key about its portfolio and its orders. */
    tradingPerMinute: number;
    /** Of each address, over all reads of market data. */
    readsPerMinute: number;
    keyChangesPerHour: number;
    /** Of each address, over the API reference and its document. */
    documentsPerMinute: number;
    /** Of each session. */
    dashboardPerMinute: number;
    connections: {
      connections: number;
      /** Infinity behind a proxy, whose connections are those of all callers. */
      connectionsPerAddress: number;
      /** Answers that wait to be read, over all connections. */
      bufferedBytes: number;
    };
  };
}

export interface MailConfig {
  host: string;
  /** Undefined: the usual one. */
  port: number | undefined;
  /** From the first byte on, before anything else is said (STARTTLS), or none on the way to this machine or a neighbour. */
  tls: 'implicit' | 'starttls' | 'none';
  auth: { user: string; pass: string } | undefined;
  from: { name: string; address: string };
  /** Where links lead. */
  origin: string;
}

export interface OperatorToken {
  /** What the audit log calls its bearer: `operator`, or `operator:` and the token's name. */
  actor: string;
  token: string;
}

/** The environment does not describe a service that may run; the message lists every problem. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    );
  }
}

/** @param max of the number; 1 is the least */
export const wholeNumber = (fallback: number, max = 1_000_000_000) => wholeField(max).default(fallback);

export const wholeField = (max: number) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(1, 'must be at least 1').max(max, `must be at most ${max}`));

/** @param example for the message */
export const urlField = (protocols: RegExp, example: string) =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && protocols.test(new URL(value).protocol),
      `must be a URL like ${example}`,
    )
    .refine(hasReadableCredentials, unreadableCredentials);

/** Drivers decode them, and fail in words of their own. */
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
