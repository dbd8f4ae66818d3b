/**
 * `npm run fuzz -- --requests N --seed S` starts the service as a separate process, sends requests of every kind from
 * every kind of caller, and checks each response against the OpenAPI document. A failing request is printed as a curl
 * command.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { ownScript, provideOwnBuild } from '../support/own-build.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { fuzz } from './run.js';
import { OPERATOR_TOKEN } from './world.js';

function parseCount(value: string): number {
  if (!/^\d{1,9}$/.test(value)) throw new InvalidArgumentError('must be a whole number');
  return Number(value);
}

const { requests, seed, database } = new Command('fuzz')
  .option('--requests <count>', 'how many', parseCount, 3_000)
  .option('--seed <number>', 'makes the same requests again', parseCount, Math.floor(Math.random() * 1e6))
  .addOption(new Option('--database <name>').choices(['embedded', 'postgres']).default('embedded'))
  .parse()
  .opts<{ requests: number; seed: number; database: 'embedded' | 'postgres' }>();

const folder = mkdtempSync(join(tmpdir(), 'gauge-fuzz-'));
const postgres = database === 'postgres' ? await createPostgresServer() : undefined;
const many = '1000000000';
const removeBuild = await provideOwnBuild();
const server = spawn(process.execPath, ownScript('test/support/serve'), {
  env: {
    PATH: process.env.PATH,
    NODE_ENV: 'test',
    LOG_LEVEL: 'error',
    PORT: '0',
    HOST: '127.0.0.1',
    DATA_DIR: join(folder, 'data'),
    ...(postgres ? { DATABASE_URL: postgres.url('postgres') } : {}),
    SESSION_KEYS: 'session-key-of-the-fuzzer',
    OPERATOR_TOKEN,
    TRUST_PROXY: '1',
    TEST_PAST_DAYS: '0',
    // The sign-in delay, normally up to 16 s, would look like a slow response.
    TEST_SIGN_IN_DELAY_MS: '500',
    LIMIT_USAGE_PER_MINUTE: many,
    LIMIT_ENTITLEMENTS_PER_MINUTE: many,
    LIMIT_TRADING_PER_MINUTE: many,
    LIMIT_READS_PER_MINUTE: many,
    LIMIT_DOCUMENTS_PER_MINUTE: many,
    LIMIT_DASHBOARD_PER_MINUTE: many,
    LIMIT_KEY_CHANGES_PER_HOUR: '1000000',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
});
let isEnding = false;
let hasFailed = false;
server.once('exit', (code) => {
  if (isEnding) return;
  console.error(`The server ended with ${code}.`);
  process.exit(1);
});

try {
  const port = await new Promise<number>((resolve) => {
    let output = '';
    server.stdout.on('data', (chunk: Buffer) => {
      const text = chunk.toString();
      output = (output + text).slice(-8_000);
      const [, found] = /^\{"port":(\d+)\}$/m.exec(output) ?? [];
      if (found !== undefined) resolve(Number(found));
      if (text.includes('"level":50') || text.includes('"level":60'))
        process.stderr.write(text.slice(0, 4_000));
    });
  });
  console.log(`seed ${seed}, ${requests.toLocaleString('en')} requests, ${database} database`);
  const startedAt = Date.now();
  const report = await fuzz({
    url: `http://127.0.0.1:${port}`,
    pid: server.pid!,
    requests,
    seed,
    onProgress(line) {
      if (process.stdout.isTTY) process.stdout.write(`\r\u001b[K${line}`);
    },
  });
  if (process.stdout.isTTY) console.log();
  const { faults, ...summary } = report;
  console.log({ ...summary, seconds: Math.round((Date.now() - startedAt) / 1000) });
  for (const fault of faults) console.error(fault);
  hasFailed = faults.length > 0;
  if (hasFailed) console.error(`${faults.length} faults; repeat with --seed ${seed} --requests ${requests}`);
} finally {
  isEnding = true;
  const exit = new Promise((resolve) => server.once('exit', resolve));
  server.kill('SIGTERM');
  await exit;
  await postgres?.remove();
  removeBuild();
  rmSync(folder, { recursive: true, force: true });
}
process.exit(hasFailed ? 1 : 0);
