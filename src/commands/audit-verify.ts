import { Command, Option } from 'commander';
import { exportHeads } from '../accounts/audit/export-heads.js';
import {
  areIntact,
  NotedHeadsError,
  readNotedHeads,
  toHeads,
  toText,
} from '../accounts/audit/verify-report.js';
import { verifyChains } from '../accounts/audit/verify.js';
import type { MaintenanceDatabase } from '../core/db/maintenance.js';
import { formatCount, formatDecimal } from '../core/pages/format.js';
import { organizationFlag, runMaintenance } from './kit/maintenance.js';
import { createProgress } from './kit/progress.js';

const help = `
Each row of an Organization's audit log has a number and a SHA-256 hash over itself and the previous row's hash. This command
checks every chain. It reports each row that does not match its hash, each gap, and an end that is not the recorded one. It prints
the head of each chain: Organization, id, number and hash of the last row. It can run beside the service, because it reads one
snapshot; with the embedded database, requests wait meanwhile.

An intact chain proves that no row was altered, unless all later hashes were recomputed. The database itself cannot rule that
out: someone with write access to all of it can forge a consistent history, or cut off its end. Keep the heads where the
database's administrators cannot write, and compare:

  npm run --silent audit:verify -- --json > heads-2026-01-31.json
  npm run audit:verify -- --expect heads-2026-01-31.json

This proves that every row up to the recorded heads is unchanged since that day. It does not prove that a row was true when it
was written, or that no row is missing after the last recorded head. Rows from before the chains began are only counted. The
operator's own log (products, Users, sign-ins) is the chain named (operator).

--export does both: it verifies, compares with the heads in the file if it exists, and replaces them with the new heads. With a
URL, it sends them by PUT. The service does the same on a schedule: AUDIT_EXPORT, AUDIT_EXPORT_SCHEDULE.

Environment: DATABASE_URL, or DATA_DIR for the embedded database, as for the service.

Exit status: 0 every chain is intact, 1 a chain is broken, 2 the check failed.`;

interface Flags {
  org?: string;
  json?: boolean;
  expect?: string;
  export?: string;
}

/** Smaller checks finish before a bar would be useful. */
const BAR_FROM_ROWS = 20_000;

async function verify(db: MaintenanceDatabase, { org, json, expect, export: target }: Flags) {
  if (target !== undefined) {
    const { isIntact, chains } = await exportHeads(db.orm, target);
    if (isIntact) console.log(`Intact: the heads of ${formatCount(chains, 'chain')} were exported.`);
    else
      console.error(
        'audit:verify: a chain is broken; nothing was exported. Run without --export to see which.',
      );
    return isIntact ? 0 : 1;
  }
  const orgId = await organizationFlag(db, org);
  const noted = expect === undefined ? undefined : await readNotedHeads(expect);
  const progress = createProgress(process.stderr);
  const onProgress = (done: number, total: number) => {
    if (total < BAR_FROM_ROWS) return;
    progress.show(done / total, `${formatDecimal(Math.min(done, total))} of ${formatCount(total, 'row')}`);
  };
  const reports = await verifyChains(db.orm, { orgId, noted, onProgress }).finally(() => progress.stop());
  console.log(json ? toHeads(reports) : toText(reports));
  return areIntact(reports) ? 0 : 1;
}

await runMaintenance<Flags>({
  command: new Command('audit:verify')
    .description('Verifies that the audit log was not altered.')
    .option('--org <slug>', 'one Organization only')
    .option('--expect <file>', 'compare with the heads that an earlier run printed with --json')
    .addOption(
      new Option('--export <file or URL>', 'export the heads if every chain is intact').conflicts([
        'org',
        'expect',
        'json',
      ]),
    )
    .option('--json', 'print the result as JSON, for a later --expect')
    .addHelpText('after', help),
  throughService: true,
  work: verify,
  explain: (error) => (error instanceof NotedHeadsError ? error.message : undefined),
});
