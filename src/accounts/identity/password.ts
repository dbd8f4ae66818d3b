import { hash, hashRaw, verify } from '@node-rs/argon2';
import type { ZxcvbnFactory } from '@zxcvbn-ts/core';
import PQueue from 'p-queue';
import { AppError } from '../../core/errors.js';

/** OWASP's argon2id parameters: 19 MiB, 2 passes, 1 lane. */
const parameters = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

/** Each hash takes 19 MiB and a thread, so a flood of sign-ins must queue instead of using up memory. */
const MAX_PARALLEL = 2;

/** A few seconds of work. Further callers get 503 with Retry-After. */
const MAX_WAITING = 100;

const queue = new PQueue({ concurrency: MAX_PARALLEL });

/** @throws the reason of `signal` if it aborts while waiting; AppError unavailable if too many calls wait */
async function inTurn<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (queue.size >= MAX_WAITING)
    throw new AppError('unavailable', 'Too many passwords are being checked. Try again in a few seconds.', {
      retryAfterSeconds: 2,
    });
  return queue.add(work, signal ? { signal } : {});
}

/** Keyboards send an accented letter as one code point or as two, which look the same. */
const canonical = (password: string): string => password.normalize('NFC');

/**
 * PHC format. Slow: call this before taking any lock.
 * @param signal aborts the wait in the queue
 * @throws AppError unavailable
 */
export const hashPassword = (password: string, signal?: AbortSignal): Promise<string> =>
  inTurn(() => hash(canonical(password), parameters), signal);

/** Hex, for a random secret that is looked up by its hash. @param salt 16 bytes */
export const hashWithSalt = async (text: string, salt: Uint8Array, signal?: AbortSignal): Promise<string> =>
  (await inTurn(() => hashRaw(text, { ...parameters, salt }), signal)).toString('hex');

/** Matches no password. An unknown e-mail address takes as long as a wrong password. */
let unusedHash: Promise<string> | undefined;

export const unusedPassword = (): Promise<string> => (unusedHash ??= hash(crypto.randomUUID(), parameters));

/**
 * Earlier versions hashed the password as it was typed. A wrong password takes as long with a hash as without one.
 * @returns `outdated` if only such a hash matches
 * @throws AppError unavailable
 */
export async function verifyPassword(
  passwordHash: string | undefined,
  password: string,
  signal?: AbortSignal,
): Promise<'current' | 'outdated' | undefined> {
  const expected = passwordHash ?? (await unusedPassword());
  const current = canonical(password);
  for (const text of new Set([current, password, password.normalize('NFD')])) {
    const isRight = await inTurn(() => verify(expected, text), signal);
    if (isRight && passwordHash !== undefined) return text === current ? 'current' : 'outdated';
  }
  return undefined;
}

export const MIN_PASSWORD = 12;

export const MAX_PASSWORD = 1024;

/** zxcvbn's scores 3 and 4 withstand this many (Wheeler 2016). */
const MIN_GUESSES = 1e8;

/** Estimation time is quadratic in the length, and further characters only make a password stronger. */
const MAX_JUDGED = 32;

/** Missing from the library's lists of 49,000 passwords and 7,800 words. */
const wellKnown = [
  'correcthorsebatterystaple',
  'thisismypassword',
  'letmeinletmein',
  'loveyouforever',
  'gauge',
];

let estimator: Promise<ZxcvbnFactory> | undefined;

/** Takes about 170 ms and 13 MB. */
export const preparePasswordRules = (): Promise<ZxcvbnFactory> => (estimator ??= loadEstimator());

async function loadEstimator(): Promise<ZxcvbnFactory> {
  const [{ ZxcvbnFactory: Estimator }, { adjacencyGraphs, dictionary }] = await Promise.all([
    import('@zxcvbn-ts/core'),
    import('@zxcvbn-ts/language-common'),
  ]);
  return new Estimator({
    graphs: adjacencyGraphs,
    dictionary: { ...dictionary, wellKnown },
    maxLength: MAX_JUDGED,
    l33tMaxSubstitutions: 10,
  });
}

/** The text follows the field's name. Refuses what the sign-in form would: control characters, unpaired surrogates. */
export async function passwordProblem(typed: string, email: string): Promise<string | undefined> {
  const password = canonical(typed);
  const { length } = Array.from(password);
  if (length < MIN_PASSWORD) return `must have at least ${MIN_PASSWORD} characters`;
  if (length > MAX_PASSWORD) return `must have at most ${MAX_PASSWORD.toLocaleString('en')} characters`;
  if (/[\p{Cc}\p{Cs}]/u.test(password)) return 'must not contain control characters';
  const lower = password.toLowerCase();
  const [localPart = '', domain = ''] = email.split('@');
  if (lower === email || lower.replace(/[\d\W_]+$/, '') === localPart)
    return 'must not consist of your e-mail address';
  const { guesses } = (await preparePasswordRules()).check(password, [email, localPart, domain]);
  if (guesses < MIN_GUESSES)
    return 'is too easy to guess. It is a common password, or consists of common words, names, dates or patterns';
  return undefined;
}
