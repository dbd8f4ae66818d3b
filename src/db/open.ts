import type { Logger } from 'pino';
import type { Config } from '../config.js';
import type { Database } from './client.js';
import { openEmbedded } from './embedded.js';
import { migrateDatabase } from './migrate.js';
import { openPostgres } from './postgres.js';

/** Opens the configured database and brings its schema up to date. */
export async function openDatabase(
  config: Pick<Config, 'databaseUrl' | 'dataDir'>,
  log: Logger,
): Promise<Database> {
  const db = config.databaseUrl ? openPostgres(config.databaseUrl, log) : await openEmbedded(config.dataDir);
  try {
    await migrateDatabase(db);
  } catch (error) {
    await db.close();
    throw error;
  }
  return db;
}
