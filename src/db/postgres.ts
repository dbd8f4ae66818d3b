import { createHash } from 'node:crypto';
import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Database, Orm, TextRow } from './client.js';
import * as schema from './schema.js';

/**
 * Hot statements get one plan that goes by index, from the first call on and whatever the statistics say: planning
 * takes longer than running, and a plan made for nearly empty tables is ruinous once they have grown.
 */
const PLAN_SETTINGS = 'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off';

/** Hot statements in flight at once; four reach the ceiling of one Postgres (see bench/README.md). */
const PARALLEL = 4;
const asText = { getTypeParser: () => (value: string) => value };

/** Hot transactions at once; each keeps its connection from its first statement to its commit. */
const PARALLEL_TRANSACTIONS = 5;

/**
 * Opens Postgres. Three pools, so that neither a slow page nor a row that many wait for can ever keep the ingestion from
 * its connections.
 * Every time-out is finite: a database that vanished without closing its sockets is noticed.
 */
export function openPostgres(url: string, log: Logger): Database & { pool: pg.Pool } {
  const options = {
    connectionString: url,
    application_name: 'gauge',
    connectionTimeoutMillis: 3_000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    statement_timeout: 15_000,
    query_timeout: 20_000,
    idle_in_transaction_session_timeout: 15_000,
  };
  const pool = new pg.Pool({ ...options, max: 10 });
  const hot = new pg.Pool({
    ...options,
    max: PARALLEL * 3,
    onConnect: (client) => client.query(PLAN_SETTINGS).then(() => undefined),
  });
  const transactions = new pg.Pool({
    ...options,
    max: PARALLEL_TRANSACTIONS,
    onConnect: (client) => client.query(PLAN_SETTINGS).then(() => undefined),
  });
  for (const p of [pool, hot, transactions])
    p.on('error', (error) => log.warn({ err: error }, 'a database connection was lost'));

  const prepareEach = createPreparer();

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

  return {
    kind: 'postgres',
    pool,
    orm: drizzle(pool, { schema }),
    parallel: PARALLEL,
    parallelTransactions: PARALLEL_TRANSACTIONS,
    run: runOn(hot),
    async transaction(work) {
      const client = await transactions.connect();
      let failure: Error | undefined;
      try {
        await client.query('begin');
        const result = await work(prepareEach(client));
        await client.query('commit');
        return result;
      } catch (error) {
        // A connection that cannot even roll back is not used again.
        await client.query('rollback').catch((broken: Error) => (failure = broken));
        throw error;
      } finally {
        client.release(failure);
      }
    },
    async rehearse(work) {
      const client = await hot.connect();
      let failure: Error | undefined;
      try {
        await client.query('begin');
        const result = await work(runOn(client));
        await client.query('rollback');
        return result;
      } catch (error) {
        // The connection goes back only when it is known to be clean.
        failure = error as Error;
        throw error;
      } finally {
        client.release(failure);
      }
    },
    async ping() {
      await pool.query('select 1');
    },
    async close() {
      await Promise.all([pool.end(), hot.end(), transactions.end()]);
    },
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
  // Made once per connection: reading the whole schema anew took a tenth of a transaction's time.
  const known = new WeakMap<pg.PoolClient, Orm>();
  return (client) => {
    let orm = known.get(client);
    if (!orm) {
      const query = (config: pg.QueryConfig, values: unknown[]) =>
        client.query({ ...config, ...nameOf(config.text) }, values);
      orm = drizzle({ query } as unknown as pg.PoolClient, { schema });
      known.set(client, orm);
    }
    return orm;
  };
}
