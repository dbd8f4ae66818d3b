import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import { rateLimit, type Options } from 'express-rate-limit';
import Keygrip from 'keygrip';
import { AppError } from '../../../core/errors.js';
import { hangUpSignal } from '../../../core/http/request.js';
import type { LimitStores } from '../../../core/http/limit-store.js';
import { addressOf, passLimits } from '../../../core/http/rate-limit.js';
import { DAY_MS, MINUTE_MS } from '../../../core/time.js';
import { hostCookie } from '../session/session-cookie.js';
import { normalizeEmail } from './sign-in.js';

export const defaultSignInLimits = {
  windowMs: 15 * MINUTE_MS,
  /** Failures per window, after which an IP address is refused. */
  perAddress: 50,
  /** Failures for one account from one network or known device, whether or not the account exists. */
  perAccount: 10,
  /** Answered without delay. `firstDelayMs` delays the next failure, and the delay doubles each time. */
  quickFailures: 3,
  firstDelayMs: 250,
  maxDelayMs: 16_000,
  /** Each delayed response holds a connection, so further requests are refused. */
  maxWaiting: 100,
  /** Together with `maxDelayMs`, this bounds the guesses at an account from all addresses. */
  maxWaitingPerAccount: 5,
};
export type SignInLimits = typeof defaultSignInLimits;

/**
 * Counts failed sign-ins. Each request is counted on arrival and removed from the count if it succeeds, so a burst of
 * guesses achieves no more than sequential guesses. If the client disconnects early, the request stays counted.
 *
 * Nobody can lock out another person: too many failures for an account block only the network they came from, delay
 * sign-ins from all unknown devices, and do not affect known devices, which have a separate count. Codes have only six
 * digits and are entered after the password, so codes from unknown devices are limited per account. All pages that
 * accept a code share one count (`limitFactor`), because separate counts would multiply the allowed guesses.
 */
export function limitSignIns(stores: LimitStores, limits: SignInLimits) {
  const detail = 'Too many failed sign-ins. Try again in a few minutes.';
  const limit = (name: string, options: Partial<Options>) =>
    createLimit(stores, name, detail, { ...failuresOf(limits), ...options });
  const perAddress = limit('login-address', {
    limit: limits.perAddress,
    keyGenerator: addressOf,
    skip: (_req, res) => signInOf(res).device !== undefined,
  });
  const perOrigin = limit('login-account', {
    limit: limits.perAccount,
    keyGenerator: (req, res) => `${signInOf(res).account} ${signInOf(res).device ?? addressOf(req)}`,
  });
  const fromAnywhere = limit('login-anywhere', {
    // The count decides the delay of the response.
    limit: Number.MAX_SAFE_INTEGER,
    standardHeaders: false,
    keyGenerator: (_req, res) => signInOf(res).account,
    skip: (_req, res) => signInOf(res).device !== undefined,
  });
  const perFactor = createLimit(stores, 'second-factor', tooManyGuesses, {
    ...failuresOf(limits),
    limit: limits.perAccount,
    keyGenerator: (_req, res) => `${signInOf(res).account} ${signInOf(res).device ?? ''}`,
  });
  const slowDown = createSlowDown(limits);
  return {
    passwords: [perAddress, perOrigin, fromAnywhere, slowDown(['login-account', 'login-anywhere'])],
    codes: [perAddress, perFactor, slowDown(['second-factor'])],
    factor: [perFactor],
  };
}

export type SignInLimiters = ReturnType<typeof limitSignIns>;

export const tooManyGuesses = 'Too many wrong passwords or codes. Try again in a few minutes.';

export type LimitFactor = (req: Request, res: Response, email: string) => Promise<void>;

export const limitFactor =
  ({ factor }: SignInLimiters, devices: Devices): LimitFactor =>
  (req, res, email) => {
    setSignIn(req, res, devices, email);
    return passLimits(req, res, factor);
  };

/** Separate from sign-ins: strangers who guess at an account must not keep its owner from changing the password. */
export function limitConfirmations(stores: LimitStores, limits: SignInLimits): RequestHandler[] {
  const personOf = (res: Response) => (res.locals.person as { userId: string }).userId;
  const perPerson = createLimit(stores, 'confirmations', tooManyGuesses, {
    ...failuresOf(limits),
    limit: limits.perAccount,
    keyGenerator: (_req, res) => personOf(res),
  });
  return [perPerson, createSlowDown(limits)(['confirmations'], personOf)];
}

