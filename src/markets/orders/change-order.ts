import { confirmAuthority } from '../../accounts/audit/audit.js';
import { AppError, found } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import type { OrderInput } from '../ledger/order-input.js';
import { isOpen } from '../ledger/orders-table.js';
import { lockAccount } from '../ledger/queries.js';
import { addCounts, subtractCounts } from '../market/contracts.js';
import {
  describeMissed,
  mayReplace,
  reserveAfter,
  toTrade,
  type LiveExecutor,
  type OrderChange,
  type Trade,
} from './order.js';
import { previewOrder } from './preview.js';
import { findTrade, writeExecution, type OrderRow } from './queries.js';
import { askVenue, markCancelled, type RestingOrders } from './resting.js';
import { invalid } from './tradable.js';
import type { TransactionDeps } from './transaction.js';

interface ChangeOrderDeps extends Pick<Context, 'db' | 'clock' | 'log'> {
  live: LiveExecutor | undefined;
  resting: Pick<RestingOrders, 'advance'>;
  inTurn: <T>(account: Pick<OrderRow, 'orgId' | 'mode'>, work: () => Promise<T>) => Promise<T>;
}

const remainingOf = ({ status, contracts, filledContracts }: OrderRow): number =>
  isOpen(status) ? subtractCounts(contracts, filledContracts) : 0;

const missed = (order: OrderRow) => new AppError('invalid_request', describeMissed(order));

/** Under the account's lock, only one of two changes finds the order as its author saw it. */
function assertAsSeen(order: OrderRow, filled: number): void {
  if (!mayReplace(order) || order.filledContracts !== filled) throw missed(order);
}

function requireLive(live: LiveExecutor | undefined): LiveExecutor {
  if (live) return live;
  throw new AppError('unavailable', 'Live trading is off on this server, so it cannot reach the order.');
}

export function createOrderChanges({ db, clock, log, live, resting, inTurn }: ChangeOrderDeps) {
  async function find(orgId: string, id: string): Promise<Trade> {
    const { order, fills } = found(await findTrade(db.orm, orgId, { id }), 'There is no such trade.');
    return toTrade(order, fills);
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

  async function cancel(change: OrderChange & { filled?: number }): Promise<Trade> {
    const { orgId, id, filled } = change;
    const { mode, ticker } = await find(orgId, id);
    const order = await decide(change, mode, async (tx, order, at) => {
      if (filled !== undefined) assertAsSeen(order, filled);
      return isOpen(order.status) && order.cancelRequestedAt === null
        ? markCancelled(tx, order, { at, reason: 'Cancelled on request.' })
        : order;
    });
    if (order.status === 'resting' && mode === 'paper') await resting.advance(orgId, ticker);
    // A pending order is cancelled as soon as it rests in the book.
    if (order.status === 'resting' && mode === 'live')
      await askVenue({ db, clock, log }, order, (one) => requireLive(live).cancel(one));
    return find(orgId, id);
  }

  async function decrease({ remaining, ...change }: OrderChange & { remaining: number }): Promise<Trade> {
    if (remaining === 0) return cancel(change);
    const { orgId, id } = change;
    const { mode, ticker, status } = await find(orgId, id);
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
    return find(orgId, id);
  }

  /** Cancels the order that a paper order replaces, unless the new one would be refused. */
  async function makeRoom(input: OrderInput, deps: TransactionDeps): Promise<void> {
    const { orgId, ticker, by, replaces } = input;
    if (!replaces) return;
    // Prints up to now may have filled it.
    await resting.advance(orgId, ticker);
    assertAsSeen(await find(orgId, replaces.id), replaces.filled);
    const { refusal } = await previewOrder(db.orm, { ...input, mode: 'paper' }, deps);
    if (refusal) throw refusal.error;
    const old = await cancel({ orgId, by, ...replaces });
    if (isOpen(old.status) || old.filledContracts !== replaces.filled) throw missed(old);
  }

  return { cancel, decrease, makeRoom };
}
