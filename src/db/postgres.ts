import { drizzle } from 'drizzle-orm/node-postgres';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Database, TextRow } from './client.js';
import * as schema from './schema.js';

/**
 * Hot statements get one plan that goes by index, from the first call on and whatever the statistics say: planning
 * takes longer than running, and a plan made for nearly empty tables is ruinous once they have grown.
 */
const PLAN_SETTINGS = 'set plan_cache_mode = force_generic_plan; set enable_seqscan = off; set jit = off';

/** Hot statements in flight at once; four reach the ceiling of one Postgres (see bench/README.md). */
const PARALLEL = 4;
const asText = { getTypeParser: () => (value: string) => value };

/**
 * Opens Postgres. Two pools, so that a slow page can never keep the ingestion from its connections.
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
  for (const p of [pool, hot])
    p.on('error', (error) => log.warn({ err: error }, 'a database connection was lost'));

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
    run: runOn(hot),
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
      await Promise.all([pool.end(), hot.end()]);
    },
  };
}
