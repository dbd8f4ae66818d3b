import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { isDatabaseUnavailable, type Database, type ShardGroup } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { createForwarder, type Forwarder } from '../../support/forwarder.js';
import { createPostgresServer, query, type PostgresServer } from '../../support/postgres-server.js';
import { until } from '../../support/until.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../../metering/support/usage.js';

const silent = pino({ level: 'silent' });
const portOf = (server: PostgresServer) => Number(new URL(server.url('postgres')).port);

let first: PostgresServer;
let second: PostgresServer;
let address: Forwarder;
let db: Database;
let url: string;

beforeEach(async () => {
  first = await createPostgresServer({ fsync: 'off' });
  second = await createPostgresServer({ fsync: 'off' }, first);
  address = await createForwarder(portOf(first));
  url = `postgres://gauge@127.0.0.1:${address.port}/postgres`;
  db = await openDatabase({ databaseUrl: url, dataDir: '' }, silent);
});
afterEach(async () => {
  await db.close();
  address.close();
  await Promise.all([first.remove(), second.remove()]);
});

/** Waits until the standby has everything, then makes it the primary and the other server its demoted predecessor. */
async function failOver(): Promise<void> {
  const [{ at }] = (await query<{ at: string }>(
    first.url('postgres'),
    'select pg_current_wal_lsn()::text as at',
  )) as [{ at: string }];
  const caughtUp = `select pg_last_wal_replay_lsn() >= '${at}' as is_caught_up`;
  await expect.poll(() => query(second.url('postgres'), caughtUp)).toEqual([{ is_caught_up: true }]);
  await first.stop('fast');
  await query(second.url('postgres'), 'select pg_promote()');
  first.demote();
  await first.start();
}

const connectionsTo = (server: PostgresServer) =>
  query<{ count: number }>(
    server.url('postgres'),
    `select count(*)::int as count from pg_stat_activity where application_name = 'gauge'`,
  ).then(([row]) => row!.count);

const portStatement = { name: 'test_port', text: `select current_setting('port') as port` };
const readPort = async () => {
  const [row] = await selectRows<{ port: string }>(db.orm, sql.raw(portStatement.text));
  return Number(row!.port);
};

async function withService(work: (service: TestService) => Promise<void>): Promise<void> {
  const service = await startTestService(db);
  try {
    await work(service);
  } finally {
    await service.stop();
  }
}

const readiness = async (service: TestService) => {
  const answer = await fetch(`${service.url}/readyz`);
  return { status: answer.status, body: (await answer.json()) as { status: string } };
};

it('when the address moves to the promoted standby, the instance is ready and writes there within seconds', async () => {
  await withService(async (service) => {
    const { product, key } = await createTenant(db);
    let sent = 0;
    const send = () => sendUsage(service.url, key.secret, [usageEvent(product.slug, `event-${++sent}`)]);
    expect((await send()).status).toBe(202);
    await failOver();
    // The address still leads to the demoted server: every pool connects to it.
    await Promise.all(Array.from({ length: 20 }, () => readPort().catch(() => undefined)));
    for (let i = 0; i < 5; i++) expect((await send()).status).toBe(503);
    expect(await readiness(service)).toMatchObject({ status: 503, body: { status: 'database_read_only' } });
    await Promise.all(Array.from({ length: 20 }, readPort));
    address.target = portOf(second);
    await until(async () => (await readiness(service)).status === 200);
    const statuses: number[] = [];
    for (let i = 0; i < 10; i++) {
      statuses.push((await readiness(service)).status, (await send()).status);
      await setTimeout(300);
    }
    expect(new Set(statuses)).toEqual(new Set([200, 202]));
    expect(new Set(await Promise.all(Array.from({ length: 20 }, readPort)))).toEqual(
      new Set([portOf(second)]),
    );
    expect(await connectionsTo(first)).toBe(0);
  });
});

