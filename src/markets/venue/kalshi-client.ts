import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { MINUTE_MS, readRetryAfter } from '../../core/time.js';
import { createVenueBudget, type VenueBudget } from './venue-budget.js';
import { kalshiMarketsPageSchema } from './kalshi-schema.js';

/**
 * Returns the server's clock skew in milliseconds, positive if the server is ahead: the smallest difference that the
 * response allows. The server wrote its time between request and response, and `Date` has whole seconds, so neither
 * latency nor rounding counts as skew. `Age` is the time spent in a cache.
 * @returns undefined if the response has no time
 */
export function clockSkewOf(headers: Headers, askedAt: number, answeredAt: number): number | undefined {
  const written = Date.parse(headers.get('date') ?? '');
  const kept = Number(headers.get('age') ?? 0) * 1000;
  if (Number.isNaN(written) || Number.isNaN(kept)) return undefined;
  // `Date` truncates up to a second; `Age` may be rounded either way.
  const roundingMs = kept > 0 ? 1000 : 0;
  const earliest = written + kept - roundingMs;
  const latest = written + kept + 1000 + roundingMs;
  if (earliest > answeredAt) return earliest - answeredAt;
  return latest < askedAt ? latest - askedAt : 0;
}

const PAGE_SIZE = 1000;
const MAX_PAGES = 20;

export async function readMarketPages(
  client: KalshiClient,
  path: '/markets' | '/historical/markets',
  filter: Query,
  signal: AbortSignal,
): Promise<unknown[]> {
  const query: Query = [...filter, ['limit', PAGE_SIZE]];
  const list = await readPages({ path, maxPages: MAX_PAGES, signal }, (cursor) =>
    client.get(path, [...query, ...cursor], kalshiMarketsPageSchema, signal),
  );
  return requireAllPages(list).flatMap(({ markets }) => markets);
}

export interface PageList<P> {
  pages: P[];
  /** Why the list ended before its last page. The rest of the list is unknown. */
  cutOff?: Error | undefined;
}

/**
 * Reads a list page by page, up to a repeated cursor, a page that cannot be read, or `maxPages`.
 * @throws the error of the first page
 */
export async function readPages<P extends { cursor?: string | null | undefined }>(
  { path, maxPages, signal }: { path: string; maxPages: number; signal: AbortSignal },
  read: (cursor: Query) => Promise<P>,
): Promise<PageList<P>> {
  const pages: P[] = [];
  const seen = new Set<string>();
  const endEarly = (what: string) => ({ pages, cutOff: new UnexpectedAnswerError(path, what) });
  for (let cursor = ''; ; seen.add(cursor)) {
    if (pages.length === maxPages) return endEarly(`more than ${maxPages} pages`);
    try {
      pages.push(await read(cursor === '' ? [] : [['cursor', cursor]]));
    } catch (error) {
      if (pages.length === 0 || signal.aborted) throw error;
      return { pages, cutOff: error as Error };
    }
    cursor = pages.at(-1)!.cursor ?? '';
    if (cursor === '') return { pages };
    if (seen.has(cursor)) return endEarly('its cursor repeats');
  }
}

/** @throws the reason why a list ended early */
export function requireAllPages<P>({ pages, cutOff }: PageList<P>): P[] {
  if (cutOff) throw cutOff;
  return pages;
}

/** Thrown if a response contradicts the venue's documentation. No part of such a response is used. */
export class UnexpectedAnswerError extends Error {
  readonly httpStatus: number | undefined;
  constructor(path: string, what: string, httpStatus?: number) {
    super(`${path}: ${what}`);
    this.name = 'UnexpectedAnswerError';
    this.httpStatus = httpStatus;
  }
}

export class VenueUnavailableError extends Error {
  constructor(path: string, what: string, options?: ErrorOptions) {
    super(`${path}: ${what}`, options);
    this.name = 'VenueUnavailableError';
  }
}

export interface KalshiClientOptions {
  /** Includes `/trade-api/v2`, without a trailing slash. */
  baseUrl: string;
  /** Budget shared by all clients with the same key. Default: the lowest tier's, for this client alone. */
  budget?: VenueBudget;
  /** If true, this client's reads are served before other reads of the same budget. */
  isUrgent?: boolean;
  /** Per attempt, including the body. */
  timeoutMs?: number;
  attempts?: number;
  /** Pause before the first retry; doubles each time. */
  backoffMs?: number;
  /** Authentication headers, created per attempt. `path` is the full path without the query. */
  headers?: ((method: 'GET', path: string) => Record<string, string>) | undefined;
  fetch?: typeof fetch | undefined;
}

export type Query = [name: string, value: string | number][];

export interface KalshiClient {
  /** True if requests are signed, which some endpoints require. */
  readonly isSigned: boolean;
  readonly clockSkewMs: number | undefined;
  /**
   * Reads an endpoint and validates the response against `schema`. Retries "busy" and server errors after the pause
   * that the venue states, or else after a growing pause with jitter. Unexpected responses are not retried, because
   * they would not change.
   * @throws UnexpectedAnswerError, VenueUnavailableError
   */
  get<T extends z.ZodType>(path: string, query: Query, schema: T, signal: AbortSignal): Promise<z.output<T>>;
}

export interface KalshiDeps extends Pick<WorkContext, 'clock' | 'log'> {
  client: KalshiClient;
}

