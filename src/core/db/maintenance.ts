import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import type pg from 'pg';
import type { ServiceConfig } from '../config.js';
import { SEQUENTIAL, type Orm } from './client.js';
import { Connection } from './connection.js';
import { openEmbedded } from './embedded.js';
import { freezeGroups } from './freeze.js';
import { isMigrated } from './migrate.js';

export interface MaintenanceDatabase {
  orm: Orm;
  /**
   * Works on the Organizations of one shard group after the other while its hot statements wait. Where the database is not
   * sharded there is nothing to wait for here: `work` gets them all, and locks what it needs.
   */
  withoutIngestion(
    orgIds: string[],
    work: (orgIds: string[], isFrozen: boolean) => Promise<void>,
  ): Promise<void>;
  close(): Promise<void>;
}

/** There is no database to work on, or its schema is not the one that this version knows. */
export class NotMigratedError extends Error {}

/**
 * Opens the configured database for a command that may read all of it: without the time-outs of the service, and
 * without changing the schema.
 * @throws NotMigratedError, DirectoryInUseError
 */
export async function openForMaintenance(
  config: Pick<ServiceConfig, 'databaseUrl' | 'dataDir'>,
): Promise<MaintenanceDatabase> {
  const db = config.databaseUrl ? await connect(config.databaseUrl) : await openExisting(config.dataDir);
  try {
    if (!(await isMigrated(db)))
      throw new NotMigratedError(
        'The database does not have the schema of this version. Start the service once: it brings the schema up to date.',
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
  await client.connect();
  await client.query(`set default_transaction_isolation = 'read committed'; ${SEQUENTIAL}`);
  const orm = drizzle(client);
  return {
    orm,
    withoutIngestion: (orgIds, work) => freezeGroups(orm, connectionString, orgIds, work),
    close: () => client.end(),
  };
}

async function openExisting(dataDir: string): Promise<MaintenanceDatabase> {
  if (!existsSync(join(dataDir, 'pglite')))
    throw new NotMigratedError(`There is no database in ${dataDir}. Set DATA_DIR or DATABASE_URL.`);
  const db = await openEmbedded(dataDir);
  return { ...db, withoutIngestion: (orgIds, work) => work(orgIds, false) };
}
