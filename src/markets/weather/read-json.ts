import type { Logger } from 'pino';
import type { z } from 'zod';
import { type Clock, HOUR_MS, MINUTE_MS, readRetryAfter } from '../../core/time.js';
import { UnexpectedAnswerError, readLimited } from '../venue/kalshi-client.js';

export interface Polled<T> {
  value: T | undefined;
  readMs: number;
  problem: unknown;
  /** True only for the read that failed, so that each caller reports a failure once. */
  isNews: boolean;
}

const FIRST_PAUSE_MS = MINUTE_MS;
const LONGEST_PAUSE_MS = 15 * MINUTE_MS;

export interface Poll<T> {
  (signal: AbortSignal): Promise<Polled<T>>;
  /** True if the next call sends a request. */
  isDue(): boolean;
  readonly last: Polled<T>;
}

/**
 * Polls a service every `everyMs` or at the times that a function names, however often it is called, with growing pauses
 * after failures. Between requests it returns the last response. Never rejects.
 * @param leastPauseMs minimum pause after a failure
 */
export function createPoll<T>(
  clock: Clock,
  everyMs: number | ((nowMs: number) => number),
  ask: (signal: AbortSignal) => Promise<T>,
  leastPauseMs = 0,
): Poll<T> {
  let last: Polled<T> = { value: undefined, readMs: -Infinity, problem: undefined, isNews: false };
  let failures = 0;
  let nextMs = -Infinity;
  const isDue = () => clock.now() >= nextMs;
  async function poll(signal: AbortSignal): Promise<Polled<T>> {
    if (!isDue()) return last;
    try {
      const value = await ask(signal);
      last = { value, readMs: clock.now(), problem: undefined, isNews: false };
      failures = 0;
      nextMs = typeof everyMs === 'number' ? clock.now() + everyMs : everyMs(clock.now());
      return last;
    } catch (error) {
      last = { ...last, problem: error };
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures++);
      nextMs = clock.now() + Math.max(leastPauseMs, pauseMs);
      return { ...last, isNews: true };
    }
  }
  return Object.defineProperty(Object.assign(poll, { isDue }), 'last', { get: () => last }) as Poll<T>;
}

/** How long forecasts stay in use during failures; they remain the newest until about the next run. */
const FORECASTS_LAST_MS = 3 * HOUR_MS;

/**
 * Returns the last forecasts while they are recent enough to be used during failures.
 * @throws the problem if there are no such forecasts, and always after a response that violates the contract
 */
export function lastForecasts<T>(
  { value, readMs, problem, isNews }: Polled<T>,
  { clock, log, what }: { clock: Clock; log: Pick<Logger, 'warn'>; what: string },
): T {
  const isUsable = value !== undefined && clock.now() - readMs < FORECASTS_LAST_MS;
  if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
  if (isNews) log.warn({ err: problem }, `no new ${what}; the last ones are kept`);
  return value;
}

/** Thrown if a weather service was unreachable, busy or failing; a later request may succeed. */
export class WeatherUnavailableError extends Error {
  readonly retryAfterMs: number | undefined;
  constructor(url: string, what: string, options: ErrorOptions & { retryAfterMs?: number | undefined } = {}) {
    super(`${url}: ${what}`, options);
    this.name = 'WeatherUnavailableError';
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** Thrown if a weather service responded with an error status that a retry will not change. */
export class UnexpectedStatusError extends UnexpectedAnswerError {
  readonly status: number;
  constructor(url: string, status: number, answer: string) {
    super(url, `status ${status}: ${answer}`);
    this.name = 'UnexpectedStatusError';
    this.status = status;
  }
}

export interface JsonRequest<T extends z.ZodType> {
  url: string;
  headers?: Record<string, string>;
  schema: T;
  /** Values that must not appear in messages, even if the response repeats them. */
  secrets?: readonly string[];
  signal: AbortSignal;
  timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
/** Pause after a 429 without Retry-After; free services count requests per minute. */
const BUSY_PAUSE_MS = MINUTE_MS;

/**
 * Sends one request and accepts only the documented format.
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
export async function readJson<T extends z.ZodType>(request: JsonRequest<T>): Promise<z.output<T>> {
  const { schema, secrets = [] } = request;
  // The query is omitted, because coordinates and start times only clutter the log.
  const url = request.url.split('?')[0]!;
  const body = await readText(request);
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new UnexpectedAnswerError(url, `not JSON: ${excerpt(hide(body, secrets))}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new UnexpectedAnswerError(url, `${placeOf(path)}: ${message}`);
}

/**
 * Sends one request and returns the body of a 200.
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
export async function readText(request: Omit<JsonRequest<z.ZodType>, 'schema'>): Promise<string> {
  const { signal, secrets = [], timeoutMs = TIMEOUT_MS } = request;
  const url = request.url.split('?')[0]!;
  const { status, retryAfterMs, body } = await load(
    request,
    url,
    AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  );
  const answer = () => excerpt(hide(body, secrets));
  // A 501 is permanent, so a retry would not help.
  if (status === 429 || (status >= 500 && status !== 501))
    throw new WeatherUnavailableError(url, `status ${status}: ${answer()}`, {
      retryAfterMs: retryAfterMs ?? (status === 429 ? BUSY_PAUSE_MS : undefined),
    });
  if (status !== 200) throw new UnexpectedStatusError(url, status, answer());
  return body;
}

/** For example `forecasts[3].membersF[2]`. */
export const placeOf = (path: readonly PropertyKey[]): string =>
  path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '') || 'the body';

const hide = (body: string, secrets: readonly string[]): string =>
  secrets.reduce((text, secret) => text.replaceAll(secret, '[hidden]'), body);

const excerpt = (body: string): string => body.slice(0, 200).trim() || 'nothing';

async function load(
  { url: address, headers }: Pick<JsonRequest<z.ZodType>, 'url' | 'headers'>,
  url: string,
  signal: AbortSignal,
): Promise<{ status: number; retryAfterMs: number | undefined; body: string }> {
  try {
    const response = await fetch(address, {
      signal,
      redirect: 'error',
      headers: { accept: 'application/json', ...headers },
    });
    return {
      status: response.status,
      retryAfterMs: readRetryAfter(response.headers.get('retry-after')),
      body: await readLimited(response, url),
    };
  } catch (error) {
    if (error instanceof UnexpectedAnswerError) throw error;
    throw new WeatherUnavailableError(url, (error as Error).message, { cause: error });
  }
}
