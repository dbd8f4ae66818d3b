import { Command } from 'commander';
import { CommandError } from '../../commands/kit/command.js';
import { runMaintenance } from '../../commands/kit/maintenance.js';
import type { MaintenanceDatabase } from '../../core/db/maintenance.js';
import { systemClock } from '../../core/time.js';
import { decideUnknown, listUnknown, unknownText } from '../stripe/comparison.js';

const help = `
Lists the meter events whose outcome is unknown: Stripe did not answer for 23 hours, so another attempt could count their
usage twice. Look for the identifier among the meter's events in Stripe's dashboard, then decide:

  npm run stripe -- --received 3f0c…_77ab…_2026112509_1    Stripe has it
  npm run stripe -- --missing 3f0c…_77ab…_2026112509_1     Stripe does not have it; its usage is sent with a new identifier

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service.

Exit status: 0 done or nothing to decide, 1 decisions are open, 2 the command failed.`;

interface Flags {
  received?: string;
  missing?: string;
}

async function run(db: MaintenanceDatabase, { received, missing }: Flags): Promise<number> {
  if (received !== undefined && missing !== undefined)
    throw new CommandError('--received and --missing exclude each other.');
  const identifier = received ?? missing;
  if (identifier !== undefined) {
    const state = received === undefined ? 'missing' : 'sent';
    if (!(await decideUnknown(db.orm, systemClock, identifier, state)))
      throw new CommandError(
        `No meter event with the identifier ${JSON.stringify(identifier)} waits for a decision.`,
      );
    console.log(
      state === 'sent'
        ? 'Recorded as received.'
        : 'Recorded as missing. The next comparison sends its usage with a new identifier.',
    );
    return 0;
  }
  const rows = await listUnknown(db.orm, undefined);
  console.log(rows.length === 0 ? 'Nothing to decide.' : unknownText(rows).join('\n'));
  return rows.length === 0 ? 0 : 1;
}

await runMaintenance<Flags>({
  command: new Command('stripe')
    .description('Decides meter events whose outcome is unknown.')
    .option('--received <identifier>', 'Stripe has the event')
    .option('--missing <identifier>', 'Stripe does not have the event')
    .addHelpText('after', help),
  throughService: true,
  work: run,
});
