import { Command } from 'commander';
import { pino } from 'pino';
import { readConfig } from '../config.js';
import { ConfigError } from '../core/config.js';
import { UnsuitableDatabaseError } from '../core/db/check-server.js';
import { describeCause, isDatabaseUnavailable } from '../core/db/client.js';
import { openDatabase } from '../core/db/open.js';
import { openTerminal, runCommand } from './kit/command.js';
import { explainInUse } from './kit/maintenance.js';

const help = `
Use it if the service's database role does not own the tables.

Environment: DATABASE_URL of that role, MIGRATION_DATABASE_URL of the owner; or DATA_DIR for the embedded database.

Exit status: 0 the schema is up to date, 2 the schema could not be updated.`;

const terminal = openTerminal();
process.exitCode = await runCommand(
  new Command('migrate').description('Updates the database schema.').addHelpText('after', help),
  terminal,
  async () => {
    const { DATABASE_URL, MIGRATION_DATABASE_URL, DATA_DIR } = process.env;
    const config = readConfig({ DATABASE_URL, MIGRATION_DATABASE_URL, DATA_DIR });
    const db = await openDatabase(config, pino({ level: 'silent' }));
    await db.close();
    terminal.stdout.write('The schema is up to date.\n');
    return 0;
  },
  (error) =>
    explainInUse(error) ??
    (error instanceof ConfigError || error instanceof UnsuitableDatabaseError
      ? error.message
      : isDatabaseUnavailable(error)
        ? describeCause(error)
        : undefined),
);
