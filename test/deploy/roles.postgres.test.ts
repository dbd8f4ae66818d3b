import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { UnsuitableDatabaseError } from '../../src/core/db/check-server.js';
import type { Database } from '../../src/core/db/client.js';
import { openDatabase } from '../../src/core/db/open.js';
import { DAY_MS } from '../../src/core/time.js';
import { deleteOldLinks } from '../../src/accounts/identity/links/links.js';
import { createSetUpLink } from '../../src/accounts/identity/operators/operators.js';
import { oneTimeLinks, operators } from '../../src/accounts/identity/table.js';
import {
  createPostgresServer,
  findPostgresBinaries,
  type PostgresServer,
  query,
} from '../support/postgres-server.js';
import { operatorClient, unique } from '../support/operator.js';
import { Browser, createUser, PASSWORD, signedIn } from '../support/accounts.js';
import { makeLink } from '../support/operators.js';
import { giveSecondFactor } from '../support/second-factor.js';
import { createTenant, sendUsage, usageEvent } from '../metering/support/usage.js';
import { createTrader, postTrade, startTradingTest, type TradingTest } from '../markets/support/trade.js';

const silent = pino({ level: 'silent' });
let server: PostgresServer;
let db: Database;
let service: TradingTest;
let appUrl: string;
let ownerUrl: string;

/** Starts a server that has the two roles and an empty database, and returns the URL for each role. */
async function startServer() {
  const started = await createPostgresServer({ fsync: 'off' });
  const passwords = ['-v', "owner_password=it's", '-v', 'app_password=secret'];
  const args = [...passwords, '-f', pathOf('deploy/postgres/roles.sql'), started.url('postgres')];
  execFileSync(join(findPostgresBinaries()!, 'psql'), args, { stdio: 'pipe' });
  const urlOf = (role: string) => started.url('gauge').replace('//gauge@', `//${role}@`);
  return { server: started, appUrl: urlOf('gauge_app'), ownerUrl: urlOf('gauge_owner') };
}

const pathOf = (path: string) => new URL(`../../${path}`, import.meta.url).pathname;

beforeAll(async () => {
  ({ server, appUrl, ownerUrl } = await startServer());
});
afterAll(async () => {
  await service.stop();
  await db.close();
  await server.remove();
});

const asApp = (sql: string) => query(appUrl, sql);

it('the role that serves cannot migrate, and says what to do', async () => {
  const opened = openDatabase({ databaseUrl: appUrl, dataDir: '' }, silent);
  await expect(opened).rejects.toThrow(UnsuitableDatabaseError);
  await expect(opened).rejects.toThrow(/npm run migrate.*MIGRATION_DATABASE_URL/);
});

it('the owner of another database does not own this one, and the start says so', async () => {
  const opened = openDatabase(
    { databaseUrl: appUrl, migrationDatabaseUrl: server.url('postgres'), dataDir: '' },
    silent,
  );
  await expect(opened).rejects.toThrow(UnsuitableDatabaseError);
  await expect(opened).rejects.toThrow(/name different databases/);
});

it('the owner migrates for it; then it starts without the owner', async () => {
  const urls = { databaseUrl: appUrl, migrationDatabaseUrl: ownerUrl, dataDir: '' };
  await (await openDatabase(urls, silent)).close();
  // The second start has nothing to migrate, but grants the privileges again.
  await (await openDatabase(urls, silent)).close();
  db = await openDatabase({ databaseUrl: appUrl, dataDir: '' }, silent);
  service = await startTradingTest(db);
});