export const createLimit = (stores: LimitStores, name: string, detail: string, options: Partial<Options>) =>
  rateLimit({
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    identifier: name,
    requestPropertyName: name,
    store: stores.create(name),
    handler: (_req, _res, next) => next(new AppError('rate_limited', detail)),
    ...options,
  });

const failuresOf = ({ windowMs }: SignInLimits) =>
  ({
    windowMs,
    skipSuccessfulRequests: true,
    requestWasSuccessful: (_req, res) =>
      (res.locals.isGuessRight as boolean | undefined) ?? res.statusCode !== 401,
  }) satisfies Partial<Options>;

export function setSignIn(req: Request, res: Response, devices: Devices, email: string): void {
  const normalized = normalizeEmail(email);
  // E-mail addresses are private, and can be long.
  const account = createHash('sha256').update(normalized).digest('hex');
  res.locals.signInOf = { account, device: devices.find(req, normalized) } satisfies SignInOf;
}

type SignInOf = Record<'account', string> & Record<'device', string | undefined>;
const signInOf = (res: Response) => res.locals.signInOf as SignInOf;

/** For a guess that the response's status does not show (401 means wrong). */
export function markGuess(res: Response, isRight: boolean): void {
  res.locals.isGuessRight = isRight;
}

/** Right and wrong passwords are delayed alike. */
function createSlowDown(limits: SignInLimits) {
  const { quickFailures, firstDelayMs, maxDelayMs, maxWaiting, maxWaitingPerAccount } = limits;
  const waiting = new Map<string, number>();
  let waitingInAll = 0;
  return (
    counts: readonly string[],
    accountOf: (res: Response) => string = (res) => signInOf(res).account,
  ): RequestHandler =>
    async (req, res, next) => {
      const counted = req as unknown as Record<string, { used: number } | undefined>;
      const slow = Math.max(...counts.map((name) => counted[name]?.used ?? 0)) - quickFailures;
      if (slow <= 0) {
        next();
        return;
      }
      const account = accountOf(res);
      const ofAccount = waiting.get(account) ?? 0;
      if (waitingInAll >= maxWaiting || ofAccount >= maxWaitingPerAccount)
        throw new AppError('rate_limited', 'Too many sign-ins are waiting. Try again in a few seconds.', {
          retryAfterSeconds: maxDelayMs / 1000,
        });
      waitingInAll++;
      waiting.set(account, ofAccount + 1);
      const stayed = await sleep(Math.min(maxDelayMs, firstDelayMs * 2 ** (slow - 1)), true, {
        signal: hangUpSignal(res),
      }).catch(() => false);
      waitingInAll--;
      const left = waiting.get(account)! - 1;
      if (left === 0) waiting.delete(account);
      else waiting.set(account, left);
      if (stayed) next();
    };
}

const MAX_AGE_MS = 180 * DAY_MS;

const MAX_ACCOUNTS = 5;

const shape = /^([\w-]{22})\.((?:[\w-]{22}~?){1,5})\.([\w-]{43})$/;

export type Devices = ReturnType<typeof createDevices>;

/**
 * Strangers who guess at an account do not slow down sign-ins from browsers in which it has signed in. The cookie holds
 * a random id and hashes of the addresses that signed in (OWASP, "Device cookies"). It grants no access, but determines
 * which failures count.
 */
export function createDevices(keys: readonly string[]) {
  const keygrip = new Keygrip(keys, 'sha256');
  const cookie = hostCookie('gauge_device', MAX_AGE_MS);
  function read(req: Request): { id: string; accounts: string[] } | undefined {
    const [, id, accounts, signature] = shape.exec(cookie.read(req) ?? '') ?? [];
    if (id === undefined || !keygrip.verify(`${id}.${accounts!}`, signature!)) return undefined;
    return { id, accounts: accounts!.split('~') };
  }
  return {
    /** The browser's id. */
    find(req: Request, email: string): string | undefined {
      const device = read(req);
      return device?.accounts.includes(hashAccount(email)) ? device.id : undefined;
    },
    remember(req: Request, res: Response, email: string): void {
      const { id, accounts } = read(req) ?? { id: randomBytes(16).toString('base64url'), accounts: [] };
      const account = hashAccount(email);
      const known = [account, ...accounts.filter((other) => other !== account)].slice(0, MAX_ACCOUNTS);
      const text = `${id}.${known.join('~')}`;
      cookie.keep(req, res, `${text}.${keygrip.sign(text)}`);
    },
  };
}

/** 128 bits, so that the cookie does not reveal who has signed in. */
const hashAccount = (email: string) =>
  createHash('sha256').update(`gauge device ${email}`).digest('base64url').slice(0, 22);
