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
The totals of a month and the sums of an hour are kept while events are recorded. This adds the events up again and
prints every total and every hour that differs. It may run while the service does: both are read in one
snapshot. The embedded database has room for one process, so stop the service first there.

--fix finds what drifts, then keeps ingestion waiting while it sums those months again and sets them right, in one
transaction with an audit row for each Organization. Months of very many events are better repaired in a quiet hour.

What npm run archive has moved into files counts as well: a total is the sum of its events and of what was archived. The
hours of such months are in the files alone; npm run archive -- --verify compares them.

Each settled reservation must have its event; a missing one is told and never repaired, since it was never counted.

It also compares the ledger of every trading account with its cash, positions, orders, fills and settlements. Nothing of
that is ever repaired here: money is set right by an entry that says why.

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service; --fix takes the role that owns the
tables.

Exit status: 0 no drift is left and the ledger agrees, 1 something differs, 2 the comparison could not be made.`;

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
      `${formatCount(archived.events, 'event')} in ${formatCount(archived.files, 'file')} of archived months count as recorded of them.`,
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
    .description('Compares the totals with the events that they are made of, and money with its ledger.')
    .option('--org <slug>', 'one Organization only')
    .option('--fix', 'set what drifts to the sums of the events')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help),
  work: reconcile,
  explain: (error) =>
    sqlState(error) === '55P03'
      ? 'the tables are held by another transaction; nothing was changed. Try again later.'
      : undefined,
});