describe('the role that serves', () => {
  const operator = operatorClient(() => service);

  it('can do all that the service does', async () => {
    const { product, key } = await createTenant(db);
    for (const dryRun of [true, false]) {
      const answer = await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a')], { dryRun });
      expect(answer).toMatchObject({ status: 202, body: { accepted: 1 } });
    }
    const { secret } = await createTrader(db);
    expect((await postTrade(service.url, secret)).status).toBe(201);
    await service.trading.settlement.settle();
    await service.trading.settlement.recordHistory();
    await service.trading.settlement.cleanUp();
    await service.services.keyUse.flush();
    const { browser } = await signedIn(db, service.url);
    const made = await browser.send('POST', '/dashboard/api-keys', {
      json: { name: 'a key', livemode: true },
    });
    expect(made.status).toBe(201);
    const path = `/dashboard/api-keys/${made.body.apiKey.id}`;
    expect((await browser.send('POST', `${path}/rotate`, { json: {} })).status).toBe(201);
    expect((await browser.send('DELETE', path)).status).toBeLessThan(300);
    expect((await browser.get('/dashboard', { accept: 'text/html' })).status).toBe(200);
    expect((await operator('PUT', `/organizations/${unique('org')}`, { name: 'x' })).status).toBe(201);
    expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
  });

  it('lets operators in by links, and people who lost a password or a second factor', async () => {
    const now = new Date(service.clock.now());
    const link = (await createSetUpLink(service.context))!;
    expect(await createSetUpLink(service.context)).not.toEqual(link);
    const open = async (page: string, token: string, form: Record<string, string>) => {
      const browser = new Browser(service.url);
      await browser.send('POST', `/${page.split('/')[0]!}/open`, { form: { link: token } });
      return (await browser.send('POST', `/${page}`, { form })).status;
    };
    const { id, email } = await createUser(db);
    const token = await makeLink(service, 'setup');
    expect(await open('set-up/person', token, { email, password: PASSWORD })).toBe(303);
    expect(await createSetUpLink(service.context)).toBeUndefined();
    const newPassword = 'plenty of unrelated harbour words';
    const chosen = { newPassword, newPasswordAgain: newPassword };
    expect(await open('reset', await makeLink(service, 'password_reset', { id, email }), chosen)).toBe(303);
    await giveSecondFactor(db, id, service.clock);
    const lost = await makeLink(service, 'second_factor_reset', { id, email });
    expect(await open('reset', lost, { password: newPassword })).toBe(303);
    await deleteOldLinks(db, new Date(now.getTime() + 60 * DAY_MS));
    expect(await db.orm.select().from(oneTimeLinks)).toEqual([]);
    expect(await operator('DELETE', `/users/${email}`)).toMatchObject({ status: 204 });
    expect(await db.orm.select().from(operators)).toEqual([]);
  });

  it.each([
    'create table mine (id int)',
    'create schema mine',
    'create temporary table mine (id int)',
    'alter table users add column x int',
    'drop table usage_events',
    'truncate usage_events',
    'create role mine',
    'alter role gauge_app superuser',
    'set role gauge_owner',
    `select pg_read_file('/etc/passwd')`,
    `copy users to program 'cat'`,
    'delete from drizzle.__drizzle_migrations',
    // Recorded data cannot be changed.
    'update usage_events set quantity = 0',
    'delete from usage_events',
    'delete from usage_archives',
    'update usage_archived_totals set deleted_events = 0',
    'update audit_log set action = null',
    'delete from audit_log',
    'delete from operator_log',
    'update ledger_entries set cash = 0',
    'delete from trading_fills',
  ])('cannot %s', async (sql) => {
    await expect(asApp(sql)).rejects.toMatchObject({ code: '42501' });
  });
});

it('the documented commands dump it while it serves, and restore it on another server', async () => {
  const other = await startServer();
  const folder = mkdtempSync(join(tmpdir(), 'gauge-dump-'));
  try {
    const documented = readFileSync(pathOf('docs/production.md'), 'utf8');
    const run = (command: string, url: string) => {
      const [line] = new RegExp(`^${command} .*postgres://gauge_owner:.*$`, 'm').exec(documented)!;
      const PATH = `${findPostgresBinaries()!}:${process.env.PATH}`;
      execFileSync('sh', ['-ec', line.replace(/postgres:\/\/\S+/, url)], { cwd: folder, env: { PATH } });
    };
    run('pg_dump', ownerUrl);
    run('pg_restore', other.ownerUrl);
    run('psql -c analyze', other.ownerUrl);
    const read = async (from: PostgresServer) => {
      const client = new pg.Client({ connectionString: from.url('gauge') });
      await client.connect();
      const { rows } = await client.query(`select c.oid::regclass::text, c.relowner::regrole, c.relacl::text,
        query_to_xml('select * from ' || c.oid::regclass || ' order by 1', true, false, '')::text as content
        from pg_class c where c.relkind = 'r' and c.relnamespace in ('public'::regnamespace, 'drizzle'::regnamespace)
        and c.relname <> 'job_leases' order by 1`);
      await client.end();
      return rows as unknown[];
    };
    const restored = await read(other.server);
    expect(restored.length).toBeGreaterThan(40);
    expect(restored).toEqual(await read(server));
    await (await openDatabase({ databaseUrl: other.appUrl, dataDir: '' }, silent)).close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
    await other.server.remove();
  }
});
