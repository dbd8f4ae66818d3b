import { z } from 'zod';

/** Settings from the environment. Accounts and each product add their own with `declare module`. */
export interface ServiceConfig {
  production: boolean;
  port: number;
  host: string;
  /** Port for health and metrics alone. Undefined: only `port` has them. */
  healthPort: number | undefined;
  /** How long an idle connection stays open. */
  keepAliveMs: number;
  databaseUrl: string | undefined;
  /** URL for the role that owns and migrates the schema. Undefined: `databaseUrl` is used. */
  migrationDatabaseUrl: string | undefined;
  dataDir: string;
  redisUrl: string | undefined;
  /** Keys that sign the session cookie, newest first. Undefined only outside production. */
  sessionKeys: string[] | undefined;
  /** Keys that encrypt the secrets of authenticator apps and webhooks, newest first. */
  secretKeys: string[];
  /** Allows webhooks to private addresses, for receivers in your own network. */
  webhooksAllowPrivate: boolean;
  /** Sends webhooks through the proxy of HTTPS_PROXY, which then decides which addresses they reach. */
  webhooksUseProxy: boolean;
  /** Secrets from the environment, masked in every log. */
  secrets: string[];
  /** Where (file or URL) and when the audit log's heads are exported. Undefined: no export. */
  auditExport: { target: string; schedule: string } | undefined;
  /** If empty, the operator API is not served. */
  operatorTokens: OperatorToken[];
  /**
   * Token required to read `/metrics`. Without a token, production denies all access and other environments allow it.
   */
  metricsToken: string | undefined;
  /** Public origin of the service. Undefined only outside production, where links use the request's origin. */
  publicUrl: string | undefined;
  /** Undefined: no mail is sent, and links are displayed for people to pass on. */
  mail: MailConfig | undefined;
  /** Express's `trust proxy` setting: a number of hops, addresses, or false. */
  trustProxy: number | string | boolean;
  logLevel: string;
  limits: Limits;
}

export interface Limits {
  keyChangesPerHour: number;
  /** Requests per minute and client address, for the API reference and the OpenAPI document. */
  documentsPerMinute: number;
  /** Requests per minute and session. */
  dashboardPerMinute: number;
  connections: {
    connections: number;
    /** Infinity behind a proxy, because all callers then share the proxy's address. */
    connectionsPerAddress: number;
    /** Total size of responses not yet read by clients, over all connections. */
    bufferedBytes: number;
  };
}

export interface MailConfig {
  host: string;
  /** Undefined: the default port of the scheme. */
  port: number | undefined;
  /** TLS from the first byte, STARTTLS, or no TLS, which is only for this machine or a neighboring container. */
  tls: 'implicit' | 'starttls' | 'none';
  auth: { user: string; pass: string } | undefined;
  from: { name: string; address: string };
  origin: string;
  /** Seal the texts of waiting messages. */
  secretKeys: readonly string[];
}

export interface OperatorToken {
  /** Name in the audit log: `operator`, or `operator:` and the token's name. */
  actor: string;
  token: string;
}

/** Thrown if the service must not run with its configuration. The message lists every problem. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    );
  }
}

/** @param max largest accepted value; the smallest is 1 */
export const wholeNumber = (fallback: number, max = 1_000_000_000) => wholeField(max).default(fallback);

export const wholeField = (max: number) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(1, 'must be at least 1').max(max, `must be at most ${max}`));

/** @param example shown in the error message */
export const urlField = (protocols: RegExp, example: string) =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && protocols.test(new URL(value).protocol),
      `must be a URL like ${example}`,
    )
    .refine(hasReadableCredentials, unreadableCredentials);

/** True if drivers can decode the URL's user name and password. Drivers report malformed ones with unclear errors. */
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

type Given = Record<string, string | undefined>;

/** A group of related environment variables. */
export interface ConfigPart {
  names: string[];
  /** `values` is undefined if there are problems. */
  read(given: Given): { values?: object; problems: string[] };
}

/** @param conflicts returns problems between variables that are each valid on their own */
export const configPart = <Shape extends z.ZodRawShape>(
  shape: Shape,
  toValues: (environment: z.output<z.ZodObject<Shape>>, given: Given) => object,
  conflicts: (given: Given) => string[] = () => [],
): ConfigPart => ({
  names: Object.keys(shape),
  read(given) {
    const parsed = z.object(shape).safeParse(given);
    const invalid = (parsed.error?.issues ?? []).map((issue) => `${String(issue.path[0])}: ${issue.message}`);
    const problems = [...invalid, ...conflicts(given)];
    return problems.length > 0 ? { problems } : { values: toValues(parsed.data!, given), problems };
  },
});

export const listField = (part: z.ZodString) =>
  z
    .string()
    .transform((value) => value.split(',').map((text) => text.trim()))
    .pipe(z.array(part));

/** True for this machine. */
export function isLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return (
    hostname === '' || hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  );
}

/** True for https, and for http on this machine. */
export function isSecureUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol } = new URL(value);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(value));
}

/** True for a scheme and a host with nothing after it, as in the Origin header. */
export function isOrigin(value: string): boolean {
  return URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && new URL(value).origin === value;
}
