import { hash, verify } from '@node-rs/argon2';

/** OWASP's argon2id parameters: 19 MiB, 2 passes, 1 lane. */
const parameters = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const;
/** Hashes at once: each takes 19 MiB and a thread, so a flood of sign-ins must wait in line, not in memory. */
const MAX_PARALLEL = 2;

let running = 0;
const waiting: (() => void)[] = [];

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= MAX_PARALLEL) await new Promise<void>((resolve) => waiting.push(resolve));
  else running++;
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next) next();
    else running--;
  }
}

/** The argon2id hash of a password in PHC format, salt included. */
export const hashPassword = (password: string): Promise<string> => inTurn(() => hash(password, parameters));

/** A hash that no password has, so that an unknown address costs as much time as a wrong password. */
let nobody: Promise<string> | undefined;

/** True if the password belongs to the hash. Takes as long where there is no hash to compare with. */
export async function verifyPassword(passwordHash: string | undefined, password: string): Promise<boolean> {
  nobody ??= hashPassword(crypto.randomUUID());
  const expected = passwordHash ?? (await nobody);
  return (await inTurn(() => verify(expected, password))) && passwordHash !== undefined;
}
