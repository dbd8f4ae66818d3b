import { setPriority } from 'node:os';
import { join, resolve } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import type { Config } from '../../config.js';
import { systemClock } from '../../core/time.js';
import { sqlState, type Orm } from '../../core/db/client.js';
import type { MaintenanceDatabase } from '../../core/db/maintenance.js';
import { formatCount, formatDecimal } from '../../core/pages/format.js';
import {
  archiveMonth,
  eachOpenMonth,
  eachOrganization,
  InterruptedError,
  monthLabel,
  readBack,
  type ArchiveDeps,
} from '../archive/archive.js';
import { ArchiveError } from '../archive/file.js';
import { listArchives, lockArchive } from '../archive/queries.js';
import { firstRemembered } from '../ingestion/batch.js';
import { CommandError, listenForInterrupt } from '../../commands/kit/command.js';
import { organizationFlag, runMaintenance } from '../../commands/kit/maintenance.js';
import { createProgress, duration } from '../../commands/kit/progress.js';

const help = `
Moves the events of whole months out of the database into files, one per Organization, month and mode: gzipped lines of
JSON, with their sums beside them. Totals, hours and charts do not change.

  npm run archive -- --before 2025-11 --to /mnt/archive     everything up to October 2025
  npm run archive -- --verify /mnt/archive                  checks that the files are unchanged and match the totals

Each file is read back and compared with the totals and hours before anything is deleted. Each statement then deletes at most
10,000 events, exactly those in the file. The command can run beside the service, and can be interrupted at any time: run it
again with the same folder to continue. The embedded database allows one process, so stop the service first. The ledger of
credits stays here, summed up per day.

After an event is deleted from the database, its idempotency key is forgotten, so a repeat counts again. Events therefore stay
for DEDUPE_HORIZON_MONTHS whole months after their month, and are never deleted without that setting. 13 is a good value: in
November 2026, the latest --before is then 2025-10. Senders must not repeat older events. A repeat with an occurredAt older
than 7 days is refused in any case.

Environment: DATABASE_URL of the role that owns the tables, or DATA_DIR for the embedded database; DEDUPE_HORIZON_MONTHS,
as for the service.

Exit status: 0 done, 1 a month could not be archived or a file is wrong, 2 the command failed, 130 interrupted.`;

/** Per statement. */
const CHUNK = 10_000;

interface Flags {
  before?: string;
  to?: string;
  org?: string;
  rest: number;
  verify?: string;
}

async function run(db: MaintenanceDatabase, flags: Flags, config: Config): Promise<number> {
  const orgId = await organizationFlag(db, flags.org);
  if (flags.verify !== undefined) return verify(db.orm, resolve(flags.verify), orgId);
  const before = readBefore(flags.before, config.dedupeHorizonMonths);
  const dir = resolve(flags.to ?? join(config.dataDir, 'archive'));
  // Other processes on the machine run first.
  setPriority(10);
  await lockArchive(db.orm);
  try {
    return await archive(db.orm, orgId, before, { dir, rest: flags.rest });
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    console.error(`archive: ${error.message}`);
    return 130;
  }
}

/** The first day of the oldest month to keep. */
function readBefore(before: string | undefined, horizonMonths: number | undefined): string {
  if (before === undefined)
    throw new CommandError(
      '--before is required. For example, --before 2025-11 archives everything up to October 2025.',
    );
  if (horizonMonths === undefined)
    throw new CommandError(
      'DEDUPE_HORIZON_MONTHS is not set, so idempotency keys are kept forever and no event may be deleted. Set it for the service and here, for example to 13. Events of older months can then be archived; a repeat of their keys counts again.',
    );
  const first = firstRemembered(horizonMonths, systemClock.now());
  if (`${before}-01` > first)
    throw new CommandError(
      `the months from ${first.slice(0, 7)} on are within DEDUPE_HORIZON_MONTHS=${horizonMonths}, so their idempotency keys are still needed. The latest possible value is --before ${first.slice(0, 7)}.`,
    );
  return `${before}-01`;
}

