import { randomInt } from 'node:crypto';
import { createServer } from 'node:net';

/**
 * Finds a port on which nothing listens, for a server that starts later or restarts. The port is below the ephemeral
 * range (32768 and above), so the system does not assign it to another process meanwhile.
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
