import { createHash } from 'node:crypto';
import { drizzle } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import type { Logger } from 'pino';
import { createShards } from './citus.js';
import { type Database, type Orm, type Statement } from './client.js';
import type { Connection } from './connection.js';
import { createOutageLog } from './outage.js';
import { Address, openPool } from './pool.js';

/**
 * Planning takes longer than execution, and a plan made for nearly empty tables is disastrous once they have grown.
 * Bitmap scans are off because, for small tables, scanning all rows of an Organization looks cheaper than using the
 * full key.
 */
const PLAN_SETTINGS =
  'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off';

/** Citus keeps its own plan mode, because it cannot make a generic plan for an unknown shard. */
const OWN_PLAN_SETTINGS = `${PLAN_SETTINGS}; select set_config('plan_cache_mode', 'auto', false) where to_regclass('pg_catalog.pg_dist_partition') is not null`;

/** Four concurrent hot statements saturate one Postgres (bench/README.md). */
const PARALLEL = 4;
const asText = { getTypeParser: () => (value: string) => value };

/** Each hot transaction uses one connection from its first statement to its commit. */
const PARALLEL_TRANSACTIONS = 5;

const HOT_WAIT_MS = 5_000;
const WAIT_MS = 10_000;

export type Pools = Readonly<
  Record<'pages' | 'ingestion' | 'orders', Pick<pg.Pool, 'totalCount' | 'idleCount' | 'waitingCount'>>
>;

/**
 * Slow pages and contended rows cannot use up ingestion's connections. All time-outs are finite, so a database that
 * vanished without closing its sockets is noticed.
 */
export function openPostgres(url: string, log: Logger): Database & { pool: pg.Pool; pools: Pools } {
  const coordinator = new Address(url, createOutageLog(log));
  const pool = openPool(coordinator, 10, WAIT_MS);
  const hot = openPool(coordinator, PARALLEL * 3, HOT_WAIT_MS, OWN_PLAN_SETTINGS);
  const transactions = openPool(coordinator, PARALLEL_TRANSACTIONS, HOT_WAIT_MS, OWN_PLAN_SETTINGS);

  const orm = drizzle(pool);
  const ormOf = rememberPerConnection((client) => drizzle(client));
  const prepareEach = createPreparer();

  // The ORM's own version leaks a connection if `begin` fails, and returns broken connections to the pool.
  orm.transaction = (work, config) =>
    onConnection(pool, (client) => (ormOf(client) as typeof orm).transaction(work, config));

  const runOn =
    (client: pg.Pool | pg.PoolClient) =>
    async <Row>({ name, text, readRow }: Statement, values: unknown[]): Promise<Row[]> => {
      const query = { name, text, values, types: asText };
      if (!readRow) return (await client.query(query)).rows as Row[];
      const { rows } = await client.query<(string | null)[]>({ ...query, rowMode: 'array' });
      return rows.map(readRow) as Row[];
    };

  const rollBack = <T>(from: pg.Pool, work: (client: pg.PoolClient) => Promise<T>) =>
    onConnection(from, (client) => enclose(client, 'rollback', () => work(client)));
  const main = {
    orm,
    parallel: PARALLEL,
    run: runOn(hot),
    dryRun: <T>(work: (run: Database['run']) => Promise<T>) => rollBack(hot, (client) => work(runOn(client))),
  };
  const workers = new Map<string, Address>();
  const shards = createShards({
    db: main,
    runOn,
    rollBack,
    openWorker({ host, port }, max) {
      const worker = `${host}:${port}`;
      const address =
        workers.get(worker) ?? new Address(atServer(url, host, port), createOutageLog(log.child({ worker })));
      workers.set(worker, address);
      return { pool: openPool(address, max, HOT_WAIT_MS, PLAN_SETTINGS), look: () => address.look() };
    },
  });

  return {
    kind: 'postgres',
    pool,
    pools: { pages: pool, ingestion: hot, orders: transactions },
    ...main,
    shards,
    parallelTransactions: PARALLEL_TRANSACTIONS,
    transaction: (work) =>
      onConnection(transactions, (client) => enclose(client, 'commit', () => work(prepareEach(client)))),
    async ping() {
      await coordinator.look();
      await pool.query('select 1');
    },
    async close() {
      await Promise.all([pool.end(), hot.end(), transactions.end(), shards.close()]);
    },
  };
}

export function atServer(url: string, host: string, port: string): string {
  const other = new URL(url);
  other.searchParams.delete('host');
  other.searchParams.delete('port');
  other.hostname = host.includes(':') ? `[${host}]` : host;
  other.port = port;
  return other.href;
}

/** A connection that is not clean is closed, which rolls back its work. */
async function onConnection<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release(!(client as unknown as Connection).isClean);
  }
}

async function enclose<T>(client: pg.PoolClient, end: 'commit' | 'rollback', work: () => Promise<T>) {
  await client.query('begin');
  try {
    const result = await work();
    await client.query(end);
    return result;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

/** Reading the whole schema would take a tenth of each transaction's time. */
function rememberPerConnection(make: (client: pg.PoolClient) => Orm): (client: pg.PoolClient) => Orm {
  const known = new WeakMap<pg.PoolClient, Orm>();
  return (client) => {
    let orm = known.get(client);
    if (!orm) known.set(client, (orm = make(client)));
    return orm;
  };
}

/** Each statement stays prepared for the life of its connection. */
const MAX_PREPARED = 100;

/** Postgres plans a named statement only once; planning takes longer than execution. */
function createPreparer(): (client: pg.PoolClient) => Orm {
  const names = new Map<string, string>();
  function nameOf(text: string): { name?: string } {
    let name = names.get(text);
    if (name === undefined && names.size < MAX_PREPARED) {
      name = createHash('sha256').update(text).digest('base64url').slice(0, 32);
      names.set(text, name);
    }
    return name === undefined ? {} : { name };
  }
  return rememberPerConnection((client) => {
    const query = (config: pg.QueryConfig, values: unknown[]) =>
      client.query({ ...config, ...nameOf(config.text) }, values);
    return drizzle({ query } as unknown as pg.PoolClient);
  });
}
