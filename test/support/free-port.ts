import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * A port at which nothing listens, for a server that begins later or comes back to it. It lies below those that systems give to
 * whoever asks for any (from 32768 on): one of them would soon be somebody else's.
 */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_768);
    if (await isFree(port)) return port;
  }
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
