import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import { ipKeyGenerator, rateLimit, type AugmentedRequest, type Options } from 'express-rate-limit';
import { AppError } from '../errors.js';
import type { LimitStores } from '../http/limit-store.js';
import { normalizeEmail } from './sign-in.js';

export interface SignInLimits {
  windowMs: number;
  /** Failures in the window after which every sign-in from an address is refused. */
  perAddress: number;
  /** The same for an account, whether or not it exists. */
  perAccount: number;
  /** Failures of an account that are answered at once. The wait starts with the next one and doubles with each. */
  quickFailures: number;
  firstDelayMs: number;
  maxDelayMs: number;
  /** Answers that wait at the same time. Each holds a connection, so the ones beyond are refused. */
  maxWaiting: number;
}

export const defaultSignInLimits: SignInLimits = {
  windowMs: 15 * 60 * 1000,
  perAddress: 50,
  perAccount: 10,
  quickFailures: 3,
  firstDelayMs: 250,
  maxDelayMs: 4_000,
  maxWaiting: 100,
};

/**
 * Counts failed sign-ins. A request counts when it comes and is taken back when it was no failure, so that a burst of
 * guesses at once gets no further than one after the other; one that hangs up before its answer stays counted.
 * Passwords and codes count together: a new challenge gives nobody new guesses.
 */
export function limitSignIns(stores: LimitStores, limits: SignInLimits) {
  const options = failureOptions(limits, 'Too many sign-ins have failed. Try again in some minutes.');
  return {
    perAddress: rateLimit({
      ...options,
      limit: limits.perAddress,
      identifier: 'login-address',
      store: stores.create('login-address'),
      keyGenerator: (req) => ipKeyGenerator(req.ip ?? '', 64),
    }),
    perAccount: rateLimit({
      ...options,
      limit: limits.perAccount,
      identifier: 'login-account',
      store: stores.create('login-account'),
      // An address may be long and is nobody else's business: the store holds its hash.
      keyGenerator: (_req, res) =>
        createHash('sha256')
          .update(normalizeEmail(res.locals.signInEmail as string))
          .digest('hex'),
    }),
    slowDown: slowDown(limits),
  };
}

export type SignInLimiters = ReturnType<typeof limitSignIns>;

/**
 * Counts wrong passwords and codes of people who are signed in and confirm who they are. Apart from the sign-ins:
 * strangers who guess at somebody's account must not keep that person from changing the password.
 */
export function limitConfirmations(stores: LimitStores, limits: SignInLimits): RequestHandler[] {
  const perPerson = rateLimit({
    ...failureOptions(limits, 'Too many passwords or codes were wrong. Try again in some minutes.'),
    limit: limits.perAccount,
    identifier: 'confirmations',
    store: stores.create('confirmations'),
    keyGenerator: (_req, res) => (res.locals.person as { userId: string }).userId,
  });
  return [perPerson, slowDown(limits)];
}

const failureOptions = ({ windowMs }: SignInLimits, detail: string) =>
  ({
    windowMs,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    skipSuccessfulRequests: true,
    requestWasSuccessful: (_req, res) =>
      (res.locals.isGuessRight as boolean | undefined) ?? res.statusCode !== 401,
    handler: (_req, _res, next) => next(new AppError('rate_limited', detail)),
  }) satisfies Partial<Options>;

/** Whose sign-in it is that `perAccount` counts. */
export function setSignInEmail(res: Response, email: string): void {
  res.locals.signInEmail = email;
}

/** Says whether a guess was right, where the status of the answer does not: 401 is a wrong one. */
export function markGuess(res: Response, isRight: boolean): void {
  res.locals.isGuessRight = isRight;
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

/** Goes after the limit whose count it waits by. Right and wrong passwords wait alike: the wait says nothing about the password. */
function slowDown({ quickFailures, firstDelayMs, maxDelayMs, maxWaiting }: SignInLimits): RequestHandler {
  let waiting = 0;
  return async (req, res, next) => {
    const attempts = (req as AugmentedRequest).rateLimit?.used ?? 0;
    const slow = attempts - quickFailures;
    if (slow <= 0) {
      next();
      return;
    }
    if (waiting >= maxWaiting) {
      throw new AppError('rate_limited', 'Too many sign-ins are waiting. Try again in some seconds.', {
        retryAfterSeconds: maxDelayMs / 1000,
      });
    }
    const gone = new AbortController();
    const leave = () => gone.abort();
    res.once('close', leave);
    waiting++;
    const stayed = await sleep(Math.min(maxDelayMs, firstDelayMs * 2 ** (slow - 1)), true, {
      signal: gone.signal,
    }).catch(() => false);
    waiting--;
    res.off('close', leave);
    if (stayed) next();
  };
}
