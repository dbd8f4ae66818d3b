import type { Logger } from 'pino';
import type { Config } from '../config.js';
import { openEmbedded } from './embedded.js';
import { migrateDatabase, type Opened } from './migrate.js';
import { openPostgres } from './postgres.js';

type DatabaseConfig = Pick<Config, 'databaseUrl' | 'dataDir'>;

/** The configured database. A Postgres that is away at the moment is no error yet: its pool connects on first use. */
export async function connectDatabase(
  { databaseUrl, dataDir }: DatabaseConfig,
  log: Logger,
): Promise<Opened> {
  return databaseUrl ? openPostgres(databaseUrl, log) : openEmbedded(dataDir);
}

/** The configured database with its schema up to date. */
export async function openDatabase(config: DatabaseConfig, log: Logger): Promise<Opened> {
  const db = await connectDatabase(config, log);
  try {
    await migrateDatabase(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return db;
}
