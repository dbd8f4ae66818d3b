import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ownScript, provideOwnBuild } from '../support/own-build.js';
import { createPostgresServer } from '../support/postgres-server.js';
import { OPERATOR_TOKEN } from './world.js';

export interface FuzzedServer {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

/** Starts the service as a separate process without rate limits. If it ends on its own, this process ends with an error. */
export async function startServer(database: 'embedded' | 'postgres'): Promise<FuzzedServer> {
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
  const exit = new Promise<void>((resolve) => {
    server.once('exit', (code) => {
      resolve();
      if (isEnding) return;
      console.error(`The server ended with ${code}.`);
      process.exit(1);
    });
  });
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
  return {
    url: `http://127.0.0.1:${port}`,
    pid: server.pid!,
    async stop() {
      isEnding = true;
      server.kill('SIGTERM');
      await exit;
      await postgres?.remove();
      removeBuild();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
