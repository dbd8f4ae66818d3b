import { createHash } from 'node:crypto';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Logger } from 'pino';
import { createShards } from './citus.js';
import { SEQUENTIAL, type Database, type Orm, type Statement } from './client.js';
import { Connection, type ConnectionWatch } from './connection.js';
import { createOutageLog, isOutOfConnections } from './outage.js';

/**
 * Gives each hot statement a single index-based plan from the first call, regardless of statistics. Planning takes
 * longer than execution, and a plan made for nearly empty tables is disastrous once they have grown. Bitmap scans are
 * off because, for small tables, scanning all rows of an Organization looks cheaper than using the full key.
 */
const PLAN_SETTINGS =
  'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set enable_bitmapscan = off';

/**
 * `PLAN_SETTINGS`, except that Citus keeps its own plan mode because it cannot make a generic plan for an unknown
 * shard.
 */
const OWN_PLAN_SETTINGS = `${PLAN_SETTINGS}; select set_config('plan_cache_mode', 'auto', false) where to_regclass('pg_catalog.pg_dist_partition') is not null`;

/** Maximum number of concurrent hot statements. Four saturate one Postgres (see bench/README.md). */
const PARALLEL = 4;
const asText = { getTypeParser: () => (value: string) => value };

/** Maximum number of concurrent hot transactions. Each uses one connection from its first statement to its commit. */
const PARALLEL_TRANSACTIONS = 5;

/** Time limits: `HOT_WAIT_MS` for hot statements, `WAIT_MS` for pages and jobs. */
const HOT_WAIT_MS = 5_000;
const WAIT_MS = 10_000;

/**
 * Settings of every connection, overriding defaults of the role and the server. All writes rely on read committed, so
 * that statements see what was committed before them. The server cancels a statement shortly before the client gives
 * up; a cancelled statement has changed nothing. The client's own time-out covers a frozen backend or a lost response.
 * JIT is off because page queries finish before they would be compiled. The settings are sent as statements because
 * poolers reject unknown startup parameters.
 */
const sessionSettings = (waitMs: number) => `set default_transaction_isolation = 'read committed';
set default_transaction_deferrable = off;
set statement_timeout = ${waitMs - 500};
set lock_timeout = ${Math.min(waitMs - 500, 5_000)};
set idle_in_transaction_session_timeout = 15000;
set jit = off;
${SEQUENTIAL}`;

export type Pools = Readonly<
  Record<'pages' | 'ingestion' | 'orders', Pick<pg.Pool, 'totalCount' | 'idleCount' | 'waitingCount'>>
>;

/**
 * Opens Postgres with three pools, so that slow pages and contended rows cannot use up ingestion's connections. All
 * time-outs are finite, so a database that vanished without closing its sockets is noticed.
 */
export function openPostgres(url: string, log: Logger): Database & { pool: pg.Pool; pools: Pools } {
  const coordinator = { url, watch: createOutageLog(log) };
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
  const watches = new Map<string, ConnectionWatch>();
  const shards = createShards({
    db: main,
    runOn,
    rollBack,
    openWorker({ host, port }, max) {
      const worker = `${host}:${port}`;
      const watch = watches.get(worker) ?? createOutageLog(log.child({ worker }));
      watches.set(worker, watch);
      return openPool({ url: atServer(url, host, port), watch }, max, HOT_WAIT_MS, PLAN_SETTINGS);
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
      await pool.query('select 1');
    },
    async close() {
      await Promise.all([pool.end(), hot.end(), transactions.end(), shards.close()]);
    },
  };
}

/** A pool that reports when no connection is available. Connections report all other failures themselves. */
class WatchedPool extends pg.Pool {
  private readonly onFailure: (error: unknown) => void;

  constructor(options: pg.PoolConfig, watch: ConnectionWatch) {
    super(options);
    this.onFailure = (error) => {
      if (isOutOfConnections(error)) watch.onError(error);
    };
  }

  /** `pool.query` passes a callback; other callers use the promise. */
  override connect(...args: unknown[]): never {
    const connect = super.connect.bind(this) as (...args: unknown[]) => unknown;
    const [callback] = args;
    if (typeof callback === 'function')
      return connect((error: unknown, ...rest: unknown[]) => {
        this.onFailure(error);
        (callback as (...all: unknown[]) => void)(error, ...rest);
      }) as never;
    const observed = (connect() as Promise<unknown>).catch((error: unknown) => {
      this.onFailure(error);
      throw error;
    });
    return observed as never;
  }
}

function openPool(
  { url, watch }: { url: string; watch: ConnectionWatch },
  max: number,
  waitMs: number,
  settings = '',
): pg.Pool {
  const options: pg.PoolConfig & { watch: ConnectionWatch } = {
    // Passed on to each connection.
    watch,
    connectionString: url,
    application_name: 'gauge',
    connectionTimeoutMillis: 3_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    query_timeout: waitMs,
    max,
    Client: Connection,
    onConnect: (client) => client.query(`${sessionSettings(waitMs)}; ${settings}`).then(() => undefined),
  };
  const pool = new WatchedPool(options, watch);
  // The connection has already logged this error.
  pool.on('error', () => undefined);
  return pool;
}

export function atServer(url: string, host: string, port: string): string {
  const other = new URL(url);
  other.searchParams.delete('host');
  other.searchParams.delete('port');
  other.hostname = host.includes(':') ? `[${host}]` : host;
  other.port = port;
  return other.href;
}

/**
 * Runs `work` on a pooled connection. A clean connection goes back to the pool; any other is closed, which rolls back
 * its work.
 */
async function onConnection<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release(!(client as unknown as Connection).isClean);
  }
}

async function enclose<T>(
  client: pg.PoolClient,
  end: 'commit' | 'rollback',
  work: () => Promise<T>,
): Promise<T> {
  await client.query('begin');
  try {
    const result = await work();
    await client.query(end);
    return result;
  } catch (error) {
    // If the rollback fails too, `onConnection` closes the connection.
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

/**
 * Creates the ORM once per connection, because reading the whole schema would take a tenth of each transaction's time.
 */
function rememberPerConnection(make: (client: pg.PoolClient) => Orm): (client: pg.PoolClient) => Orm {
  const known = new WeakMap<pg.PoolClient, Orm>();
  return (client) => {
    let orm = known.get(client);
    if (!orm) known.set(client, (orm = make(client)));
    return orm;
  };
}

/** Maximum number of distinct statements that are prepared. Each stays prepared for the life of its connection. */
const MAX_PREPARED = 100;

/**
 * Names statements by a hash of their text, so that Postgres plans each only once. Planning takes longer than
 * execution.
 */
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
