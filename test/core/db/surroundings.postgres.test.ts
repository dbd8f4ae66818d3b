import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UnsuitableDatabaseError } from '../../../src/core/db/check-server.js';
import { isDatabaseUnavailable, type Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { describeOutage } from '../../../src/core/db/outage.js';
import { openPostgres } from '../../../src/core/db/postgres.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { watchPools } from '../../../src/health/database.js';
import { createPostgresProxy } from '../../support/postgres-proxy.js';
import { findFreePort } from '../../support/free-port.js';
import { operatorToken } from '../../support/operator.js';
import { createPostgresServer, type PostgresServer } from '../../support/postgres-server.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createTenant, readUsage, sendUsage, usageEvent } from '../../metering/support/usage.js';

const silent = pino({ level: 'silent' });
let server: PostgresServer;
let admin: pg.Pool;
beforeAll(async () => {
  server = await createPostgresServer({ fsync: 'off', max_connections: '40' });
  admin = new pg.Pool({ connectionString: server.url('postgres'), max: 1 });
});
afterAll(async () => {
  await admin.end();
  await server.remove();
});

let databases = 0;
/** Creates a migrated database and returns its name. */
async function createDatabase(settings: Record<string, string> = {}): Promise<string> {
  const name = `surroundings_${++databases}`;
  await admin.query(`create database ${name} template template_gauge`);
  for (const [setting, value] of Object.entries(settings))
    await admin.query(`alter database ${name} set ${setting} = '${value}'`);
  return name;
}

function createLog() {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) });
  return { log, lines };
}

async function withService<T>(
  url: string,
  work: (service: TestService, db: Database, lines: Record<string, unknown>[]) => Promise<T>,
): Promise<T> {
  const { log, lines } = createLog();
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, log);
  const service = await startTestService(db, { context: { log } });
  try {
    return await work(service, db, lines);
  } finally {
    await service.stop();
    await db.close();
  }
}

const readyz = async (service: TestService) => {
  const answer = await fetch(`${service.url}/readyz`);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
};

it('connections read only committed data, whatever the server’s defaults', async () => {
  const name = await createDatabase({ default_transaction_isolation: 'serializable' });
  await withService(server.url(name), async (_service, db) => {
    const show = `select current_setting('transaction_isolation') as isolation`;
    const read = (rows: unknown) => (rows as { rows: { isolation: string }[] }).rows[0]!.isolation;
    expect(read(await db.orm.execute(show))).toBe('read committed');
    expect(read(await db.orm.transaction((tx) => tx.execute(show)))).toBe('read committed');
    expect(read(await db.transaction((tx) => tx.execute(show)))).toBe('read committed');
    expect((await db.run({ name: 'test_isolation', text: show }, []))[0]).toEqual({
      isolation: 'read committed',
    });
  });
});

describe('a read-only server', () => {
  it('is reported by /readyz and once in the log, reads continue, and writes get 503', async () => {
    const name = await createDatabase();
    await withService(server.url(name), async (service, db, lines) => {
      const { product, key } = await createTenant(db);
      const send = (id: string) => sendUsage(service.url, key.secret, [usageEvent(product.slug, id)]);
      expect((await send('before')).status).toBe(202);
      await admin.query(`alter database ${name} set default_transaction_read_only = on`);
      await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name]);
      await setTimeout(50);
      for (let i = 0; i < 3; i++)
        expect(await send('a')).toMatchObject({ status: 503, body: { code: 'unavailable' } });
      expect(await readyz(service)).toMatchObject({
        status: 503,
        body: { status: 'database_read_only', reason: expect.stringContaining('read-only') },
      });
      const own = await fetch(`${service.url}/api/key`, {
        headers: { authorization: `Bearer ${key.secret}` },
      });
      expect(own.status).toBe(200);
      expect(lines.filter(({ msg }) => String(msg).startsWith('the database is read-only'))).toHaveLength(1);
      expect(JSON.stringify(lines)).not.toContain('node_modules');
    });
  });

  it('suffices for a start if the schema is up to date', async () => {
    const name = await createDatabase();
    await (await openDatabase({ databaseUrl: server.url(name), dataDir: '' }, silent)).close();
    await admin.query(`alter database ${name} set default_transaction_read_only = on`);
    await (await openDatabase({ databaseUrl: server.url(name), dataDir: '' }, silent)).close();
  });
});

