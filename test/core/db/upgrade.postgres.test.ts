import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import pg from 'pg';
import { pino } from 'pino';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { UnsuitableDatabaseError } from '../../../src/core/db/check-server.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { Browser } from '../../support/accounts.js';
import { startTestService } from '../../support/service.js';
import { readUsage, sendUsage, usageEvent } from '../../metering/support/usage.js';

const log = pino({ level: 'silent' });
const name = `upgrade_${process.pid}`;
const urlOf = (database: string) => inject('postgresUrl').replace(/\/postgres$/, `/${database}`);
const url = urlOf(name);
const admin = new pg.Client({ connectionString: inject('postgresUrl') });
/** A database of the last version before the baseline, with a customer whose key, session and credits are in use. */
const dump = gunzipSync(readFileSync(new URL('fixtures/0050.sql.gz', import.meta.url))).toString();

beforeAll(async () => {
  await admin.connect();
  await admin.query(`create database ${name}`);
  await query(url, dump);
});
afterAll(async () => {
  await admin.query(`drop database ${name} with (force)`);
  await admin.end();
});

async function query(connectionString: string, text: string) {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    return (await client.query<Record<string, string>>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Without parentheses, of which a restored constraint has fewer. */
const readCatalog = async (connectionString: string) =>
  (await query(connectionString, catalog)).map(({ line }) => line!.replaceAll(/[()]/g, '')).sort();

const catalog = `
  select concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default, collation_name, datetime_precision) as line
  from information_schema.columns where table_schema = 'public'
  union all select indexdef from pg_indexes where schemaname = 'public'
  union all select concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) from pg_constraint where connamespace = 'public'::regnamespace
  union all select concat_ws(' ', relname, array_to_string(reloptions, ',')) from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r'
  union all select pg_get_functiondef(oid) from pg_proc where pronamespace = 'public'::regnamespace`;

it('a database with an unfinished backfill is refused in one sentence, and keeps it', async () => {
  await query(
    url,
    `insert into usage_backfills (org_id, id, from_time, to_time, created_at, changed_at, livemode, state, reason, actor)
    values (gen_random_uuid(), gen_random_uuid(), now(), now(), now(), now(), true, 'open', 'late', 'operator')`,
  );
  const refusal = await openDatabase({ databaseUrl: url, dataDir: '' }, log).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(UnsuitableDatabaseError);
  expect((refusal as Error).message).toMatch(/^A backfill is unfinished: [^.]*\.$/);
  expect(await query(url, 'select state from usage_backfills')).toEqual([{ state: 'open' }]);
  await query(url, `update usage_backfills set state = 'discarded'`);
});

it('a database from before the baseline keeps its data and gets the schema of a new one', async () => {
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, log);
  expect(await readCatalog(url)).toEqual(await readCatalog(urlOf('template_gauge')));

  const service = await startTestService(db);
  service.clock.set('2026-11-20T12:01:00.000Z');
  const secret = 'org_live_PP1dHgzwpYhUOa5PThI3KGgkrgnB1M1a';
  const sent = ['e3', 'e4'].map((key) =>
    usageEvent('calls', key, { quantity: 3, occurredAt: '2026-11-20T12:00:00.000Z' }),
  );
  expect(await sendUsage(service.url, secret, sent)).toMatchObject({
    status: 202,
    body: { accepted: 1, deduped: 1 },
  });
  const credits = await fetch(`${service.url}/api/credits`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  expect(await credits.json()).toMatchObject({ balance: 82 });
  const [organization] = await query(url, `select id from organizations where slug = 'acme'`);
  const { keys, drift } = await readUsage(db, organization!.id!);
  expect({ keys, drift }).toEqual({ keys: ['e1', 'e2', 'e3', 'e4'], drift: [] });

  const owner = new Browser(service.url);
  owner.cookies.set(
    'gauge_session',
    'eyJzaWQiOiJYUGhTWG1HTkhRWDFsQkY5eW9RVTRrZkRsVUxsSVNHdm53NGZ2em1NNVNnIn0=',
  );
  owner.cookies.set('gauge_session.sig', 'ZiVyLQpEzD-pQdQcT9cFnyVKGfESrNLvw0W0ZMPGxyw');
  const listed = await owner.send('GET', '/dashboard/api-keys', { headers: { accept: 'application/json' } });
  expect(listed.body.apiKeys.map((key: { name: string }) => key.name)).toEqual(
    expect.arrayContaining(['test key', 'second']),
  );
  await service.stop();
  await db.close();
});

it('an older database is refused in one sentence that names the version to start first', async () => {
  await query(url, 'delete from drizzle.__drizzle_migrations where created_at >= 1795791298004');
  const refusal = await openDatabase({ databaseUrl: url, dataDir: '' }, log).catch((error: unknown) => error);
  expect(refusal).toBeInstanceOf(UnsuitableDatabaseError);
  expect((refusal as Error).message).toMatch(/^[^.]*commit 2044326c[^.]*\.$/);
});
