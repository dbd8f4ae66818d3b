import { readOrderGroup } from './answer.js';
import { findLiveAccount, updateLiveAccount } from './queries.js';
import type { RecoverDeps } from './order-status.js';

type GroupDeps = Pick<RecoverDeps, 'db' | 'venue' | 'now' | 'log'>;

/** If the group cannot be read, orders are sent without one. */
async function findOrderGroup({ db, log }: GroupDeps, orgId: string): Promise<string | undefined> {
  try {
    return (await findLiveAccount(db.orm, orgId))?.orderGroupId ?? undefined;
  } catch (error) {
    log.warn({ err: error }, 'an order is sent without its order group because the group cannot be read');
    return undefined;
  }
}

/** If the venue has none. Until then orders are sent without a group. */
export async function ensureOrderGroup(deps: GroupDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const { venue, log } = deps;
  const group = await findOrderGroup(deps, orgId);
  try {
    if (group !== undefined && (await venue.hasOrderGroup(group, signal))) return;
    await setGroup(deps, orgId, null);
    await venue.takeTurn(signal);
    const made = readOrderGroup(await venue.createOrderGroup());
    if (made.kind === 'body') await setGroup(deps, orgId, made.data.order_group_id);
    else log.warn({ reason: made.reason }, 'the venue did not create an order group for resting orders');
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ err: error }, 'the order group for resting orders could not be requested from the venue');
  }
}

/** Orders that still rest afterwards are cancelled one by one. The venue refuses later orders in a deleted group. */
export async function dissolveOrderGroup(deps: GroupDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const group = await findOrderGroup(deps, orgId);
  if (group === undefined) return;
  await setGroup(deps, orgId, null);
  try {
    await deps.venue.takeTurn(signal);
    const { status } = await deps.venue.deleteOrderGroup(group);
    deps.log.info({ status }, 'requested the cancellation of all resting orders at the venue');
  } catch (error) {
    deps.log.warn({ err: error }, 'the resting orders at the venue could not be cancelled with one request');
  }
}

const setGroup = ({ db, now }: GroupDeps, orgId: string, orderGroupId: string | null): Promise<void> =>
  updateLiveAccount(db.orm, orgId, { orderGroupId, updatedAt: new Date(now()) });
