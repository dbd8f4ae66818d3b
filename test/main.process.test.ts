import { spawn, type ChildProcess } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, inject, it, vi } from 'vitest';
import { openDatabase } from '../src/core/db/open.js';
import type { DemoData } from '../src/demo/demo.js';
import { usageEvents } from '../src/metering/ingestion/table.js';
import { Browser } from './support/accounts.js';
import { createOrganization } from './support/fixtures.js';
import { ownScript } from './support/own-build.js';
import { findFreePort } from './support/free-port.js';

interface Started {
  child: ChildProcess;
  stdout: string;
  stderr: string;
  exit: Promise<number | null>;
}

let folder: string;
const running: Started[] = [];
let freeOne: number;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gauge-main-'));
  freeOne = await findFreePort();
});
afterEach(async () => {
  for (const { child, exit } of running.splice(0)) {
    child.kill('SIGKILL');
    await exit;
  }
  // A service started through a terminal may still be shutting down.
  rmSync(folder, { recursive: true, force: true, maxRetries: 40 });
});

const main = ownScript('src/main');

function start(env: Record<string, string> = {}, command = [process.execPath, ...main]): Started {
  const child = spawn(command[0]!, command.slice(1), {
    env: { PATH: process.env.PATH, PORT: String(freeOne), DATA_DIR: join(folder, 'data'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const started: Started = { child, stdout: '', stderr: '', exit };
  child.stdout.on('data', (chunk) => (started.stdout += String(chunk)));
  child.stderr.on('data', (chunk) => (started.stderr += String(chunk)));
  running.push(started);
  return started;
}

async function until<T>(look: () => T | undefined | null | false): Promise<T> {
  for (;;) {
    const found = look();
    if (found) return found;
    const ended = running.find(({ child }) => child.exitCode !== null && child.exitCode > 0);
    if (ended) throw new Error(`The service has ended: ${ended.stderr}`);
    await setTimeout(25);
  }
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

const readDemo = (): DemoData => JSON.parse(readFileSync(join(folder, 'data', 'demo.json'), 'utf8'));
const urlIn = (text: string) => /Gauge is running at (\S+) with demo data/.exec(text)?.[1];

describe('a start that must fail', () => {
  it.each([
    [
      'a port in use',
      (port: number) => ({ PORT: String(port), MARKETS: 'off' }),
      (port: number) =>
        `Gauge could not start: port ${port} of 127.0.0.1 is in use. Stop the process that listens there, or set PORT to another port.\n`,
    ],
    [
      'a server that is not Postgres',
      (port: number) => ({
        DATABASE_URL: `postgres://gauge:secret-word@127.0.0.1:${port}/gauge`,
        MARKETS: 'off',
      }),
      (port: number) =>
        `Gauge could not start: the server at 127.0.0.1:${port} is not Postgres. Correct the host or the port of DATABASE_URL.\n`,
    ],
  ])(
    'ends with a sentence and status 1: %s',
    async (_what, env, sentence) => {
      const other = createServer((socket) => socket.on('error', () => undefined).end('SSH-2.0-other\r\n'));
      const port = await listen(other);
      try {
        const started = start(env(port));
        expect(await started.exit).toBe(1);
        expect(started.stderr).toBe(sentence(port));
        expect(started.stdout).not.toMatch(/\bat .*:\d+:\d+|secret-word/);
      } finally {
        other.close();
      }
    },
    120_000,
  );

  it.each([
    ['127.0.0.1:9', 'nothing listens there'],
    ['database.invalid:5432', 'the host name cannot be resolved'],
  ])(
    'waits for a database that is away, and names it: %s',
    async (place, reason) => {
      const started = start({
        DATABASE_URL: `postgres://gauge:secret-word@${place}/gauge`,
        MARKETS: 'off',
      });
      const line = await until(() => /^.*Waiting for.*\n/m.exec(started.stdout)?.[0]);
      expect(JSON.parse(line).msg).toBe(
        `Waiting for Postgres at ${place}: ${reason}. Start Postgres there, or stop Gauge and correct DATABASE_URL.`,
      );
      await setTimeout(1_500);
      expect(started.child.exitCode).toBe(null);
      expect(started.stdout.match(/Waiting for|cannot be reached/g)).toHaveLength(1);
      expect(started.stdout + started.stderr).not.toMatch(/\bat .*:\d+:\d+|secret-word/);
      // The process must handle the signal itself, because PID 1 of a container ignores it by default.
      started.child.kill('SIGTERM');
      expect(await started.exit).toBe(0);
      expect(started.stdout).toContain('stopped before startup was complete');
    },
    120_000,
  );
});

it('a start on a database migrated by a newer version says so, and each start without an operator prints a new set-up link and ends earlier ones', async () => {
  const dataDir = join(folder, 'data');
  cpSync(inject('embeddedTemplate'), dataDir, { recursive: true });
  const db = await openDatabase({ databaseUrl: undefined, dataDir }, pino({ level: 'silent' }));
  // The demo is not created in a database that already has data.
  await createOrganization(db);
  await db.orm.execute(
    sql`insert into drizzle.__drizzle_migrations (hash, created_at) values ('of-tomorrow', ${Date.now() + 1e9})`,
  );
  await db.close();
  const html = { accept: 'text/html' };
  const opens = async (url: string, link: string) => {
    const browser = new Browser(url);
    await browser.send('POST', '/set-up/open', { form: { link }, headers: html });
    return (await browser.get('/set-up', html)).status;
  };
  const begin = async (LOG_LEVEL: string) => {
    const started = start({ MARKETS: 'off', LOG_LEVEL });
    const [line] = await until(() => /^\{.*Gauge has no operator yet.*\}$/m.exec(started.stdout));
    const { url: link, msg } = JSON.parse(line) as { url: string; msg: string };
    expect(msg).toMatch(/Earlier set-up links no longer work\./);
    const [url, token] = link.split('/set-up#') as [string, string];
    expect(started.stdout.split(token)).toHaveLength(2);
    return { ...started, url, token };
  };
  const first = await begin('info');
  expect(first.url).toBe(`http://localhost:${freeOne}`);
  const newer = /^.*newer version.*$/m.exec(first.stdout)![0];
  expect(JSON.parse(newer)).toMatchObject({ level: 40, newerMigrations: 1 });
  expect(await opens(first.url, first.token)).toBe(200);
  first.child.kill('SIGTERM');
  expect(await first.exit).toBe(0);

  const second = await begin('fatal');
  expect(await opens(second.url, first.token)).toBe(404);
  expect(await opens(second.url, second.token)).toBe(200);
}, 180_000);

describe('the first start', () => {
  it.runIf(process.platform === 'linux')(
    'shows readable lines on a terminal, followed by the logins',
    async () => {
      const command = [process.execPath, ...main].map((part) => `'${part}'`).join(' ');
      const started = start({ TERM: 'dumb', NO_COLOR: '1', MARKETS: 'off' }, [
        'script',
        '-qefc',
        command,
        '/dev/null',
      ]);
      const url = await until(() => urlIn(started.stdout));
      const [before = '', greeting] = started.stdout.split('Gauge is running at ');
      expect(before).toMatch(/^\[\d\d:\d\d:\d\d\] INFO: Gauge is ready \{.*\}\r?\n/m);
      expect(greeting).toContain('ada@northwind.example');
      const shown = started.stdout.length;
      await fetch(`${url}/healthz`);
      await fetch(`${url}/no-such-page`);
      const later = await until(() => /^.*no-such-page.*$/m.exec(started.stdout.slice(shown))?.[0]);
      expect(later).toMatch(
        /^\[\d\d:\d\d:\d\d\] INFO: GET \/no-such-page 404 in [\d.]+ ms \([\w-]+\) \{"code":"not_found"\}\r?$/,
      );
      expect(started.stdout).not.toMatch(/healthz|"level"/);
      started.child.kill('SIGTERM');
    },
    180_000,
  );

  it('prints keys that work at once, and a kill while the past is filled in loses no usage', async () => {
    const first = start();
    const url = await until(() => urlIn(first.stdout));
    const { keys, pastUpTo } = readDemo();
    expect(pastUpTo).toBeDefined();
    const headers = { authorization: `Bearer ${keys.live}` };
    expect((await fetch(`${url}/api/entitlements`, { headers })).status).toBe(200);
    const operates = async (at: string) => {
      const token = await until(() => /export OPERATOR_TOKEN=(\w+)/.exec(first.stdout)?.[1]);
      const asOperator = { headers: { authorization: `Bearer ${token}` } };
      return (await fetch(`${at}/operator/organizations`, asOperator)).status;
    };
    expect(await operates(url)).toBe(200);
    const [owner] = readDemo().logins;
    const browser = new Browser(url);
    expect((await browser.signIn(owner!.email, owner!.password)).status).toBe(303);
    for (const name of ['session-key', 'operator-token'])
      expect(statSync(join(folder, 'data', name)).mode & 0o777).toBe(0o600);
    // Passkeys work on localhost but not on 127.0.0.1.
    const origins = new Set(first.stdout.match(/http:\/\/[\w.]+:\d+/g));
    expect([...origins]).toEqual([`http://localhost:${freeOne}`]);
    // Kills the process when only part of the demo's history exists.
    await setTimeout(1_000);
    first.child.kill('SIGKILL');
    await first.exit;
    expect(readDemo().pastUpTo).toBe(pastUpTo);

    // Runs without markets, because creating their history takes a minute; `demo.test.ts` covers interrupting that.
    const second = start({ MARKETS: 'off' });
    const again = await until(() => urlIn(second.stdout));
    expect(second.stdout).toContain(keys.live);
    expect(await operates(again)).toBe(200);
    expect((await browser.copy(again).get('/dashboard/session')).status).toBe(200);
    await until(() => readDemo().pastUpTo === undefined);
    second.child.kill('SIGTERM');
    expect(await second.exit).toBe(0);

    const log = pino({ level: 'silent' });
    const db = await openDatabase({ databaseUrl: undefined, dataDir: join(folder, 'data') }, log);
    try {
      const events = await db.orm.select().from(usageEvents);
      expect(events.length).toBeGreaterThan(300);
      expect(new Set(events.map((event) => event.idempotencyKey)).size).toBe(events.length);
      const upTo = Date.parse(pastUpTo!);
      expect(Math.max(...events.map(({ occurredAt }) => occurredAt.getTime()))).toBeLessThanOrEqual(upTo);
    } finally {
      await db.close();
    }
  }, 300_000);
});

describe('a service whose log nobody reads any more', () => {
  const isOk = (path: string) =>
    fetch(`http://127.0.0.1:${freeOne}${path}`).then(
      ({ ok }) => ok,
      () => false,
    );
  async function serveAndStop({ child, exit }: Started) {
    await vi.waitFor(async () => expect(await isOk('/readyz')).toBe(true), { timeout: 120_000 });
    const answer = await fetch(`http://127.0.0.1:${freeOne}/login`);
    child.kill('SIGTERM');
    return { status: answer.status, exitCode: await exit };
  }
  const servesAndStops = { status: 200, exitCode: 0 };

  it.each(['stdout', 'stderr'] as const)(
    'goes on if the reader of %s is gone from the start',
    async (name) => {
      const started = start({ MARKETS: 'off' });
      started.child[name]!.destroy();
      expect(await serveAndStop(started)).toEqual(servesAndStops);
    },
    180_000,
  );

  it('goes on if the readers of both are gone while it starts, and while it serves', async () => {
    const started = start({ MARKETS: 'off' });
    await vi.waitFor(async () => expect(await isOk('/healthz')).toBe(true), { timeout: 120_000 });
    started.child.stdout!.destroy();
    started.child.stderr!.destroy();
    expect(await serveAndStop(started)).toEqual(servesAndStops);
  }, 180_000);

  it('stops if the reader of stdout has stopped reading', async () => {
    const started = start({ MARKETS: 'off', LOG_LEVEL: 'trace' });
    started.child.stdout!.pause();
    await vi.waitFor(async () => expect(await isOk('/readyz')).toBe(true), { timeout: 120_000 });
    // More lines than a pipe and the stream's own buffer hold.
    const long = `/${'x'.repeat(4_000)}`;
    for (let i = 0; i < 100; i++) await fetch(`http://127.0.0.1:${freeOne}${long}`);
    expect(await serveAndStop(started)).toEqual(servesAndStops);
  }, 180_000);

  it.runIf(process.platform === 'linux')(
    'goes on with a full disk, and says so once',
    async () => {
      const command = ['sh', '-c', 'exec "$@" > /dev/full', 'sh', process.execPath, ...main];
      const started = start({ MARKETS: 'off' }, command);
      expect(await serveAndStop(started)).toEqual(servesAndStops);
      expect(started.stderr).toBe('Gauge cannot write its log to standard output (ENOSPC), and continues.\n');
    },
    180_000,
  );
});
