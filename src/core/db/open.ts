import type { Logger } from 'pino';
import type { ServiceConfig } from '../config.js';
import { requireOwnSessions } from './check-server.js';
import { openEmbedded } from './embedded.js';
import { migrateDatabase, type OpenDatabase } from './migrate.js';
import { openPostgres } from './postgres.js';

type DatabaseConfig = Pick<ServiceConfig, 'databaseUrl' | 'dataDir'> &
  Partial<Pick<ServiceConfig, 'migrationDatabaseUrl'>>;

/** Succeeds if Postgres is unreachable, because the pool connects on first use. */
export async function connectDatabase(
  { databaseUrl, dataDir }: DatabaseConfig,
  log: Logger,
  inThread = false,
): Promise<OpenDatabase> {
  return databaseUrl
    ? openPostgres(databaseUrl, log)
    : openEmbedded(dataDir, inThread, (text) => log.warn(text));
}

/** @throws UnsuitableDatabaseError */
export async function prepareDatabase(
  db: OpenDatabase,
  { migrationDatabaseUrl }: Partial<Pick<ServiceConfig, 'migrationDatabaseUrl'>>,
): Promise<void> {
  if ('pool' in db) await requireOwnSessions(db.pool);
  await migrateDatabase(db, migrationDatabaseUrl);
  await db.shards.load();
}

export async function openDatabase(config: DatabaseConfig, log: Logger): Promise<OpenDatabase> {
  const db = await connectDatabase(config, log);
  try {
    await prepareDatabase(db, config);
  } catch (error) {
    await db.close();
    throw error;
  }
  return db;
}
