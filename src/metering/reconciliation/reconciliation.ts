import type { Reconciliation } from '../../core/db/reconciliation.js';
import { formatCount } from '../../core/pages/format.js';
import { sumArchives } from '../archive/queries.js';
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

Each settled reservation must have its event. A missing event is reported and never repaired, because it was never counted.`;

/** Totals and hours against their events. */
export const reconciliation: Reconciliation = {
  subject: 'usage totals with their events',
  help,
  async compare({ db, clock, orgId }) {
    const found = await compare(db.orm, { orgId });
    const stripe = await compareStripe(db.orm, clock, orgId);
    const { files, events } = await sumArchives(db.orm, orgId);
    const archived =
      files === 0
        ? ''
        : `${formatCount(events, 'event')} in ${formatCount(files, 'file')} of archived months are included in the recorded sums.\n`;
    const comparison = {
      text: archived + driftText(found) + stripe.text,
      json: { ...driftJson(found), ...stripe.json },
      isEqual: isEqual(found) && stripe.isEqual,
    };
    if (!hasDrift(found)) return comparison;
    return {
      ...comparison,
      async repair() {
        const repaired = await repair(db, clock, { orgId });
        const left = await compare(db.orm, { orgId });
        return {
          text: `${repairText(repaired)}\n${driftText(left)}`,
          json: { ...driftJson(found), ...stripe.json, repaired },
          isEqual: isEqual(left) && stripe.isEqual,
        };
      },
    };
  },
};

const isEqual = (report: DriftReport): boolean => !hasDrift(report) && report.settlements.length === 0;
