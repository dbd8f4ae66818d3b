import type { Command } from 'commander';
import { readConfig, type Config } from '../../config.js';
import { ConfigError } from '../../core/config.js';
import { UnsuitableDatabaseError } from '../../core/db/check-server.js';
import { describeCause, isDatabaseUnavailable, sqlState } from '../../core/db/client.js';
import { ServiceEndedError } from '../../core/db/database-socket.js';
import { DirectoryInUseError } from '../../core/db/directory-lock.js';
import { NotMigratedError, openForMaintenance, type MaintenanceDatabase } from '../../core/db/maintenance.js';
import { CommandError, openTerminal, runCommand } from './command.js';
import { findOrganization } from '../../accounts/identity/organizations/queries.js';

interface MaintenanceOptions<Flags> {
  command: Command;
  /** Before the database is opened. @throws CommandError */
  examine?: (flags: Flags, config: Config) => void;
  throughService?: boolean;
  work: (db: MaintenanceDatabase, flags: Flags, config: Config) => Promise<number>;
  explain?: (error: unknown) => string | undefined;
}

/** The exit status is 2 if the command failed. */
export async function runMaintenance<Flags extends object>({
  command,
  examine,
  throughService,
  work,
  explain,
}: MaintenanceOptions<Flags>): Promise<void> {
  process.exitCode = await runCommand<Flags>(
    command,
    openTerminal(),
    async (flags) => {
      const config = readConfig(process.env);
      examine?.(flags, config);
      const db = await openForMaintenance(config, throughService);
      try {
        return await work(db, flags, config);
      } finally {
        await db.close();
      }
    },
    (error) => explain?.(error) ?? explainInUse(error) ?? explainCommon(error),
  );
}

const expected = [ConfigError, NotMigratedError, ServiceEndedError, UnsuitableDatabaseError];

/** The default message suggests another database, which does not help a maintenance command. */
export const explainInUse = (error: unknown): string | undefined =>
  error instanceof DirectoryInUseError
    ? `process ${error.pid} has the embedded database in ${error.directory} open. Stop Gauge, then run this command again.`
    : undefined;

function explainCommon(error: unknown): string | undefined {
  // The ORM wraps connection errors.
  const known = [error, (error as Error).cause].find((one) => expected.some((kind) => one instanceof kind));
  if (known) return (known as Error).message;
  if (sqlState(error) === '42501')
    return 'the role of DATABASE_URL may not do this. Use the URL of the role that owns the tables.';
  if (isDatabaseUnavailable(error)) return `the database cannot be reached: ${describeCause(error)}`;
  return undefined;
}

export async function organizationFlag(db: MaintenanceDatabase, slug: string | undefined) {
  if (slug === undefined) return undefined;
  const orgId = (await findOrganization(db.orm, { slug }))?.id;
  if (orgId === undefined) throw new CommandError(`there is no Organization ${JSON.stringify(slug)}.`);
  return orgId;
}
