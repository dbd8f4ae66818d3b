import { createHash } from 'node:crypto';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Logger } from 'pino';
import { createShards } from './citus.js';
import { SEQUENTIAL, type Database, type Orm, type TextRow } from './client.js';
import { Connection, type ConnectionWatch } from './connection.js';
import { createOutageLog, isOutOfConnections } from './outage.js';

/**
 * Hot statements get one plan that goes by index, from the first call on and whatever the statistics say: planning
 * takes longer than running, and a plan made for nearly empty tables is ruinous once they have grown.
 */
const PLAN_SETTINGS = 'set plan_cache_mode = force_generic_plan; set enable_seqscan = off';

/** The same, except where Citus makes the plans: it cannot make one for a shard that is not known yet. */
const OWN_PLAN_SETTINGS = `${PLAN_SETTINGS}; select set_config('plan_cache_mode', 'auto', false) where to_regclass('pg_catalog.pg_dist_partition') is not null`;

/** Hot statements in flight at once; four reach the ceiling of one Postgres (see bench/README.md). */
const PARALLEL = 4;
const asText = { getTypeParser: () => (value: string) => value };

/** Hot transactions at once; each keeps its connection from its first statement to its commit. */
const PARALLEL_TRANSACTIONS = 5;

/** The longest wait for one hot statement, and for one of a page or a job. */
const HOT_WAIT_MS = 5_000;
const WAIT_MS = 10_000;

/**
 * What each connection says for itself, whatever the defaults of the role or the server are. All writing relies on
 * statements seeing what was committed before them. The server ends a statement a moment before it is given up here,
 * and then nothing of it was done: what is given up here is a backend that stands still, or a network that lost the answer.
 * Statements of pages are over before the server would have compiled them.
 * As statements, because poolers refuse start-up parameters that they do not know.
 */
const sessionSettings = (waitMs: number) => `set default_transaction_isolation = 'read committed';
set default_transaction_deferrable = off;
set statement_timeout = ${waitMs - 500};
set lock_timeout = ${Math.min(waitMs - 500, 5_000)};
set idle_in_transaction_session_timeout = 15000;
set jit = off;
${SEQUENTIAL}`;

/** How many connections each has, how many of them are idle, and how many calls wait for one. */
export type Pools = Readonly<
  Record<'pages' | 'ingestion' | 'orders', Pick<pg.Pool, 'totalCount' | 'idleCount' | 'waitingCount'>>
>;

/**
 * Opens Postgres. Three pools, so that neither a slow page nor a row that many wait for can ever keep the ingestion from
 * its connections.
 * Every time-out is finite: a database that vanished without closing its sockets is noticed.
 */
export function openPostgres(url: string, log: Logger): Database & { pool: pg.Pool; pools: Pools } {
  const coordinator = { url, watch: createOutageLog(log) };
  const pool = openPool(coordinator, 10, WAIT_MS);
  const hot = openPool(coordinator, PARALLEL * 3, HOT_WAIT_MS, OWN_PLAN_SETTINGS);
  const transactions = openPool(coordinator, PARALLEL_TRANSACTIONS, HOT_WAIT_MS, OWN_PLAN_SETTINGS);

  const orm = drizzle(pool);
  const ormOf = rememberPerConnection((client) => drizzle(client));
  const prepareEach = createPreparer();

  // The library's own loses a connection of the pool for ever when `begin` fails on it, and gives back broken ones.
  orm.transaction = (work, config) =>
    onConnection(pool, (client) => (ormOf(client) as typeof orm).transaction(work, config));

  const runOn =
    (client: pg.Pool | pg.PoolClient) =>
    async (statement: { name: string; text: string }, values: unknown[]): Promise<TextRow[]> => {
      const query = {
        name: statement.name,
        text: statement.text,
        values,
        rowMode: 'array' as const,
        types: asText,
      };
      const result = await client.query<TextRow>(query);
      return result.rows;
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

/** Tells of the one failure that no connection can tell of: that there is none to be had. */
class WatchedPool extends pg.Pool {
  private readonly onFailure: (error: unknown) => void;

  constructor(options: pg.PoolConfig, watch: ConnectionWatch) {
    super(options);
    this.onFailure = (error) => {
      if (isOutOfConnections(error)) watch.onError(error);
    };
  }

  /** The pool's own `query` comes with a callback. */
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
    // The pool hands its options to each connection.
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
  // The connection has told the log.
  pool.on('error', () => undefined);
  return pool;
}

/** The URL of the same database on another server. */
export function atServer(url: string, host: string, port: string): string {
  const other = new URL(url);
  other.searchParams.delete('host');
  other.searchParams.delete('port');
  other.hostname = host.includes(':') ? `[${host}]` : host;
  other.port = port;
  return other.href;
}

/** Lends a connection of the pool. It goes back only if it is clean; otherwise it ends, and with it what it has begun. */
async function onConnection<T>(pool: pg.Pool, work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  try {
    return await work(client);
  } finally {
    client.release(!(client as unknown as Connection).isClean);
  }
}

/** A transaction of statements, and its end. What `work` throws rolls it back. */
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
    // A connection that cannot even roll back is not used again.
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

/** Made once per connection: reading the whole schema anew took a tenth of a transaction's time. */
function rememberPerConnection(make: (client: pg.PoolClient) => Orm): (client: pg.PoolClient) => Orm {
  const known = new WeakMap<pg.PoolClient, Orm>();
  return (client) => {
    let orm = known.get(client);
    if (!orm) known.set(client, (orm = make(client)));
    return orm;
  };
}

/** Statements that are prepared, of all texts that come; each stays so for as long as its connection lives. */
const MAX_PREPARED = 100;

/**
 * Makes the ORM over a connection that names each statement by its text: planning takes longer than running, so what comes
 * again is planned once.
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