it('exhausted max_connections answer 503 at once, are logged once, and recover when connections are freed', async () => {
  const name = await createDatabase();
  await withService(server.url(name), async (service, db, lines) => {
    const { product, key } = await createTenant(db);
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name]);
    const others: pg.Client[] = [];
    for (;;) {
      const client = new pg.Client({ connectionString: server.url('postgres') });
      client.on('error', () => undefined);
      try {
        await client.connect();
        others.push(client);
      } catch {
        break;
      }
    }
    const send = () => sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]);
    const answers = await Promise.all([send(), send(), readyz(service)]);
    expect(answers.map(({ status }) => status)).toEqual([503, 503, 503]);
    expect(answers[2].body.reason).toMatch(/raise max_connections/);
    await Promise.all(others.map((client) => client.end()));
    await setTimeout(1_100);
    expect((await send()).status).toBe(202);
    expect(await readyz(service)).toMatchObject({ status: 200 });
    expect(lines.filter(({ msg }) => /raise max_connections/.test(String(msg)))).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain('node_modules');
  });
});

it('if all of the instance’s connections are in use, calls get 503 and the log says so once', async () => {
  const name = await createDatabase();
  await withService(server.url(name), async (service, db, lines) => {
    const busy = Array.from({ length: 10 }, () =>
      db.orm.transaction((tx) => tx.execute('select pg_sleep(6)')),
    );
    const listProducts = () =>
      fetch(`${service.url}/operator/products`, { headers: { authorization: `Bearer ${operatorToken}` } });
    const answers = await Promise.all([listProducts(), listProducts(), db.ping().catch(describeOutage)]);
    expect(answers).toMatchObject([
      { status: 503 },
      { status: 503 },
      expect.stringMatching(/^every connection of this instance is in use/),
    ]);
    await Promise.all(busy);
    expect((await listProducts()).status).toBe(200);
    expect(lines.filter(({ level }) => level !== 30)).toMatchObject([
      { level: 40, msg: expect.stringMatching(/^every connection of this instance is in use/) },
    ]);
  });
});

it('connections are counted by pool: in use, idle, and calls waiting for one', async () => {
  const db = openPostgres(server.url(await createDatabase()), silent);
  const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
  watchPools(db.pools, metrics);
  const read = async () => {
    const lines = (await metrics.registry.metrics()).split('\n');
    return Object.fromEntries(
      lines.flatMap((line) => {
        const [, pool, state, count] =
          /^gauge_database_connections\{pool="(\w+)",state="(\w+)"\} (\d+)$/.exec(line) ?? [];
        return pool ? [[`${pool} ${state}`, Number(count)]] : [];
      }),
    );
  };
  const none = { active: 0, idle: 0, waiting: 0 };
  const of = (pool: string, counts: Partial<typeof none>) =>
    Object.fromEntries(
      Object.entries({ ...none, ...counts }).map(([state, count]) => [`${pool} ${state}`, count]),
    );
  const others = { ...of('ingestion', {}), ...of('orders', {}) };
  expect(await read()).toEqual({ ...of('pages', {}), ...others });
  const busy = Array.from({ length: 12 }, () => db.pool.query('select pg_sleep(1)'));
  expect(await read()).toEqual({ ...of('pages', { active: 10, waiting: 2 }), ...others });
  await Promise.all(busy);
  expect(await read()).toEqual({ ...of('pages', { idle: 10 }), ...others });
  await db.close();
});

it('on a full disk writes get 503, it is logged once, and writes recover when there is space', async () => {
  const name = await createDatabase();
  const proxy = await createPostgresProxy(server.url(name));
  await withService(proxy.url, async (service, db, lines) => {
    const { organization, product, key } = await createTenant(db);
    const send = () => sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]);
    proxy.refuse({ pattern: /insert into usage_events/, code: '53100', message: 'No space left on device' });
    expect(await send()).toMatchObject({ status: 503, body: { code: 'unavailable' } });
    expect(await send()).toMatchObject({ status: 503 });
    const own = await fetch(`${service.url}/api/key`, { headers: { authorization: `Bearer ${key.secret}` } });
    expect(own.status).toBe(200);
    proxy.refuse(undefined);
    expect(await send()).toMatchObject({ status: 202, body: { accepted: 1 } });
    expect(await readUsage(db, organization.id)).toMatchObject({ keys: ['a'], drift: [] });
    expect(lines.filter(({ msg }) => /database disk is full/.test(String(msg)))).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain('node_modules');
  });
  await proxy.close();
});

