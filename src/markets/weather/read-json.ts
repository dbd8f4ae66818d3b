import type { Logger } from 'pino';
import type { z } from 'zod';
import { type Clock, HOUR_MS, MINUTE_MS, readRetryAfter } from '../../core/time.js';
import { UnexpectedAnswerError, readLimited } from '../venue/kalshi-client.js';

/** What is known of one service. */
interface Polled<T> {
  /** The last good answer, and when it came; undefined until there is one. */
  value: T | undefined;
  readMs: number;
  /** Why the last question failed; undefined if it did not. */
  problem: unknown;
  /** It failed just now: to be told once, not with every read until the next question. */
  isNews: boolean;
}

const FIRST_PAUSE_MS = MINUTE_MS;
const LONGEST_PAUSE_MS = 15 * MINUTE_MS;

/**
 * Asks a service at its own pace, however often it is called: every `everyMs`, and after failures with growing pauses.
 * In between the last answer stands. Never rejects.
 * @param leastPauseMs after a failure; left out: none
 */
export function createPoll<T>(
  clock: Clock,
  everyMs: number,
  ask: (signal: AbortSignal) => Promise<T>,
  leastPauseMs = 0,
): (signal: AbortSignal) => Promise<Polled<T>> {
  let last: Polled<T> = { value: undefined, readMs: -Infinity, problem: undefined, isNews: false };
  let failures = 0;
  let nextMs = -Infinity;
  return async (signal) => {
    if (clock.now() < nextMs) return last;
    try {
      const value = await ask(signal);
      last = { value, readMs: clock.now(), problem: undefined, isNews: false };
      failures = 0;
      nextMs = clock.now() + everyMs;
      return last;
    } catch (error) {
      last = { ...last, problem: error };
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** failures++);
      nextMs = clock.now() + Math.max(leastPauseMs, pauseMs);
      return { ...last, isNews: true };
    }
  };
}

/** Forecasts are used on for as long while the service fails: until about the next run they are still the newest. */
const FORECASTS_LAST_MS = 3 * HOUR_MS;

/**
 * The last forecasts, while they may stand in for new ones.
 * @throws why there are none: also for an answer that was not as agreed, whatever came before it
 */
export function lastForecasts<T>(
  { value, readMs, problem, isNews }: Polled<T>,
  { clock, log, what }: { clock: Clock; log: Pick<Logger, 'warn'>; what: string },
): T {
  const isUsable = value !== undefined && clock.now() - readMs < FORECASTS_LAST_MS;
  if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
  if (isNews) log.warn({ err: problem }, `no new ${what}: the last ones are kept`);
  return value;
}

/** A weather service could not be reached, was too busy or failed: it may answer later. */
export class WeatherUnavailableError extends Error {
  /** How long the service asks to be left alone, if it says so. */
  readonly retryAfterMs: number | undefined;
  constructor(url: string, what: string, options: ErrorOptions & { retryAfterMs?: number | undefined } = {}) {
    super(`${url}: ${what}`, options);
    this.name = 'WeatherUnavailableError';
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** A weather service answered with a status that is no success, and will again. */
export class UnexpectedStatusError extends UnexpectedAnswerError {
  readonly status: number;
  constructor(url: string, status: number, said: string) {
    super(url, `status ${status}: ${said}`);
    this.name = 'UnexpectedStatusError';
    this.status = status;
  }
}

interface JsonRequest<T extends z.ZodType> {
  url: string;
  headers?: Record<string, string>;
  schema: T;
  /** What no message may show, even if the answer says it back. */
  secrets?: readonly string[];
  signal: AbortSignal;
  /** For all of it, the body included. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 10_000;
/** For a service that has had too many questions and does not say how long: the free ones count by the minute. */
const BUSY_PAUSE_MS = MINUTE_MS;

/**
 * Asks once, and believes only what has the documented shape.
 * @throws UnexpectedAnswerError, WeatherUnavailableError
 */
export async function readJson<T extends z.ZodType>(request: JsonRequest<T>): Promise<z.output<T>> {
  const { schema, signal, secrets = [], timeoutMs = TIMEOUT_MS } = request;
  // Coordinates and start times say nothing to a reader of the log.
  const url = request.url.split('?')[0]!;
  const { status, retryAfterMs, body } = await load(
    request,
    url,
    AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
  );
  const said = () => excerpt(hide(body, secrets));
  // 501: it is not able to, and will not be later.
  if (status === 429 || (status >= 500 && status !== 501))
    throw new WeatherUnavailableError(url, `status ${status}: ${said()}`, {
      retryAfterMs: retryAfterMs ?? (status === 429 ? BUSY_PAUSE_MS : undefined),
    });
  if (status !== 200) throw new UnexpectedStatusError(url, status, said());
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    throw new UnexpectedAnswerError(url, `no JSON: ${said()}`);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const { path, message } = parsed.error.issues[0]!;
  throw new UnexpectedAnswerError(url, `${placeOf(path)}: ${message}`);
}

/** `forecasts[3].membersF[2]` */
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
