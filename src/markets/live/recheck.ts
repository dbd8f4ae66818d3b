import { keyError } from '../../accounts/api-keys/bearer-key.js';
import { isManager } from '../../accounts/organizations/table.js';
import { parseCount } from '../market/contracts.js';
import type { LiveOrder, VenueOutcome } from '../orders/order.js';
import { checkAccess, checkSwitches, withoutName } from '../risk/checks.js';
import { toPermissions } from '../risk/facts.js';
import { lockAccount } from '../ledger/queries.js';
import { listUnresolved, markSent, type UnresolvedOrder } from '../orders/queries.js';
import { selectGrounds, SENDING_SCOPE, type StoredGrounds } from './queries.js';
import type { ReconcileDeps } from './reconcile.js';

/** Ready to send, or the outcome of an order that may not be sent. */
export type Recheck = { kind: 'ready'; orderGroupId: string | null } | VenueOutcome;

export const notSent = (why: string): VenueOutcome => ({ kind: 'rejected', reason: `not sent: ${why}` });

/** After the wait for the venue's rate limit. If the data cannot be read, the order is not sent. */
export async function recheck(
  { db, now, log, status }: Pick<ReconcileDeps, 'db' | 'now' | 'log' | 'status'>,
  order: LiveOrder,
): Promise<Recheck> {
  try {
    const grounds = await selectGrounds(db.orm, order, new Date(now()));
    if (!grounds) return notSent('it is not recorded');
    if (grounds.isCancelRequested) return { kind: 'done', venueOrderId: null, fills: [], reason: null };
    const closed = status.report.reason;
    const refusal =
      closed === null ? findRefusal(order, grounds) : `live trading was closed meanwhile: ${closed}`;
    return refusal === undefined ? { kind: 'ready', orderGroupId: grounds.orderGroupId } : notSent(refusal);
  } catch (error) {
    log.error(
      { err: error, orderId: order.id },
      'an order is not sent because its permissions cannot be read',
    );
    return notSent("the trading switches and its author's permissions cannot be read");
  }
}

/**
 * Returns another order in the market whose outcome is unknown; undefined if this one was marked as sent. Instances
 * decide one at a time under the account's lock.
 */
export function claim({ db, now }: Pick<ReconcileDeps, 'db' | 'now'>, order: LiveOrder) {
  const { orgId, id, ticker } = order;
  return db.transaction(async (tx): Promise<UnresolvedOrder | undefined> => {
    await lockAccount(tx, { orgId, mode: 'live' });
    const at = new Date(now());
    const [first] = await listUnresolved(tx, orgId, { ticker, at, limit: 1 });
    if (!first) await markSent(tx, { orgId, id }, at);
    return first;
  });
}

/** @throws RangeError for inconsistent records */
function findRefusal(order: LiveOrder, grounds: StoredGrounds): string | undefined {
  const closable = parseCount(grounds.closable);
  const asked = {
    input: { order },
    facts: toPermissions(grounds),
    closable,
    isReducing: order.contracts <= closable,
  };
  const refusal = checkSwitches(asked) ?? checkAccess(asked);
  return refusal ? withoutName(refusal) : findAuthorProblem(grounds);
}

function findAuthorProblem({ keyProblem, isOfPerson, isArchived, role }: StoredGrounds): string | undefined {
  if (!isOfPerson) return keyError(keyProblem, SENDING_SCOPE)?.message;
  if (isArchived) return 'The Organization was archived.';
  if (role === null) return 'The person who placed it no longer belongs to the Organization.';
  return isManager(role) ? undefined : `The person who placed it is ${role} now, which may not trade.`;
}
