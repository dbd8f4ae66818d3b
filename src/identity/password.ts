import { hash, hashRaw, verify } from '@node-rs/argon2';
import PQueue from 'p-queue';
import { AppError } from '../core/errors.js';

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

/** The same for what is random already and is looked up by its hash, hex. @param salt 16 bytes */
export const hashWithSalt = async (text: string, salt: Uint8Array, signal?: AbortSignal): Promise<string> =>
  (await inTurn(() => hashRaw(text, { ...parameters, salt }), signal)).toString('hex');

/** A hash that no password has, so that an unknown address costs as much time as a wrong password. */
let nobody: Promise<string> | undefined;

/**
 * True if the password belongs to the hash. Takes as long where there is no hash to compare with.
 * @throws AppError unavailable
 */
export async function verifyPassword(
  passwordHash: string | undefined,
  password: string,
  signal?: AbortSignal,
): Promise<boolean> {
  nobody ??= hash(crypto.randomUUID(), parameters);
  const expected = passwordHash ?? (await nobody);
  return (await inTurn(() => verify(expected, password), signal)) && passwordHash !== undefined;
}
