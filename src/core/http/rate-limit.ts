import type { Request, RequestHandler, Response } from 'express';
import { ipKeyGenerator, type Options } from 'express-rate-limit';
import { createRecentMap } from '../collections.js';
import type { Clock } from '../time.js';
import type { Context } from './context.js';
import { AppError } from '../errors.js';
import { statusOf, toAppError } from './problem.js';

const WINDOW_MS = 60_000;
const WINDOW_SECONDS = WINDOW_MS / 1000;
/** Per IP address and minute. */
const MAX_FAILURES = 300;
/** About 10 MB. Beyond it, the least recently used are evicted. */
const MAX_ADDRESSES = 50_000;

export interface PerKeyLimitOptions {
  name: string;
  perMinute: number;
  /** @throws AppError for a call without a usable key, which is not counted */
  keyOf: (req: Request, res: Response) => string;
  caller?: string;
  /** Noun in the error message. */
  calls?: string;
  /** If true, the limit's headers are sent only with rejected calls. */
  isQuiet?: boolean;
}

/**
 * Runs after `unknownKeyGuard`, so only existing keys are counted and made-up keys cannot fill the store. It asks the
 * library's store itself, because the library's handler costs a call 4 µs.
 */
export function perKeyLimit(
  { limitStores }: Pick<Context, 'limitStores'>,
  {
    name,
    perMinute,
    keyOf,
    caller = 'This key',
    calls = `${name} calls`,
    isQuiet = false,
  }: PerKeyLimitOptions,
): RequestHandler {
  const store = limitStores.create(name);
  store.init({ windowMs: WINDOW_MS } as Options);
  return async (req, res, next) => {
    const key = keyOf(req, res);
    const { totalHits, resetTime } = store.incrementNow?.(key) ?? (await store.increment(key));
    const isOver = totalHits > perMinute;
    if (!isOver && isQuiet) return next();
    const seconds = secondsUntil(resetTime!.getTime(), Date.now());
    setHeaders(res, { name, quota: perMinute, remaining: perMinute - totalHits, seconds });
    if (!isOver) return next();
    const detail = `${caller} can make ${perMinute} ${calls} a minute. Try again in ${seconds} s.`;
    next(new AppError('rate_limited', detail, { retryAfterSeconds: seconds }));
  };
}

export interface UnknownKeyGuardOptions {
  keyOf: (req: Request) => string;
  /** Calls with such keys need no lookup. */
  hasSeen: (key: string) => boolean;
  authenticate: (key: string, req: Request, res: Response) => Promise<unknown>;
}

/**
 * Nothing is counted or stored for nonexistent keys. An IP address with too many failed lookups gets 429 for keys that
 * this process has not seen, so guessing puts little load on the database. Counts in this process, because it protects
 * this process's memory and its load on the database.
 */
export function unknownKeyGuard(
  { clock }: Pick<Context, 'clock'>,
  { keyOf, hasSeen, authenticate }: UnknownKeyGuardOptions,
): RequestHandler {
  const failures = countByAddress(clock);
  return async (req, res, next) => {
    const key = keyOf(req);
    if (!hasSeen(key)) {
      const address = addressOf(req);
      const { count, resetsAt } = failures.get(address);
      if (count >= MAX_FAILURES) throw tooManyFailures(res, secondsUntil(resetsAt, clock.now()));
      try {
        await authenticate(key, req, res);
      } catch (error) {
        if (statusOf(res, toAppError(error).code) === 401) {
          const { count, resetsAt } = failures.add(address);
          const remaining = MAX_FAILURES - count;
          setHeaders(res, { ...badKeys, remaining, seconds: secondsUntil(resetsAt, clock.now()) });
        }
        throw error;
      }
    }
    next();
  };
}

function tooManyFailures(res: Response, seconds: number): AppError {
  setHeaders(res, { ...badKeys, remaining: 0, seconds });
  const detail = `Too many calls from your address used an API key that does not exist or is no longer valid. Try again in ${seconds} s.`;
  return new AppError('rate_limited', detail, { retryAfterSeconds: seconds });
}

const badKeys = { name: 'bad-keys', quota: MAX_FAILURES };

interface LimitState {
  name: string;
  quota: number;
  remaining: number;
  seconds: number;
}

function setHeaders(res: Response, { name, quota, remaining, seconds }: LimitState): void {
  res.setHeader('RateLimit', `"${name}"; r=${Math.max(0, remaining)}; t=${seconds}`);
  res.setHeader('RateLimit-Policy', `"${name}"; q=${quota}; w=${WINDOW_SECONDS}`);
}

interface Counted {
  count: number;
  resetsAt: number;
}

/** Each window of a minute starts with the first call. */
function countByAddress(clock: Clock) {
  const byAddress = createRecentMap<string, Counted>(MAX_ADDRESSES);
  function get(address: string): Counted {
    const found = byAddress.get(address);
    return found && found.resetsAt > clock.now() ? found : { count: 0, resetsAt: clock.now() + WINDOW_MS };
  }
  return {
    get,
    add(address: string): Counted {
      const { count, resetsAt } = get(address);
      const counted = { count: count + 1, resetsAt };
      byAddress.set(address, counted);
      return counted;
    },
  };
}

const secondsUntil = (thenMs: number, nowMs: number) => Math.max(1, Math.ceil((thenMs - nowMs) / 1000));

type PerAddressLimitOptions = Pick<PerKeyLimitOptions, 'name' | 'perMinute' | 'calls'>;

/** Counts in this process, because asking Redis would cost more than the calls themselves. */
export function perAddressLimit(
  { clock }: Pick<Context, 'clock'>,
  { name, perMinute, calls = name }: PerAddressLimitOptions,
): RequestHandler {
  const counts = countByAddress(clock);
  return (req, res, next) => {
    const { count, resetsAt } = counts.add(addressOf(req));
    const seconds = secondsUntil(resetsAt, clock.now());
    setHeaders(res, { name, quota: perMinute, remaining: perMinute - count, seconds });
    if (count <= perMinute) {
      next();
      return;
    }
    const detail = `Your address can make ${perMinute} ${calls} a minute. Try again in ${seconds} s.`;
    next(new AppError('rate_limited', detail, { retryAfterSeconds: seconds }));
  };
}

export async function passLimits(req: Request, res: Response, limits: RequestHandler[]): Promise<void> {
  for (const limit of limits)
    await new Promise<void>((resolve, reject) => {
      const next = (error?: unknown) => (error === undefined ? resolve() : reject(error));
      Promise.resolve(limit(req, res, next)).catch(reject);
    });
}

/** All IPv6 addresses of a /64 network count as one, because a customer usually gets a whole /64. */
export const addressOf = ({ ip }: { ip?: string | undefined }): string => ipKeyGenerator(ip ?? '', 64);
