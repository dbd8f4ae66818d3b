import { hash, hashRaw, verify } from '@node-rs/argon2';
import type { ZxcvbnFactory } from '@zxcvbn-ts/core';
import PQueue from 'p-queue';
import { AppError } from '../../core/errors.js';

/** OWASP's argon2id parameters: 19 MiB, 2 passes, 1 lane. */
const parameters = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;

/** Hashes at once: each takes 19 MiB and a thread, so a flood of sign-ins must wait in line, not in memory. */
const MAX_PARALLEL = 2;

/** Some seconds of hashing. Who comes then is told to try again, and the line never grows beyond it. */
const MAX_WAITING = 100;

const queue = new PQueue({ concurrency: MAX_PARALLEL });

/** @throws the reason of `signal`, when it aborts before the turn comes; AppError unavailable if too many wait */
async function inTurn<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (queue.size >= MAX_WAITING)
    throw new AppError('unavailable', 'Too many passwords are being checked. Try again in some seconds.', {
      retryAfterSeconds: 2,
    });
  return queue.add(work, signal ? { signal } : {});
}

/**
 * The argon2id hash of a password in PHC format, salt included.
 * @param signal of who asks: a caller who hung up while waiting is not hashed
 * @throws AppError unavailable
 */
export const hashPassword = (password: string, signal?: AbortSignal): Promise<string> =>
  inTurn(() => hash(password, parameters), signal);

/** The same for what is random already and is found by its hash, hex. @param salt 16 bytes */
export const hashWithSalt = async (text: string, salt: Uint8Array, signal?: AbortSignal): Promise<string> =>
  (await inTurn(() => hashRaw(text, { ...parameters, salt }), signal)).toString('hex');

/** A hash that no password has, so that an unknown address costs as much time as a wrong password. */
let unusedHash: Promise<string> | undefined;

/**
 * True if the password belongs to the hash. Takes as long where there is no hash to compare with.
 * @throws AppError unavailable
 */
export async function verifyPassword(
  passwordHash: string | undefined,
  password: string,
  signal?: AbortSignal,
): Promise<boolean> {
  unusedHash ??= hash(crypto.randomUUID(), parameters);
  const expected = passwordHash ?? (await unusedHash);
  return (await inTurn(() => verify(expected, password), signal)) && passwordHash !== undefined;
}

export const MIN_PASSWORD = 12;

export const MAX_PASSWORD = 1024;

/** A password that is found within so many guesses is refused: zxcvbn's score 3 and better (Wheeler 2016). */
const MIN_GUESSES = 1e8;

/** The time of an estimate grows with the square of the length. What goes beyond it only makes a password better. */
const MAX_JUDGED = 32;

/** Beside the 49,000 common passwords and 7,800 words of the library: the best-known examples. */
const wellKnown = [
  'correcthorsebatterystaple',
  'thisismypassword',
  'letmeinletmein',
  'loveyouforever',
  'gauge',
];

let estimator: Promise<ZxcvbnFactory> | undefined;

/** Reads the lists of common passwords: a sixth of a second and 13 MB, once. */
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

/**
 * What is wrong with a newly chosen password, to go on where the field's name ends, or undefined if it is good.
 * What the sign-in form would refuse is refused here as well: control characters and halves of surrogate pairs.
 */
export async function passwordProblem(password: string, email: string): Promise<string | undefined> {
  const { length } = Array.from(password);
  if (length < MIN_PASSWORD) return `must have at least ${MIN_PASSWORD} characters`;
  if (length > MAX_PASSWORD) return `must have at most ${MAX_PASSWORD.toLocaleString('en')} characters`;
  if (/[\p{Cc}\p{Cs}]/u.test(password)) return 'must not contain control characters';
  const lower = password.toLowerCase();
  const [localPart = '', domain = ''] = email.split('@');
  if (lower === email || lower.replace(/[\d\W_]+$/, '') === localPart)
    return 'must not be made of your e-mail address';
  const { guesses } = (await preparePasswordRules()).check(password, [email, localPart, domain]);
  if (guesses < MIN_GUESSES)
    return 'is too easy to guess: it is a common password, or made of common words, names, dates or patterns';
  return undefined;
}
