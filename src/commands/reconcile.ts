import { Command } from 'commander';
import { systemClock } from '../core/time.js';
import { sqlState } from '../core/db/client.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { formatCount } from '../core/pages/format.js';
import { checkLedger, ledgerJson, ledgerText } from '../markets/portfolio/ledger-check.js';
import { sumArchives } from '../metering/archive/queries.js';
import { driftJson, driftText, repairText } from '../metering/reconciliation/drift-report.js';
import { compare, hasDrift, repair } from '../metering/reconciliation/reconcile.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';

const help = `
Monthly totals and hourly sums are updated as events are recorded. This command adds up the events again and prints
every total and hour that differs. It can run beside the service, because it reads one snapshot. The embedded
database allows one process, so stop the service first.

--fix finds the months that differ. It then blocks ingestion while it recomputes and corrects them in one transaction,
with an audit row for each Organization. Repair months with very many events in a quiet hour.

Events that npm run archive moved into files count too: a total is the sum of recorded and archived events. The hours of
archived months are only in the files; npm run archive -- --verify compares them.

Each settled reservation must have its event. A missing event is reported and never repaired, because it was never counted.

It also compares the ledger of every trading account with its cash, positions, orders, fills and settlements. --fix never
changes these: money is corrected by a ledger entry with a reason.

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service; --fix needs the role that owns the
tables.

Exit status: 0 no difference is left, 1 something differs, 2 the comparison failed.`;

/** Maximum per rule of the ledger. */
const MAX_PROBLEMS = 1000;

interface Flags {
  org?: string;
  fix?: boolean;
  json?: boolean;
}

async function reconcile(db: MaintenanceDatabase, { org, fix, json }: Flags): Promise<number> {
  const orgId = await organizationFlag(db, org);
  const found = await compare(db.orm, { orgId });
  const isRepairing = fix === true && hasDrift(found);
  const ledger = await checkLedger(db.orm, { orgId }, MAX_PROBLEMS);
  const archived = await sumArchives(db.orm, orgId);
  if (!json && archived.files > 0)
    console.log(
      `${formatCount(archived.events, 'event')} in ${formatCount(archived.files, 'file')} of archived months are included in the recorded sums.`,
    );
  if (!json) console.log(`${driftText(found)}\n${ledgerText(ledger)}`);
  const repaired = isRepairing ? await repair(db, systemClock, { orgId }) : undefined;
  const left = isRepairing ? await compare(db.orm, { orgId }) : found;
  if (json) console.log(driftJson(found, repaired, { ledger: ledgerJson(ledger) }));
  else if (repaired) console.log(`${repairText(repaired)}\n${driftText(left)}`);
  return hasDrift(left) || left.settlements.length > 0 || ledger.length > 0 ? 1 : 0;
}

await runMaintenance<Flags>({
  command: new Command('reconcile')
    .description('Compares usage totals with their events, and trading accounts with their ledgers.')
    .option('--org <slug>', 'one Organization only')
    .option('--fix', 'set totals and hours that differ to the sums of their events')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help),
  work: reconcile,
  explain: (error) =>
    sqlState(error) === '55P03'
      ? 'the tables are held by another transaction; nothing was changed. Try again later.'
      : undefined,
});
