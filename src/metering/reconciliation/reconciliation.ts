import type { Reconciliation } from '../../core/db/reconciliation.js';
import { formatCount } from '../../core/pages/format.js';
import { compareCredits, creditDriftJson, creditDriftText } from './credits.js';
import { sumArchives } from './drift.js';
import { driftJson, driftText, repairText } from './drift-report.js';
import { compareStripe } from '../stripe/comparison.js';
import { compare, hasDrift, repair, type DriftReport } from './reconcile.js';

const help = `Monthly totals and hourly sums are updated as events are recorded. This command adds up the events again and prints
every total and hour that differs. It can run beside the service, because it reads one snapshot. The embedded
database allows one process, so stop the service first.

--fix finds the months that differ. It then blocks ingestion while it recomputes and corrects them in one transaction,
with an audit row for each Organization. Repair months with very many events in a quiet hour.

Events that npm run archive moved into files count too: a total is the sum of recorded and archived events. The hours of
archived months are only in the files; npm run archive -- --verify compares them.

If usage is sent to Stripe, every hour is compared with what the meter events carry. Late events can differ for an hour.
Meter events whose outcome is unknown need a decision (npm run stripe).

Credits: what each product burned must be the quantity times the price of its events and corrections, and what is left of
each grant and each overdraft must be what the ledger says. --fix never changes credits.

Each settled reservation must have its event. A missing event is reported and never repaired, because it was never counted.`;

export const reconciliation: Reconciliation = {
  subject: 'usage totals with their events',
  help,
  async compare({ db, clock, orgId }) {
    const found = await compare(db.orm, { orgId });
    const stripe = await compareStripe(db.orm, clock, orgId);
    const credits = await compareCredits(db.orm, orgId);
    const more = { ...creditDriftJson(credits), ...stripe.json };
    const isRestEqual = credits.length === 0 && stripe.isEqual;
    const { files, events } = await sumArchives(db.orm, orgId);
    const archived =
      files === 0
        ? ''
        : `${formatCount(events, 'event')} in ${formatCount(files, 'file')} of archived months are included in the recorded sums.\n`;
    const comparison = {
      text: archived + driftText(found) + creditDriftText(credits) + stripe.text,
      json: { ...driftJson(found), ...more },
      isEqual: isEqual(found) && isRestEqual,
    };
    if (!hasDrift(found)) return comparison;
    return {
      ...comparison,
      async repair() {
        const repaired = await repair(db, clock, { orgId });
        const left = await compare(db.orm, { orgId });
        return {
          text: `${repairText(repaired)}\n${driftText(left)}`,
          json: { ...driftJson(found), ...more, repaired },
          isEqual: isEqual(left) && isRestEqual,
        };
      },
    };
  },
};

const isEqual = (report: DriftReport): boolean => !hasDrift(report) && report.settlements.length === 0;
