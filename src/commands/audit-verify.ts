import { Command, Option } from 'commander';
import { exportHeads } from '../accounts/audit/export-heads.js';
import { jsonWriter, NotedHeadsError, readNotedHeads, textWriter } from '../accounts/audit/verify-report.js';
import { verifyChains } from '../accounts/audit/verify.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { formatCount, formatDecimal } from '../core/pages/format.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';
import { createProgress } from './kit/progress.js';

const help = `
Each row of an Organization's audit log holds a number and the SHA-256 of itself and of the row before it. This goes
along every chain and names each row that was changed, removed, inserted or moved, and an end that was cut off. It prints
the head of each chain: Organization, id, number and hash of the last row. It may run while the service does: all is read in
one snapshot. The embedded database has room for one process, so stop the service first there.

What it proves: the rows are the ones that were written, unless all later hashes were computed anew. Nothing in the
database can exclude that: a person who may write to all of it can make another history that fits together, or shorten
it. So keep the heads where the database's administrators cannot write, and compare:

  npm run --silent audit:verify -- --json > heads-2026-01-31.json
  npm run audit:verify -- --expect heads-2026-01-31.json

Then every row up to the recorded heads is proven to be the one of that day. It does not prove that a row told the truth
when it was written, that nothing is missing after the last head that was kept, or anything of rows from before there were
chains: those are only counted. The operator's own log, of products, Users and signing in, is the chain (operator).

--export does both at once: it verifies, compares with the heads in the file if there is one, and puts the new heads in their place;
or it sends them to a URL with PUT. The service does the same on a schedule: AUDIT_EXPORT, AUDIT_EXPORT_SCHEDULE.

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service.

Exit status: 0 every chain is intact, 1 one is broken, 2 they could not be checked.`;

interface Flags {
  org?: string;
  json?: boolean;
  expect?: string;
  export?: string;
}

/** Fewer rows are checked before a progress bar would appear. */
const BAR_FROM_ROWS = 20_000;

async function verify(
  db: MaintenanceDatabase,
  { org, json, expect, export: target }: Flags,
): Promise<number> {
  if (target !== undefined) {
    const { isIntact, chains } = await exportHeads(db.orm, target);
    if (isIntact) console.log(`Intact: the heads of ${formatCount(chains, 'chain')} were exported.`);
    else
      console.error(
        'audit:verify: a chain is broken, and nothing was exported. Run it without --export to see which.',
      );
    return isIntact ? 0 : 1;
  }
  const orgId = await organizationFlag(db, org);
  const noted = expect === undefined ? undefined : await readNotedHeads(expect);
  const progress = createProgress(process.stderr);
  const writer = (json ? jsonWriter : textWriter)((line) => {
    progress.clear();
    console.log(line);
  });
  try {
    const onProgress = (done: number, total: number) => {
      if (total < BAR_FROM_ROWS) return;
      progress.show(done / total, `${formatDecimal(Math.min(done, total))} of ${formatCount(total, 'row')}`);
    };
    await verifyChains(db.orm, (report) => writer.add(report), { orgId, noted, onProgress });
  } finally {
    progress.stop();
  }
  return writer.end() ? 0 : 1;
}

await runMaintenance<Flags>({
  command: new Command('audit:verify')
    .description('Verifies that the audit log is as it was written.')
    .option('--org <slug>', 'one Organization only')
    .option('--expect <file>', 'compare with the heads that an earlier run printed with --json')
    .addOption(
      new Option('--export <file or URL>', 'write the heads of chains that are intact').conflicts([
        'org',
        'expect',
        'json',
      ]),
    )
    .option('--json', 'print the result as JSON, to be kept for --expect')
    .addHelpText('after', help),
  work: verify,
  explain: (error) => (error instanceof NotedHeadsError ? error.message : undefined),
});
