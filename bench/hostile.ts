/**
 * `npm run bench:hostile`: how much one caller can slow down the others. Longest event-loop pause for expensive bodies,
 * and a minute of connections that read nothing, or send headers or bodies slowly.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { Command } from 'commander';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { hostileBodies, type HostileBody } from './hostile-bodies.js';
import { createTenants, startProduct, type Product } from './world.js';

const options = new Command('bench:hostile')
  .option('--rounds <n>', 'number of times that each body is sent', '5')
  .option('--seconds <n>', 'seconds of the attack', '60')
  .option('--only <part>', 'bodies or unread')
  .parse()
  .opts<{ rounds: string; seconds: string; only?: string }>();
const runFile = promisify(execFile);
const MB = 1024 * 1024;

const folder = mkdtempSync(join(tmpdir(), 'gauge-hostile-'));
const pauseFile = join(folder, 'pause');
const server = await createPostgresServer();
const db = await openDatabase(
  { databaseUrl: server.url('postgres'), dataDir: '' },
  pino({ level: 'silent' }),
);
const [tenant] = await createTenants(db, 1);
await db.close();
const env = {
  DATABASE_URL: server.url('postgres'),
  PAUSE_FILE: pauseFile,
  LIMIT_DOCUMENTS_PER_MINUTE: '1000000000',
};

async function readPause({ pid }: Product): Promise<number> {
  rmSync(pauseFile, { force: true });
  process.kill(pid, 'SIGUSR2');
  while (!existsSync(pauseFile)) await setTimeout(2);
  return Number(readFileSync(pauseFile, 'utf8'));
}

async function measureBody(product: Product, { path, body, headers }: HostileBody) {
  const pauses: number[] = [];
  const works: number[] = [];
  let status = 0;
  let answerBytes = 0;
  for (let round = -1; round < Number(options.rounds); round++) {
    await setTimeout(50);
    await readPause(product);
    const before = mainThreadMs(product);
    const answer = await fetch(`http://127.0.0.1:${product.port}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${tenant!.secret}`, 'content-type': 'application/json', ...headers },
      body: new Uint8Array(body),
    });
    status = answer.status;
    answerBytes = (await answer.arrayBuffer()).byteLength;
    const pause = await readPause(product);
    // The code is not compiled yet.
    if (round < 0) continue;
    pauses.push(pause);
    works.push(mainThreadMs(product) - before);
  }
  return { status, answerBytes, pause: Math.min(...pauses), work: Math.min(...works) };
}

/** In ms. On an idle machine, its increase during a request is an upper bound for the pause. */
const mainThreadMs = ({ pid }: Product): number =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

async function measureBodies(): Promise<void> {
  const product = await startProduct(env, ['--import', 'tsx', '--import', './bench/pause-monitor.ts']);
  try {
    console.log(
      '| body | MB | answer | longest pause, ms | work, ms | work ÷ MB (at least one) |\n|---|---|---|---|---|---|',
    );
    for (const hostile of hostileBodies) {
      const { status, answerBytes, pause, work } = await measureBody(product, hostile);
      const megabytes = hostile.bytes / MB;
      const each = Math.min(pause, work) / Math.max(1, megabytes);
      console.log(
        `| ${hostile.name} | ${megabytes.toFixed(1)} | ${status}, ${answerBytes.toLocaleString('en')} bytes | ${pause.toFixed(0)} | ${work.toFixed(0)} | ${each.toFixed(1)}${each > 50 ? ' ✗' : ''} |`,
      );
    }
  } finally {
    await product.stop();
  }
}

interface Call {
  at: number;
  ms: number;
  isGood: boolean;
}

const callers = (kind: string, port: number, seconds: number) =>
  runFile(process.execPath, ['--import', 'tsx', 'bench/callers.ts', kind, String(port), String(seconds)], {
    maxBuffer: 64 * MB,
  });

async function measureAttack(): Promise<void> {
  const seconds = Number(options.seconds);
  const product = await startProduct(env);
  try {
    const before = product.memoryMb().now;
    const honest = callers('honest', product.port, seconds + 10);
    const attacks = ['deaf', 'headers', 'bodies'].map((kind) => callers(kind, product.port, seconds));
    await Promise.all(attacks);
    const endedAt = Date.now();
    const { peak } = product.memoryMb();
    const calls = JSON.parse((await honest).stdout) as Call[];
    const during = calls.filter(({ at }) => at <= endedAt);
    const after = calls.filter(({ at }) => at > endedAt + 2_000);
    console.log(`\nmemory: ${before} MB before, ${peak} MB maximum, ${product.memoryMb().now} MB 10 s after`);
    console.log(`honest callers during the attack: ${describe(during)}`);
    console.log(`from 2 s after it: ${describe(after)}`);
  } finally {
    await product.stop();
  }
}

function describe(calls: Call[]): string {
  const times = calls.map(({ ms }) => ms).toSorted((a, b) => a - b);
  const at = (share: number) => times[Math.floor(times.length * share)]?.toFixed(0);
  const failed = calls.filter(({ isGood }) => !isGood).length;
  return `${calls.length} calls, ${failed} failed, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, slowest ${times.at(-1)?.toFixed(0)} ms`;
}

try {
  if (options.only !== 'unread') await measureBodies();
  if (options.only !== 'bodies') await measureAttack();
} finally {
  await server.remove();
  rmSync(folder, { recursive: true, force: true });
}
