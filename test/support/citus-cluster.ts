import { setTimeout } from 'node:timers/promises';
import { drizzle } from 'drizzle-orm/node-postgres';
import { distributeTables } from '../../src/core/db/distribute.js';
import {
  createPostgresServer,
  inDatabase,
  query,
  withClient,
  type PostgresServer,
} from './postgres-server.js';

export interface CitusCluster {
  coordinator: PostgresServer;
  workers: PostgresServer[];
  /** URLs of maintenance databases, the coordinator's first. */
  urls: string[];
  remove(): Promise<void>;
}

const settings = {
  shared_preload_libraries: 'citus',
  wal_level: 'logical',
  max_connections: '400',
  max_prepared_transactions: '400',
  max_worker_processes: '32',
  'citus.enable_create_database_propagation': 'off',
};

export async function createCitusCluster({ workers: count = 2, fsync = 'off' } = {}): Promise<CitusCluster> {
  const servers = await Promise.all(
    Array.from({ length: count + 1 }, () => createPostgresServer({ ...settings, fsync })),
  );
  const [coordinator, ...workers] = servers as [PostgresServer, ...PostgresServer[]];
  return {
    coordinator,
    workers,
    urls: servers.map((server) => server.url('postgres')),
    async remove() {
      for (const server of servers) await server.remove();
    },
  };
}

/**
 * Creates a database on every node, copied from the coordinator's template, and registers the workers.
 * @param shards number of shard groups; 0 to leave the tables undistributed
 * @returns the database's URL on the coordinator
 */
export async function createCitusDatabase(
  [coordinator = '', ...workers]: string[],
  name: string,
  { template = 'template_gauge', shards = 4 } = {},
): Promise<string> {
  await Promise.all(
    [coordinator, ...workers].map(async (url) => {
      await query(url, `create database ${name} template ${url === coordinator ? template : 'template1'}`);
      await query(inDatabase(url, name), 'create extension citus');
    }),
  );
  const url = inDatabase(coordinator, name);
  const placeOf = (of: string) => `'${new URL(of).hostname}', ${new URL(of).port}`;
  await withClient(url, async (client) => {
    await client.query(`select citus_set_coordinator_host(${placeOf(coordinator)})`);
    // Citus names replication slots after operation numbers, and all databases of a server share those names, so each
    // database starts at a random number.
    const firstOperation = Math.floor(Math.random() * 1e9);
    await client.query(`select setval('pg_catalog.pg_dist_operationid_seq', ${firstOperation})`);
    for (const worker of workers)
      await tryAgain(() => client.query(`select citus_add_node(${placeOf(worker)})`));
    if (shards > 0) await distributeTables(drizzle(client), shards);
  });
  return url;
}

/**
 * Tries again, because a coordinator may lose its first connection to a worker while other databases are created and
 * removed.
 */
async function tryAgain(work: () => Promise<unknown>, times = 3): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (times === 1) throw error;
    await setTimeout(500);
    await tryAgain(work, times - 1);
  }
}
