import type { Request, RequestHandler, Response } from 'express';
import { ipKeyGenerator, rateLimit, type AugmentedRequest } from 'express-rate-limit';
import type { Clock } from '../time.js';
import type { Context } from './context.js';
import { AppError, statusByCode } from '../errors.js';
import { toAppError } from './problem.js';

const WINDOW_MS = 60_000;
const WINDOW_SECONDS = WINDOW_MS / 1000;
/** Calls with a key that is none, per address and minute. */
const MAX_FAILURES = 300;
/** Addresses remembered at once, about 10 MB. Beyond it the oldest is forgotten. */
const MAX_ADDRESSES = 50_000;

export interface PerKeyLimitOptions {
  name: string;
  perMinute: number;
  /** @throws AppError for a call without a usable key; it is then not counted */
  keyOf: (req: Request) => string;
  /** Who may make how many of what, in the answer to a caller who made more. */
  caller?: string;
  calls?: string;
  /** Answers that are not refused say nothing of the limit. */
  isQuiet?: boolean;
}

/**
 * Limits the calls a minute of each API key. Every answer says what is left (`RateLimit`, `RateLimit-Policy`). Stands
 * behind `unknownKeyGuard`, so that only keys that exist are ever counted: strangers cannot fill the store.
 */
export function perKeyLimit(
  { limitStores, log }: Pick<Context, 'limitStores' | 'log'>,
  {
    name,
    perMinute,
    keyOf,
    caller = 'This API key',
    calls = `${name} calls`,
    isQuiet = false,
  }: PerKeyLimitOptions,
): RequestHandler {
  const limit = rateLimit({
    windowMs: WINDOW_MS,
    limit: perMinute,
    keyGenerator: keyOf,
    store: limitStores.create(name),
    // Written below: the library would hash the key anew for each answer, to name a partition that no client reads.
    standardHeaders: false,
    legacyHeaders: false,
    passOnStoreError: true,
    // Whether it is made once and not for each request: the text of a stack, for each of the limits, is most of their start.
    validate: { default: true, creationStack: false },
    logger: {
      warn: (error, message) => log.warn({ err: error }, message ?? 'rate limit'),
      error: (error, message) => log.error({ err: error }, message ?? 'rate limit'),
    },
    handler(req, res, next) {
      const { seconds } = describeCount(req, res, name, perMinute);
      const detail = `${caller} may make ${perMinute} ${calls} a minute. Try again in ${seconds} s.`;
      next(new AppError('rate_limited', detail, { retryAfterSeconds: seconds }));
    },
  });
  return (req, res, next) =>
    limit(req, res, (error?: unknown) => {
      if (error === undefined && !isQuiet) describeCount(req, res, name, perMinute);
      next(error);
    });
}

/** Says what is left (draft-ietf-httpapi-ratelimit-headers-08). A call that could not be counted says nothing. */
function describeCount(req: Request, res: Response, name: string, perMinute: number): { seconds: number } {
  const { remaining = 0, resetTime } = (req as Partial<AugmentedRequest>).rateLimit ?? {};
  const seconds = secondsUntil(resetTime?.getTime() ?? Date.now() + WINDOW_MS, Date.now());
  if (resetTime) setHeaders(res, { name, quota: perMinute, remaining, seconds });
  return { seconds };
}

export interface UnknownKeyGuardOptions {
  keyOf: (req: Request) => string;
  /** True if this process has seen the key do something: such calls pass at no cost. */
  hasSeen: (key: string) => boolean;
  /** Looks the key up. @throws AppError if it is not good */
  authenticate: (key: string) => Promise<unknown>;
}

/**
 * Looks a key up that this process has not seen before, so that nothing is counted or remembered for keys that do not
 * exist. An address whose look-ups fail too often gets 429 for keys not seen before: guessing keys costs the
 * database little. Counted in this process, whose database load and memory it protects.
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
        await authenticate(key);
      } catch (error) {
        if (statusByCode[toAppError(error).code] === 401) {
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
  const detail = `Too many calls from your address had an API key that does not exist or is no longer valid. Try again in ${seconds} s.`;
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

/** Counts per address in windows of a minute, each from its first count on. */
function countByAddress(clock: Clock) {
  const byAddress = new Map<string, Counted>();
  function get(address: string): Counted {
    const found = byAddress.get(address);
    return found && found.resetsAt > clock.now() ? found : { count: 0, resetsAt: clock.now() + WINDOW_MS };
  }
  return {
    get,
    add(address: string): Counted {
      const { count, resetsAt } = get(address);
      const counted = { count: count + 1, resetsAt };
      if (count === 0) {
        // Entries stand in the order in which their windows began, so the first is the oldest.
        byAddress.delete(address);
        if (byAddress.size >= MAX_ADDRESSES) byAddress.delete(byAddress.keys().next().value!);
      }
      byAddress.set(address, counted);
      return counted;
    },
  };
}

const secondsUntil = (thenMs: number, nowMs: number): number =>
  Math.max(1, Math.ceil((thenMs - nowMs) / 1000));

interface PerAddressLimitOptions {
  name: string;
  perMinute: number;
  /** What is limited, for people; the name if left out. */
  calls?: string;
}

/**
 * Limits the calls a minute of each address, for routes that need no credential. Every answer says what is left.
 * Counted in this process, which it protects: asking Redis would cost more than what is counted.
 */
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
    const detail = `Your address may make ${perMinute} ${calls} a minute. Try again in ${seconds} s.`;
    next(new AppError('rate_limited', detail, { retryAfterSeconds: seconds }));
  };
}

/** Passes limits in the midst of a handler. @throws what they refuse the request with */
export async function passLimits(req: Request, res: Response, limits: RequestHandler[]): Promise<void> {
  for (const limit of limits)
    await new Promise<void>((resolve, reject) => {
      const next = (error?: unknown) => (error === undefined ? resolve() : reject(error));
      // One that waits may also fail by itself.
      Promise.resolve(limit(req, res, next)).catch(reject);
    });
}

/** Who is counted together: a network of the size that one customer gets counts as one IPv6 address. */
export const addressOf = ({ ip }: { ip?: string | undefined }): string => ipKeyGenerator(ip ?? '', 64);
