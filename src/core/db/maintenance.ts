import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import type { ServiceConfig } from '../config.js';
import { explainRefusal } from './check-server.js';
import { ANCHOR } from './citus.js';
import { SEQUENTIAL, type Orm } from './client.js';
import { Connection } from './connection.js';
import { connectDatabaseSocket } from './database-socket.js';
import { DirectoryInUseError } from './directory-lock.js';
import { isDistributed } from './distribute.js';
import { embeddedDatabase, openEmbedded, type EmbeddedDatabase } from './embedded.js';
import { isMigrated } from './migrate.js';
import { READ_SETTINGS } from './pool.js';
import { atServer } from './postgres.js';
import { queryRows } from './sql.js';

export interface MaintenanceDatabase {
  orm: Orm;
  /** The group's hot statements wait. Without shards, `work` gets all Organizations and takes its own locks. */
  withoutIngestion(
    orgIds: string[],
    work: (orgIds: string[], isFrozen: boolean) => Promise<void>,
  ): Promise<void>;
  close(): Promise<void>;
}

export class NotMigratedError extends Error {}

/**
 * Opens the database without the service's time-outs and without migrating.
 * @param throughService whether the command may share the session of a running service; it must then not change session
 * settings or hold a lock beyond a transaction
 */
export async function openForMaintenance(
  config: Pick<ServiceConfig, 'databaseUrl' | 'dataDir'>,
  throughService = false,
): Promise<MaintenanceDatabase> {
  const db = config.databaseUrl
    ? await connect(config.databaseUrl)
    : await openExisting(config.dataDir, throughService);
  try {
    if (!(await isMigrated(db)))
      throw new NotMigratedError(
        'The database schema does not match this version. Update it with: npm run migrate',
      );
    return db;
  } catch (error) {
    await db.close();
    throw error;
  }
}

async function connect(connectionString: string): Promise<MaintenanceDatabase> {
  const client: pg.Client = new Connection({
    connectionString,
    application_name: 'gauge-maintenance',
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
  });
  await client.connect().catch((error: unknown) => explainRefusal(error, connectionString, 'DATABASE_URL'));
  await client.query(`${READ_SETTINGS}; set default_transaction_isolation = 'read committed'; ${SEQUENTIAL}`);
  const orm = drizzle(client);
  return {
    orm,
    withoutIngestion: (orgIds, work) => freezeGroups(orm, connectionString, orgIds, work),
    close: () => client.end(),
  };
}

async function openExisting(dataDir: string, throughService: boolean): Promise<MaintenanceDatabase> {
  if (!existsSync(join(dataDir, 'pglite')))
    throw new NotMigratedError(`There is no database in ${dataDir}. Set DATA_DIR or DATABASE_URL.`);
  const db = await openEmbedded(dataDir).catch((error: unknown) => {
    if (throughService) return connectToHolder(dataDir, error);
    throw error;
  });
  return { ...db, withoutIngestion: (orgIds, work) => work(orgIds, false) };
}

async function connectToHolder(dataDir: string, error: unknown): Promise<EmbeddedDatabase> {
  const client = error instanceof DirectoryInUseError ? await connectDatabaseSocket(dataDir) : undefined;
  if (!client) throw error;
  return embeddedDatabase(client, () => undefined);
}

/** All later ingestion queues up behind a waiting repair. */
const LOCK_TIMEOUT = '2s';

interface Group {
  id: string;
  host: string;
  port: string;
  orgIds: string[];
}

/** Locks of the coordinator's tables would not block the worker's statements, so this takes the lock of a move. */
export async function freezeGroups(
  orm: Orm,
  url: string,
  orgIds: string[],
  work: (orgIds: string[], isFrozen: boolean) => Promise<void>,
): Promise<void> {
  if (!(await isDistributed(orm))) return work(orgIds, false);
  const groups = await queryRows(orm)<Group>`
    select g.id::text, n.nodename::text as host, n.nodeport::text as port, json_agg(g.org_id) as "orgIds"
    from (
      select org_id, get_shard_id_for_distribution_column(${ANCHOR}, org_id) as id
      from unnest(${`{${orgIds.join(',')}}`}::uuid[]) as o (org_id)
    ) g
    join pg_dist_placement p on p.shardid = g.id
    join pg_dist_node n on n.groupid = p.groupid and n.noderole = 'primary'
    group by 1, 2, 3 order by 1`;
  for (const group of groups) await freeze(url, group, () => work(group.orgIds, true));
}

async function freeze(url: string, { id, host, port }: Group, work: () => Promise<void>): Promise<void> {
  const client: pg.Client = new Connection({
    connectionString: atServer(url, host, port),
    application_name: 'gauge-maintenance',
    connectionTimeoutMillis: 10_000,
  });
  await client.connect();
  try {
    await client.query('begin');
    await client.query(`set local lock_timeout = '${LOCK_TIMEOUT}'`);
    await client.query('select lock_shard_metadata(7, array[$1]::bigint[])', [id]);
    await work();
  } finally {
    await client.end();
  }
}
