import { z } from 'zod';

/** Accounts and each product add their own settings with `declare module`. */
export interface ServiceConfig {
  production: boolean;
  port: number;
  host: string;
  /** Port for health and metrics alone. Undefined: only `port` has them. */
  healthPort: number | undefined;
  keepAliveMs: number;
  databaseUrl: string | undefined;
  /** The role that owns and migrates the schema. Undefined: `databaseUrl` is used. */
  migrationDatabaseUrl: string | undefined;
  dataDir: string;
  redisUrl: string | undefined;
  /** Newest first. Undefined only outside production. */
  sessionKeys: string[] | undefined;
  /** Newest first. */
  secretKeys: string[];
  /** Allows webhooks to private addresses, for receivers in your own network. */
  webhooksAllowPrivate: boolean;
  /** The proxy of HTTPS_PROXY then decides which addresses webhooks reach. */
  webhooksUseProxy: boolean;
  /** Masked in every log. */
  secrets: string[];
  auditExport: { target: string; schedule: string } | undefined;
  /** If empty, the operator API is not served. */
  operatorTokens: OperatorToken[];
  /** Without a token, production denies all access and other environments allow it. */
  metricsToken: string | undefined;
  /** Public origin of the service. Undefined only outside production, where links use the request's origin. */
  publicUrl: string | undefined;
  /** On which the portal may be in a frame. */
  portalOrigins: string[];
  /** Undefined: no mail is sent, and links are displayed for people to pass on. */
  mail: MailConfig | undefined;
  /** Express's `trust proxy` setting: a number of hops, addresses, or false. */
  trustProxy: number | string | boolean;
  logLevel: string;
  limits: Limits;
}

export interface Limits {
  keyChangesPerHour: number;
  servicePerMinute: number;
  /** Per client address. */
  documentsPerMinute: number;
  /** Per session. */
  dashboardPerMinute: number;
  connections: {
    connections: number;
    /** Infinity behind a proxy, because all callers then share the proxy's address. */
    connectionsPerAddress: number;
    bufferedBytes: number;
  };
}

export interface MailConfig {
  host: string;
  port: number | undefined;
  /** `none` is only for this machine or a neighboring container. */
  tls: 'implicit' | 'starttls' | 'none';
  auth: { user: string; pass: string } | undefined;
  from: { name: string; address: string };
  origin: string;
  /** Seal the texts of waiting messages. */
  secretKeys: readonly string[];
}

export interface OperatorToken {
  /** `operator`, or `operator:` and the token's name. */
  actor: string;
  token: string;
}

/** The message lists every problem. */
export class ConfigError extends Error {
  constructor(problems: string[]) {
    super(
      `The configuration has ${problems.length === 1 ? 'a problem' : `${problems.length} problems`}:\n${problems.map((p) => `  - ${p}`).join('\n')}`,
    );
  }
}

export const wholeNumber = (fallback: number, max = 1_000_000_000) => wholeField(max).default(fallback);

export const wholeField = (max: number) =>
  z
    .string()
    .regex(/^\d{1,10}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.number().min(1, 'must be at least 1').max(max, `must be at most ${max}`));

export const urlField = (protocols: RegExp, example: string) =>
  z
    .string()
    .refine(
      (value) => URL.canParse(value) && protocols.test(new URL(value).protocol),
      `must be a URL like ${example}`,
    )
    .refine(hasReadableCredentials, unreadableCredentials);

/** Drivers report a malformed user name or password with unclear errors. */
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

export const proxyField = urlField(/^https?:$/, 'http://proxy.example.com:3128');

type Given = Record<string, string | undefined>;

export interface ConfigPart {
  names: string[];
  read(given: Given): { values?: object; problems: string[] };
}

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

export function isLoopback(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname } = new URL(url);
  return (
    hostname === '' || hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  );
}

export function isSecureUrl(value: string): boolean {
  if (!URL.canParse(value)) return false;
  const { protocol } = new URL(value);
  return protocol === 'https:' || (protocol === 'http:' && isLoopback(value));
}

export function isOrigin(value: string): boolean {
  return URL.canParse(value) && /^https?:$/.test(new URL(value).protocol) && new URL(value).origin === value;
}