/** Long enough for the venue's list of cities. */
const MAX_QUOTED = 1_000;
const MAX_BYTES = 8 * 1024 * 1024;
const MAX_PAUSE_MS = 5_000;

export function createKalshiClient(options: KalshiClientOptions): KalshiClient {
  const { baseUrl, timeoutMs = 5_000, attempts = 3, backoffMs = 250 } = options;
  const { budget = createVenueBudget(), isUrgent = false, fetch = globalThis.fetch } = options;
  let clockSkewMs: number | undefined;

  async function attempt(path: string, url: string, signal: AbortSignal): Promise<unknown> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const askedAt = Date.now();
    const response = await fetch(url, {
      signal: limited,
      redirect: 'error',
      headers: { accept: 'application/json', ...options.headers?.('GET', new URL(url).pathname) },
    });
    clockSkewMs = clockSkewOf(response.headers, askedAt, Date.now()) ?? clockSkewMs;
    if (response.status === 429) budget.refused('GET');
    if (response.status === 429 || response.status >= 500) {
      await response.body?.cancel();
      throw new BusyError(`status ${response.status}`, readRetryAfter(response.headers.get('retry-after')));
    }
    const body = await readLimited(response, path);
    if (!response.ok)
      throw new UnexpectedAnswerError(
        path,
        `status ${response.status}: ${body.slice(0, MAX_QUOTED)}`,
        response.status,
      );
    try {
      return JSON.parse(body) as unknown;
    } catch {
      throw new UnexpectedAnswerError(
        path,
        `not JSON but ${response.headers.get('content-type')}: ${body.slice(0, 100)}`,
      );
    }
  }

  return {
    isSigned: options.headers !== undefined,
    get clockSkewMs() {
      return clockSkewMs;
    },
    async get(path, query, schema, signal) {
      const search = new URLSearchParams(
        query.map(([name, value]): [string, string] => [name, String(value)]),
      ).toString();
      const url = `${baseUrl}${path}${search === '' ? '' : `?${search}`}`;
      for (let tried = 1; ; tried++) {
        await budget.take('GET', path, signal, isUrgent);
        try {
          return expectShape(path, schema, await attempt(path, url, signal));
        } catch (error) {
          signal.throwIfAborted();
          if (error instanceof UnexpectedAnswerError) throw error;
          if (tried >= attempts)
            throw new VenueUnavailableError(path, (error as Error).message, { cause: error });
          const grown = backoffMs * 2 ** (tried - 1);
          const asked = error instanceof BusyError ? (error.retryAfterMs ?? 0) : 0;
          await sleep(Math.min(MAX_PAUSE_MS, Math.max(asked, grown * (0.5 + Math.random()))), undefined, {
            signal,
          });
        }
      }
    },
  };
}

class BusyError extends Error {
  readonly retryAfterMs: number | undefined;
  constructor(message: string, retryAfterMs: number | undefined) {
    super(message);
    this.retryAfterMs = retryAfterMs;
  }
}

function expectShape<T extends z.ZodType>(path: string, schema: T, value: unknown): z.output<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path: place, message } = parsed.error.issues[0]!;
  throw new UnexpectedAnswerError(path, `${place.map(String).join('.') || 'the body'}: ${message}`);
}

export async function readLimited(response: Response, path: string): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += (chunk as Uint8Array).length;
    if (size > MAX_BYTES) throw new UnexpectedAnswerError(path, `more than ${MAX_BYTES} bytes`);
    chunks.push(chunk as Uint8Array);
  }
  return Buffer.concat(chunks).toString('utf8');
}

const bucketSchema = z
  .object({ refill_rate: z.number().positive(), bucket_capacity: z.number().positive() })
  .transform((bucket) => ({ refillPerSecond: bucket.refill_rate, capacity: bucket.bucket_capacity }));
const limitsSchema = z.object({ read: bucketSchema, write: bucketSchema });
const costSchema = z.object({ method: z.string(), path: z.string(), cost: z.number().min(0) });
const costsSchema = z.object({
  default_cost: z.number().positive(),
  endpoint_costs: z.array(costSchema.nullable().catch(null)),
});

/** Twenty read tokens a minute. */
const LIMITS_FRESH_MS = MINUTE_MS;

/** Reads the account's limits each minute. The budget forgets limits that are not read again. */
export function createLimitReader({ client, budget, clock, log }: KalshiDeps & { budget: VenueBudget }) {
  let readAt = -Infinity;
  return async (signal: AbortSignal) => {
    if (!client.isSigned || clock.now() - readAt < LIMITS_FRESH_MS) return;
    readAt = clock.now();
    try {
      const { read, write } = await client.get('/account/limits', [], limitsSchema, signal);
      const costs = await client.get('/account/endpoint_costs', [], costsSchema, signal);
      const known = costs.endpoint_costs.filter((cost) => cost !== null);
      const leftOut = costs.endpoint_costs.length - known.length;
      if (leftOut > 0) log.warn({ leftOut }, "some of the venue's request costs could not be read");
      budget.setLimits({ read, write, defaultCost: costs.default_cost, costs: known });
    } catch (error) {
      signal.throwIfAborted();
      log.warn({ err: error }, 'the account limits at the venue could not be read; the last ones expire');
    }
  };
}
