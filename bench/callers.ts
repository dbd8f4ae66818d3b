/**
 * A separate process: `node --import tsx bench/callers.ts deaf|headers|bodies|honest PORT SECONDS`. Hostile connections
 * are reopened when the server closes them; `honest` prints response times.
 */
import { connect } from 'node:net';

const [kind = '', port = '', seconds = ''] = process.argv.slice(2);
const endsAt = performance.now() + Number(seconds) * 1000;
/** Hostile connections do not count toward the honest callers' limit per address. */
const STRANGER = '127.0.0.2';
const TRICKLE_MS = 3_000;

const attacks: Record<string, { connections: number; begin: string; trickle?: string }> = {
  deaf: { connections: 500, begin: 'GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(200) },
  headers: { connections: 2_000, begin: 'GET /healthz HTTP/1.1\r\nHost: a\r\n', trickle: 'X-Slow: 1\r\n' },
  bodies: {
    connections: 500,
    begin:
      'POST /login HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9999\r\n\r\n',
    trickle: 'a',
  },
};

function attack(begin: string, trickle: string | undefined): void {
  if (performance.now() > endsAt) return;
  const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress: STRANGER });
  // Never reads the responses.
  socket.pause();
  socket.write(begin);
  const timer = trickle === undefined ? undefined : setInterval(() => socket.write(trickle), TRICKLE_MS);
  socket.on('error', () => undefined);
  socket.on('close', () => {
    clearInterval(timer);
    setTimeout(() => attack(begin, trickle), 1_000);
  });
}

async function callHonestly(): Promise<void> {
  const times: { at: number; ms: number; isGood: boolean }[] = [];
  const paths = ['/healthz', '/markets', '/docs/errors', '/readyz'];
  const callers = Array.from({ length: 10 }, async (_, i) => {
    for (let turn = i; performance.now() < endsAt; turn++) {
      const began = performance.now();
      const isGood = await fetch(`http://127.0.0.1:${port}${paths[turn % paths.length]}`, {
        signal: AbortSignal.timeout(10_000),
      }).then(
        async (answer) => (await answer.arrayBuffer(), answer.ok),
        () => false,
      );
      times.push({ at: Date.now(), ms: performance.now() - began, isGood });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  });
  await Promise.all(callers);
  process.stdout.write(JSON.stringify(times));
}

if (kind === 'honest') await callHonestly();
else {
  const { connections, begin, trickle } = attacks[kind]!;
  for (let i = 0; i < connections; i++) attack(begin, trickle);
  setTimeout(() => process.exit(0), Number(seconds) * 1000);
}
