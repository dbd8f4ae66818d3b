import { type Command, CommanderError } from 'commander';
import { ConfigError } from '../core/config.js';
import { readConfig } from '../config.js';
import { isDatabaseUnavailable } from '../core/db/client.js';
import { DirectoryInUseError } from '../core/db/directory-lock.js';
import { NotMigratedError, openForMaintenance, type MaintenanceDatabase } from '../core/db/maintenance.js';

interface MaintenanceOptions<Flags> {
  command: Command;
  /** Does the work and returns the exit status. */
  work: (db: MaintenanceDatabase, flags: Flags) => Promise<number>;
  /** What a person can act on, in a sentence, for errors of this command; undefined for all others. */
  explain: (error: unknown) => string | undefined;
}

const expected = [ConfigError, NotMigratedError, DirectoryInUseError];

/** Runs a command that looks at the database beside the service. Sets the exit status: 2 where it could not be carried out. */
export async function runMaintenance<Flags extends object>(
  options: MaintenanceOptions<Flags>,
): Promise<void> {
  // Nobody reads on, as with `| head`: the exit status still counts.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
  process.exitCode = await run(options);
}

async function run<Flags extends object>({
  command,
  work,
  explain,
}: MaintenanceOptions<Flags>): Promise<number> {
  let db: MaintenanceDatabase | undefined;
  try {
    command.exitOverride().parse();
    db = await openForMaintenance(readConfig(process.env));
    return await work(db, command.opts<Flags>());
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    const sentence = explain(error) ?? explainCommon(error);
    const line = sentence === undefined ? error : `${command.name()}: ${sentence}`;
    // A bug shows itself whole.
    process.stderr.write(`${line instanceof Error ? (line.stack ?? String(line)) : String(line)}\n`);
    return 2;
  } finally {
    await db?.close();
  }
}

function explainCommon(error: unknown): string | undefined {
  if (expected.some((kind) => error instanceof kind)) return (error as Error).message;
  if (isDatabaseUnavailable(error)) return `the database cannot be reached: ${(error as Error).message}`;
  return undefined;
}
