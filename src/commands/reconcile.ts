import { Command } from 'commander';
import { systemClock } from '../core/time.js';
import { sqlState } from '../core/db/client.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { toJson } from '../core/http/json.js';
import { products } from '../products.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';

const parts = products.map(({ reconciliation }) => reconciliation);

const help = `
${parts.map((part) => part.help).join('\n\n')}

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service; --fix needs the role that owns the
tables.

Exit status: 0 no difference is left, 1 something differs, 2 the comparison failed.`;

interface Flags {
  org?: string;
  fix?: boolean;
  json?: boolean;
}

async function reconcile(db: MaintenanceDatabase, { org, fix, json }: Flags): Promise<number> {
  const scope = { db, clock: systemClock, orgId: await organizationFlag(db, org) };
  const found = [];
  for (const part of parts) found.push(await part.compare(scope));
  if (!json) for (const { text } of found) console.log(text);
  const left = [];
  for (const comparison of found) {
    const repaired = fix ? await comparison.repair?.() : undefined;
    if (repaired && !json) console.log(repaired.text);
    left.push(repaired ?? comparison);
  }
  if (json) console.log(toJson(Object.assign({}, ...left.map((comparison) => comparison.json))));
  return left.every(({ isEqual }) => isEqual) ? 0 : 1;
}

await runMaintenance<Flags>({
  command: new Command('reconcile')
    .description(`Compares ${parts.map(({ subject }) => subject).join(', and ')}.`)
    .option('--org <slug>', 'one Organization only')
    .option('--fix', 'set totals and hours that differ to the sums of their events')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help),
  throughService: true,
  work: reconcile,
  explain: (error) =>
    sqlState(error) === '55P03'
      ? 'the tables are held by another transaction; nothing was changed. Try again later.'
      : undefined,
});
