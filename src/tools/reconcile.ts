import { Command } from 'commander';
import { systemClock } from '../core/clock.js';
import { sqlState } from '../core/db/client.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { checkLedger, ledgerJson, ledgerText } from '../trading/portfolio/ledger-check.js';
import { driftJson, driftText, repairText } from '../usage/drift-report.js';
import { compare, hasDrift, repair } from '../usage/reconcile.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';

const help = `
The totals of a month and the sums of an hour are kept while events are recorded. This adds the events up again and
prints every total and every hour that differs. It may run while the service does: both are read in one
snapshot. The embedded database has room for one process, so stop the service first there.

--fix finds what drifts, then keeps ingestion waiting while it sums those months again and sets them right, in one
transaction with an audit row for each Organization. Months of very many events are better repaired in a quiet hour.

It also compares the ledger of every trading account with its cash, positions, orders, fills and settlements. Nothing of
that is ever repaired here: money is set right by an entry that says why.

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service.

Exit status: 0 no drift is left and the ledger agrees, 1 something differs, 2 the comparison could not be made.`;

/** Of each rule of the ledger. */
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
  if (!json) console.log(`${driftText(found)}\n${ledgerText(ledger)}`);
  const repaired = isRepairing ? await repair(db, systemClock, { orgId }) : undefined;
  const left = isRepairing ? await compare(db.orm, { orgId }) : found;
  if (json) console.log(driftJson(found, repaired, { ledger: ledgerJson(ledger) }));
  else if (repaired) console.log(`${repairText(repaired)}\n${driftText(left)}`);
  return hasDrift(left) || ledger.length > 0 ? 1 : 0;
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