async function archive(
  orm: Orm,
  orgId: string | undefined,
  before: string,
  { dir, rest }: Pick<ArchiveDeps, 'dir' | 'rest'>,
): Promise<number> {
  const startedAt = performance.now();
  let months = 0;
  let all = 0;
  for await (const { events } of eachOpenMonth(orm, before, orgId)) {
    months++;
    all += events;
  }
  const signal = listenForInterrupt();
  const progress = createProgress(process.stderr, 10_000);
  let done = 0;
  let archived = 0;
  let failures = 0;
  try {
    for await (const month of eachOpenMonth(orm, before, orgId)) {
      const name = `${month.slug}, ${monthLabel(month)}`;
      const doneBefore = done;
      const onEvents = (count: number) => {
        done += count;
        progress.show(done / Math.max(1, 3 * all), name);
      };
      try {
        await archiveMonth({ orm, clock: systemClock, dir, chunkSize: CHUNK, rest, signal, onEvents }, month);
        archived += month.events;
      } catch (error) {
        if (!(error instanceof ArchiveError)) throw error;
        failures++;
        progress.note(`${name}: ${error.message}`);
      }
      done = doneBefore + 3 * month.events;
    }
  } finally {
    progress.stop();
  }
  const seconds = (performance.now() - startedAt) / 1000;
  if (months === 0) console.log('Nothing to archive. Every month before that is already archived.');
  else
    console.log(
      `Archived ${formatCount(archived, 'event')} of ${formatCount(months - failures, 'month')} to ${dir} in ${duration(seconds)}.`,
    );
  if (failures > 0)
    console.error(
      `archive: ${formatCount(failures, 'month')} not archived. See the messages above, and run npm run reconcile.`,
    );
  return failures > 0 ? 1 : 0;
}

async function verify(orm: Orm, dir: string, orgId: string | undefined): Promise<number> {
  const progress = createProgress(process.stderr, 10_000);
  let events = 0;
  let files = 0;
  let problems = 0;
  try {
    for await (const { id, slug } of eachOrganization(orm, orgId)) {
      for (const row of await listArchives(orm, id)) {
        const name = `${slug}, ${monthLabel(row)}`;
        const onEvents = (count: number) => {
          events += count;
          progress.show(undefined, `${name}: ${formatDecimal(events)} events`);
        };
        files++;
        try {
          await readBack({ orm, dir, chunkSize: CHUNK, onEvents }, row);
        } catch (error) {
          if (!(error instanceof ArchiveError)) throw error;
          problems++;
          progress.note(`${name}: ${error.message}`);
        }
      }
    }
  } finally {
    progress.stop();
  }
  if (problems > 0)
    console.log(`${formatCount(problems, 'file')} of ${files} failed the check. See the messages above.`);
  else
    console.log(
      `${formatCount(files, 'file')} with ${formatCount(events, 'event')}: unchanged, and equal to the totals.`,
    );
  return problems > 0 ? 1 : 0;
}

function monthFlag(value: string): string {
  if (!/^20\d\d-(0[1-9]|1[0-2])$/.test(value))
    throw new InvalidArgumentError('It must be a month like 2025-11.');
  return value;
}

function restFlag(value: string): number {
  if (!/^\d{1,3}(\.\d)?$/.test(value)) throw new InvalidArgumentError('It must be a number like 2 or 0.5.');
  return Number(value);
}

await runMaintenance<Flags>({
  command: new Command('archive')
    .description('Moves the events of closed months into files.')
    .option('--before <month>', 'the first month to keep, like 2025-11', monthFlag)
    .option('--to <folder>', 'the folder for the files; default: `archive` in DATA_DIR')
    .option('--org <slug>', 'one Organization only')
    .option(
      '--rest <factor>',
      'pause after each statement, as a multiple of its duration; 0 if nobody else needs the database',
      restFlag,
      3,
    )
    .option('--verify <folder>', 'compare the files in this folder with the totals, and change nothing')
    .addHelpText('after', help),
  work: run,
  explain(error) {
    if (error instanceof ArchiveError) return error.message;
    if (sqlState(error) === '55P03')
      return 'another run is archiving, or the tables are held by a repair. Try again later.';
    return undefined;
  },
});
