import { confirmAuthority } from '../../accounts/audit/audit.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { isOpen } from '../ledger/orders-table.js';
import { lockAccount } from '../ledger/queries.js';
import { addCounts, subtractCounts } from '../market/contracts.js';
import { reserveAfter, toTrade, type LiveExecutor, type OrderChange, type Trade } from './order.js';
import { findTrade, writeExecution, type OrderRow } from './queries.js';
import { askVenue, markCancelled, type RestingOrders } from './resting.js';
import { invalid } from './tradable.js';

interface ChangeOrderDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  live: LiveExecutor | undefined;
  resting: Pick<RestingOrders, 'advance'>;
  inTurn: <T>(account: Pick<OrderRow, 'orgId' | 'mode'>, work: () => Promise<T>) => Promise<T>;
}

const remainingOf = ({ status, contracts, filledContracts }: OrderRow): number =>
  isOpen(status) ? subtractCounts(contracts, filledContracts) : 0;

function requireLive(live: LiveExecutor | undefined): LiveExecutor {
  if (live) return live;
  throw new AppError('unavailable', 'Live trading is off on this server, so it cannot reach the order.');
}

export function createOrderChanges({ db, clock, log, live, resting, inTurn }: ChangeOrderDeps) {
  async function find(orgId: string, id: string) {
    const found = await findTrade(db.orm, orgId, { id });
    if (!found) throw new AppError('not_found', 'There is no such trade.');
    return found;
  }

  const decide = (
    { orgId, id, by }: OrderChange,
    mode: OrderRow['mode'],
    work: (tx: Parameters<typeof writeExecution>[0], order: OrderRow, at: Date) => Promise<OrderRow>,
  ): Promise<OrderRow> =>
    inTurn({ orgId, mode }, () =>
      db.transaction(async (orm) => {
        await lockAccount(orm, { orgId, mode });
        const at = new Date(clock.now());
        const tx = await confirmAuthority(orm, by, at);
        return work(tx, (await findTrade(tx, orgId, { id }))!.order, at);
      }),
    );

  async function cancel(change: OrderChange): Promise<Trade> {
    const { orgId, id } = change;
    const { mode, ticker } = (await find(orgId, id)).order;
    const order = await decide(change, mode, async (tx, order, at) =>
      isOpen(order.status) && order.cancelRequestedAt === null
        ? markCancelled(tx, order, { at, reason: 'Cancelled on request.' })
        : order,
    );
    if (order.status === 'resting' && mode === 'paper') await resting.advance(orgId, ticker);
    // A pending order is cancelled as soon as it rests in the book.
    if (order.status === 'resting' && mode === 'live')
      await askVenue({ db, clock, log }, order, (one) => requireLive(live).cancel(one));
    const { order: now, fills } = await find(orgId, id);
    return toTrade(now, fills);
  }

  async function decrease({ remaining, ...change }: OrderChange & { remaining: number }): Promise<Trade> {
    if (remaining === 0) return cancel(change);
    const { orgId, id } = change;
    const { mode, ticker, status } = (await find(orgId, id)).order;
    // Prints up to now still count toward the order at its old size.
    if (status === 'resting' && mode === 'paper') await resting.advance(orgId, ticker);
    const order = await decide(change, mode, async (tx, order, at) => {
      const most = remainingOf(order);
      if (remaining > most)
        throw invalid('/remainingContracts', `must be at most ${most}, the number that can still be filled`);
      if (remaining === most || (mode === 'live' && order.status !== 'resting')) return order;
      const contracts = addCounts(order.filledContracts, remaining);
      const next: OrderRow =
        mode === 'live'
          ? { ...order, unknownSince: order.unknownSince ?? at }
          : { ...order, contracts, reserved: reserveAfter(order, 0, contracts) };
      await writeExecution(tx, { order: next, isNew: false, at });
      return next;
    });
    if (mode === 'live' && remaining < remainingOf(order)) {
      if (order.status === 'pending')
        throw new AppError('unavailable', 'The venue has not confirmed yet that the order is in its book.', {
          retryAfterSeconds: 5,
        });
      await askVenue({ db, clock, log }, order, (one) => requireLive(live).decrease(one, remaining));
    }
    const { order: now, fills } = await find(orgId, id);
    return toTrade(now, fills);
  }

  return { cancel, decrease };
}
