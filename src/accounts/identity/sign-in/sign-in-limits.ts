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

export interface SignInLimits {
  windowMs: number;
  /** Failures in the window after which every sign-in from an address is refused. */
  perAddress: number;
  /** The same of an account from one network or one known device, whether or not the account exists. */
  perAccount: number;
  /** Failures of an account that are answered at once. The wait starts with the next one and doubles with each. */
  quickFailures: number;
  firstDelayMs: number;
  maxDelayMs: number;
  /** Answers that wait at the same time. Each holds a connection, so the ones beyond are refused. */
  maxWaiting: number;
  /** The same of one account. With the longest wait it bounds the guesses at an account from anywhere. */
  maxWaitingPerAccount: number;
}

export const defaultSignInLimits: SignInLimits = {
  windowMs: 15 * MINUTE_MS,
  perAddress: 50,
  perAccount: 10,
  quickFailures: 3,
  firstDelayMs: 250,
  maxDelayMs: 16_000,
  maxWaiting: 100,
  maxWaitingPerAccount: 5,
};

/** Whose sign-in it is, and on which device if it is one where that account has signed in before. */
interface SignInOf {
  account: string;
  device: string | undefined;
}

/**
 * Counts failed sign-ins. A request counts when it comes and is taken back when it was no failure, so that a burst of
 * guesses at once gets no further than one after the other; one that hangs up before its answer stays counted.
 *
 * No caller can lock another out: an account's failures are refused per network, slow down every sign-in to it from
 * devices that it does not know, and do not concern the ones that it knows, which have a count of their own. Codes are
 * six digits and come after the password: those of unknown devices are refused per account. They have one count on all pages
 * that take one (`limitFactor`): with a count on each page, every further page would allow as many guesses again.
 */
export function limitSignIns(stores: LimitStores, limits: SignInLimits) {
  const detail = 'Too many sign-ins have failed. Try again in some minutes.';
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
    // Counted and never refused: it decides how long the answer waits.
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

/** Passes the limit of wrong codes of a person, before one is checked. @throws AppError rate_limited */
export type LimitFactor = (req: Request, res: Response, email: string) => Promise<void>;

/** For the pages that take a code outside of the sign-in. */
export const limitFactor =
  ({ factor }: SignInLimiters, devices: Devices): LimitFactor =>
  (req, res, email) => {
    setSignIn(req, res, devices, email);
    return passLimits(req, res, factor);
  };

/**
 * Counts wrong passwords and codes of people who are signed in and confirm who they are. Apart from the passwords of sign-ins:
 * strangers who guess at an account must not keep its person from changing the password. Codes pass `limitFactor` as well.
 */
export function limitConfirmations(stores: LimitStores, limits: SignInLimits): RequestHandler[] {
  const personOf = (res: Response) => (res.locals.person as { userId: string }).userId;
  const perPerson = createLimit(stores, 'confirmations', tooManyGuesses, {
    ...failuresOf(limits),
    limit: limits.perAccount,
    keyGenerator: (_req, res) => personOf(res),
  });
  return [perPerson, createSlowDown(limits)(['confirmations'], personOf)];
}

/** A limit that refuses with this sentence. Requests have its count under its name. */
export const createLimit = (
  stores: LimitStores,
  name: string,
  detail: string,
  options: Partial<Options>,
): RequestHandler =>
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

/** Says whose sign-in it is that the limits count. */
export function setSignIn(req: Request, res: Response, devices: Devices, email: string): void {
  const normalized = normalizeEmail(email);
  // An address may be long, and it is private: the store holds its hash.
  const account = createHash('sha256').update(normalized).digest('hex');
  res.locals.signInOf = { account, device: devices.find(req, normalized) } satisfies SignInOf;
}

const signInOf = (res: Response) => res.locals.signInOf as SignInOf;

/** Says whether a guess was right, where the status of the answer does not: 401 is a wrong one. */
export function markGuess(res: Response, isRight: boolean): void {
  res.locals.isGuessRight = isRight;
}

/** Makes what goes after the limits by whose counts it waits. Right and wrong passwords wait alike: the wait says nothing about the password. */
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
      if (waitingInAll >= maxWaiting || ofAccount >= maxWaitingPerAccount) {
        throw new AppError('rate_limited', 'Too many sign-ins are waiting. Try again in some seconds.', {
          retryAfterSeconds: maxDelayMs / 1000,
        });
      }
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

/** Browsers in which the account has signed in before: strangers who guess at the account do not slow them down. */
export interface Devices {
  /** The id of the browser if this account has signed in there. */
  find(req: Request, email: string): string | undefined;
  remember(req: Request, res: Response, email: string): void;
}

/**
 * A signed cookie with a random id and the hashes of the addresses that have signed in (OWASP, "Device cookies"). It
 * opens nothing: it only says which failures count. Signed by the first of `keys`, verified by all.
 */
export function createDevices(keys: readonly string[]): Devices {
  const keygrip = new Keygrip(keys, 'sha256');
  const cookie = hostCookie('gauge_device', MAX_AGE_MS);
  function read(req: Request): { id: string; accounts: string[] } | undefined {
    const [, id, accounts, signature] = shape.exec(cookie.read(req) ?? '') ?? [];
    if (id === undefined || !keygrip.verify(`${id}.${accounts!}`, signature!)) return undefined;
    return { id, accounts: accounts!.split('~') };
  }
  return {
    find(req, email) {
      const device = read(req);
      return device?.accounts.includes(hashAccount(email)) ? device.id : undefined;
    },
    remember(req, res, email) {
      const { id, accounts } = read(req) ?? { id: randomBytes(16).toString('base64url'), accounts: [] };
      const account = hashAccount(email);
      const known = [account, ...accounts.filter((other) => other !== account)].slice(0, MAX_ACCOUNTS);
      const text = `${id}.${known.join('~')}`;
      cookie.keep(req, res, `${text}.${keygrip.sign(text)}`);
    },
  };
}

/** 128 bits of the address's hash: the cookie does not show who has signed in. */
const hashAccount = (email: string) =>
  createHash('sha256').update(`gauge device ${email}`).digest('base64url').slice(0, 22);
