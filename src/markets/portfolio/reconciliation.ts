import type { Reconciliation } from '../../core/db/reconciliation.js';
import { checkLedger, ledgerJson, ledgerText } from './ledger-check.js';

/** Per rule. */
const MAX_PROBLEMS = 1000;

export const reconciliation: Reconciliation = {
  subject: 'trading accounts with their ledgers',
  help: `It also compares the ledger of every trading account with its cash, positions, orders, fills and settlements. --fix never
changes these: money is corrected by a ledger entry with a reason.`,
  async compare({ db, orgId }) {
    const problems = await checkLedger(db.orm, { orgId }, MAX_PROBLEMS);
    return {
      text: ledgerText(problems),
      json: { ledger: ledgerJson(problems) },
      isEqual: problems.length === 0,
    };
  },
};