it('a server that ends each new connection, as with a full disk, is unavailable', async () => {
  const fields = ['SFATAL', 'VFATAL', 'CXX000', 'Mcould not write init file', ''].join('\0');
  const answer = Buffer.alloc(5, 'E');
  answer.writeUInt32BE(4 + fields.length + 1, 1);
  const full = createServer((socket) =>
    socket
      .on('error', () => undefined)
      .once('data', () => socket.end(`${answer.toString('latin1')}${fields}\0`)),
  );
  await new Promise<void>((resolve) => full.listen(0, '127.0.0.1', resolve));
  const db = openPostgres(`postgres://gauge@127.0.0.1:${(full.address() as AddressInfo).port}/gauge`, silent);
  const error = await db.ping().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ message: 'could not write init file', code: 'XX000' });
  expect(isDatabaseUnavailable(error)).toBe(true);
  expect(describeOutage(error)).toBe('the database cannot be reached');
  await db.close();
  full.close();
});

it(
  'a stopped backend (SIGSTOP) delays one request by its time limit and no other, and its connection is not reused',
  { timeout: 60_000 },
  async () => {
    const name = await createDatabase();
    await withService(server.url(name), async (service, db) => {
      const { product, key } = await createTenant(db);
      const send = (id: string) => sendUsage(service.url, key.secret, [usageEvent(product.slug, id)]);
      await send('warm');
      const { rows } = await admin.query<{ pid: number }>(
        `select pid from pg_stat_activity where datname = $1 and application_name = 'gauge'`,
        [name],
      );
      for (const { pid } of rows) process.kill(pid, 'SIGSTOP');
      try {
        // These Postgres backends stay suspended throughout this block.
        const answers = await Promise.all([send('a'), readyz(service)]);
        expect(answers.map(({ status }) => status)).toEqual([503, 503]);
        // The next requests use other connections.
        expect((await send('b')).status).toBe(202);
        const sessions = await Promise.all(
          Array.from({ length: 12 }, () =>
            db.orm.transaction((tx) => tx.execute('select 1')).catch(() => 'failed'),
          ),
        );
        expect(sessions.filter((one) => one === 'failed').length).toBeLessThan(rows.length + 1);
      } finally {
        for (const { pid } of rows) process.kill(pid, 'SIGCONT');
      }
    });
  },
);

const pgbouncer = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find(existsSync);

describe.skipIf(!pgbouncer)('a pooler (PgBouncer)', () => {
  async function withPooler(mode: string, work: (url: string) => Promise<void>): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'gauge-pooler-'));
    const port = await findFreePort();
    const { port: target } = new URL(server.url('postgres'));
    const name = await createDatabase();
    writeFileSync(join(folder, 'users.txt'), '"gauge" ""\n');
    writeFileSync(
      join(folder, 'pgbouncer.ini'),
      `[databases]\n${name} = host=127.0.0.1 port=${target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nauth_type = trust\nauth_file = ${join(folder, 'users.txt')}\npool_mode = ${mode}\nunix_socket_dir =\ndefault_pool_size = 30\n`,
    );
    execFileSync('chmod', ['-R', 'a+rX', folder]);
    const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
    const child: ChildProcess = spawn(pgbouncer!, [...user, join(folder, 'pgbouncer.ini')], {
      stdio: 'ignore',
    });
    try {
      const url = `postgres://gauge@127.0.0.1:${port}/${name}`;
      for (let i = 0; i < 100; i++) {
        const client = new pg.Client({ connectionString: url });
        const isUp = await client.connect().then(
          () => true,
          () => false,
        );
        await client.end().catch(() => undefined);
        if (isUp) break;
        await setTimeout(50);
      }
      await work(url);
    } finally {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    }
  }

  it('in transaction mode is refused at the start, in a sentence', () =>
    withPooler('transaction', async (url) => {
      const opened = openDatabase({ databaseUrl: url, dataDir: '' }, silent);
      await expect(opened).rejects.toThrow(UnsuitableDatabaseError);
      await expect(opened).rejects.toThrow(/pooler in transaction mode.*session mode/);
    }));

  it('in session mode works like a direct connection', () =>
    withPooler('session', (url) =>
      withService(url, async (service, db) => {
        const { product, key } = await createTenant(db);
        const answer = await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')]);
        expect(answer).toMatchObject({ status: 202, body: { accepted: 1 } });
      }),
    ));
});