it('if the old primary still accepts writes, reads and writes follow the address within seconds', async () => {
  await Promise.all(Array.from({ length: 10 }, readPort));
  await db.run(portStatement, []);
  await query(second.url('postgres'), 'select pg_promote()');
  address.target = portOf(second);
  await expect.poll(() => db.ping().then(() => connectionsTo(first))).toBe(0);
  expect(new Set(await Promise.all(Array.from({ length: 10 }, readPort)))).toEqual(new Set([portOf(second)]));
  expect(await db.run(portStatement, [])).toEqual([{ port: String(portOf(second)) }]);
});

it.each<[string, (write: string) => Promise<unknown>]>([
  ['dry run', (text) => db.dryRun((run) => run({ name: 'test_write', text }, []))],
  ['transaction', (text) => db.orm.transaction((tx) => tx.execute(text))],
  ['hot transaction', (text) => db.transaction((tx) => tx.execute(text))],
  ['hot statement', (text) => db.run({ name: 'test_write', text }, [])],
])('a %s that meets a read-only server closes all connections to it', async (_what, write) => {
  await Promise.all(Array.from({ length: 10 }, readPort));
  await query(
    first.url('postgres'),
    'alter system set default_transaction_read_only = on',
    'select pg_reload_conf()',
  );
  await setTimeout(1_100);
  await expect(write('create table test_write ()')).rejects.toSatisfy(isDatabaseUnavailable);
  await expect.poll(() => connectionsTo(first)).toBe(0);
});

it('a worker whose address moves is reached at its new server within seconds', async () => {
  const own = await createPostgresServer({ fsync: 'off', allow_system_table_mods: 'on' });
  await query(own.url('postgres'), catalogue(address.port));
  await query(
    first.url('postgres'),
    `create function gauge_hold(bigint[]) returns int language sql as 'select 1'`,
  );
  const sharded = await openDatabase({ databaseUrl: own.url('postgres'), dataDir: '' }, silent);
  try {
    expect(sharded.shards.groups.map(({ id }) => id)).toEqual(['101', '102']);
    const [group, other] = sharded.shards.groups as [ShardGroup, ShardGroup];
    const read = (from: ShardGroup) => from.select<{ port: string }>(() => sql.raw(portStatement.text));
    const write = (from: ShardGroup) =>
      from.dryRun((run) =>
        run(
          {
            name: 'test_write',
            text: ({ with: w, held }) =>
              `${w} a as (select nextval('usage_seq')::text as v from (select 1) s${held}) select v from a`,
          },
          [],
        ),
      );
    await query(first.url('postgres'), 'create sequence usage_seq');
    await Promise.all([read(group), read(other), write(group)]);
    await failOver();
    await expect(write(group)).rejects.toSatisfy(isDatabaseUnavailable);
    await expect(group.ping()).rejects.toThrow(/read-only/);
    await read(other).catch(() => undefined);
    address.target = portOf(second);
    await expect
      .poll(() => Promise.all([group.ping(), other.ping()]).then(() => 'reached', String))
      .toBe('reached');
    expect(await Promise.all([read(group), read(other)])).toEqual(
      [1, 2].map(() => [{ port: String(portOf(second)) }]),
    );
    expect(await write(group)).toHaveLength(1);
  } finally {
    await sharded.close();
    await own.remove();
  }
});

/** The part of Citus's catalogue that Gauge reads: two groups, both on the worker at this port. */
const catalogue = (port: number) => `
  create table pg_catalog.pg_dist_partition (logicalrelid regclass, partmethod "char", colocationid int, repmodel "char");
  create table pg_catalog.pg_dist_shard (logicalrelid regclass, shardid bigint, shardminvalue text, shardmaxvalue text);
  create table pg_catalog.pg_dist_placement (shardid bigint, groupid int);
  create table pg_catalog.pg_dist_node (groupid int, nodename text, nodeport int, noderole text);
  insert into pg_dist_partition values ('usage_events', 'h', 1, 's');
  insert into pg_dist_shard values ('usage_events', 101, '-2147483648', '-1'), ('usage_events', 102, '0', '2147483647');
  insert into pg_dist_placement values (101, 1), (102, 1);
  insert into pg_dist_node values (1, '127.0.0.1', ${port}, 'primary')`;
