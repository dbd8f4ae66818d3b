import { pino } from 'pino';
import { ConfigError } from '../core/config.js';
import { readConfig } from '../config.js';
import { UnsuitableDatabaseError } from '../core/db/check-server.js';
import { isDatabaseUnavailable } from '../core/db/client.js';
import { openDatabase } from '../core/db/open.js';

/**
 * Brings the schema up to date and ends: for a deployment in which the service runs with a role that owns nothing.
 * DATABASE_URL names that role, MIGRATION_DATABASE_URL the owner's. Exit status 2 where it could not be done.
 */
const { DATABASE_URL, MIGRATION_DATABASE_URL, DATA_DIR } = process.env;
try {
  const config = readConfig({ DATABASE_URL, MIGRATION_DATABASE_URL, DATA_DIR });
  const db = await openDatabase(config, pino({ level: 'silent' }));
  await db.close();
  process.stdout.write('The schema is up to date.\n');
} catch (error) {
  const isExpected =
    error instanceof ConfigError || error instanceof UnsuitableDatabaseError || isDatabaseUnavailable(error);
  const { message, stack } = error as Error;
  process.stderr.write(`migrate: ${isExpected ? message : stack}\n`);
  process.exitCode = 2;
}
