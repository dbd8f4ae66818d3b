import { byService, confirmAuthority } from '../../accounts/audit/audit.js';
import type { Orm } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { findPosition, lockAccount } from '../ledger/queries.js';
import { applyVenueFill, bookFills } from '../ledger/positions.js';
import {
  EXPIRED,
  finalStatus,
  reserveAfter,
  SAFE_MS,
  toTrade,
  type Trade,
  type VenueFill,
  type VenueOutcome,
} from './order.js';
import { findTrade, writeExecution, type FillRow, type OrderRow, type WrittenFill } from './queries.js';
import { notifyFilled } from './trade.js';
import { isOpen } from '../ledger/orders-table.js';
import { subtractCounts, sumCounts, valueOf } from '../market/contracts.js';

/**
 * Books an outcome of a live order. Idempotent: fills are matched by the venue's id, and a final order never becomes
 * pending or rejected again. A fill that is reported later is still booked.
 * @param isOfChange true if the outcome answers a cancellation or a decrease
 * @throws RangeError if the order does not exist or the venue reports more fills than were ordered; in that case,
 * nothing is written
 */
export function recordOutcome(
  orm: Orm,
  orgId: string,
  orderId: string,
  outcome: VenueOutcome,
  at: Date,
  { isOfChange = false }: { isOfChange?: boolean } = {},
): Promise<Trade> {
  return orm.transaction(async (tx) => {
    await lockAccount(tx, { orgId, mode: 'live' });
    const found = await findTrade(tx, orgId, { id: orderId });
    if (!found || found.order.mode !== 'live') throw new RangeError(`There is no live order ${orderId}.`);
    const { order, fills } = found;
    const next = applyOutcome(order, fills, outcome, at, isOfChange);
    if (!next) return toTrade(order, fills);
    const position = await findPosition(tx, order, order.ticker);
    const booked = bookFills(
      position,
      next.fills.map((fill) => ({ ...fill, side: order.side, action: order.action })),
      applyVenueFill,
    );
    const written = next.fills.map((fill, i): WrittenFill => ({
      ...fill,
      n: fills.length + i + 1,
      nearExtreme: false,
      ledgerId: newId(at.getTime()),
      postings: booked.postings[i]!,
    }));
    await writeExecution(tx, {
      order: next.order,
      isNew: false,
      filled: { ...booked, fills: written },
      at,
    });
    await notifyFilled(await confirmAuthority(tx, byService, at), next.order, written, at);
    const added = written.map((fill) => ({ ...fill, balanceChange: fill.postings.cash }));
    return toTrade(next.order, [...fills, ...added]);
  });
}

function applyOutcome(
  order: OrderRow,
  known: readonly FillRow[],
  outcome: VenueOutcome,
  at: Date,
  isOfChange: boolean,
): { order: OrderRow; fills: VenueFill[] } | undefined {
  const isFinal = !isOpen(order.status);
  if (outcome.kind === 'done' || outcome.kind === 'resting') {
    const seen = new Set(known.map(({ venueFillId }) => venueFillId));
    const fills = outcome.fills.filter(({ venueFillId }) => !seen.has(venueFillId) && seen.add(venueFillId));
    if (isFinal && fills.length === 0) return undefined;
    const next = addFills(order, outcome, fills, at);
    if (next.status !== 'resting' || order.status !== 'resting') return { order: next, fills };
    // An unchanged order does not prove that a recent change request was lost; the request may still arrive.
    if (!isOfChange && mayStillChange(order, at))
      Object.assign(next, { reason: order.reason, unknownSince: order.unknownSince });
    const isSame = next.contracts === order.contracts && next.unknownSince === order.unknownSince;
    return isSame && fills.length === 0 ? undefined : { order: next, fills };
  }
  if (isFinal) return undefined;
  const { reason } = outcome;
  if (outcome.kind === 'unknown') {
    const sentAt = order.status === 'pending' ? order.sentAt : null;
    return { order: { ...order, reason, unknownSince: order.unknownSince ?? sentAt ?? at }, fills: [] };
  }
  const rejected = { status: 'rejected', reason, unknownSince: null, reserved: 0n, finishedAt: at } as const;
  return { order: { ...order, ...rejected }, fills: [] };
}

/** True if a request to change the order may still be in flight. */
export const mayStillChange = ({ unknownSince }: Pick<OrderRow, 'unknownSince'>, at: Date): boolean =>
  unknownSince !== null && at.getTime() - unknownSince.getTime() <= SAFE_MS;

function addFills(
  order: OrderRow,
  outcome: Extract<VenueOutcome, { kind: 'done' | 'resting' }>,
  fills: readonly VenueFill[],
  at: Date,
): OrderRow {
  const filledContracts = sumCounts([order.filledContracts, ...fills.map(({ contracts }) => contracts)]);
  if (filledContracts > order.contracts)
    throw new RangeError(
      `The venue reports ${filledContracts} filled contracts for order ${order.id}, which is for ${order.contracts}.`,
    );
  const wasOpen = isOpen(order.status);
  // A decrease never reduces an order below its filled contracts, and never applies to an order that has ended.
  const asked = wasOpen ? Math.min(outcome.contracts ?? order.contracts, order.contracts) : order.contracts;
  const contracts = Math.max(asked, filledContracts);
  const rests = outcome.kind === 'resting' && wasOpen && filledContracts < contracts;
  const sign = order.action === 'buy' ? -1n : 1n;
  const gross = fills.reduce((sum, fill) => sum + sign * valueOf(fill.price, fill.contracts), 0n);
  const fees = fills.reduce((sum, { fee }) => sum + fee, 0n);
  const newlyFilled = subtractCounts(filledContracts, order.filledContracts);
  return {
    ...order,
    ...(rests
      ? { status: 'resting', reason: null }
      : {
          status: finalStatus({ contracts, filledContracts }),
          reason: filledContracts === contracts ? null : reasonOfEnd(order, outcome, at),
        }),
    venueOrderId: outcome.venueOrderId ?? order.venueOrderId,
    contracts,
    filledContracts,
    exact: order.exact + gross - fees,
    booked: order.booked + gross - fees,
    fees: order.fees + fees,
    reserved: rests ? reserveAfter(order, newlyFilled, contracts) : 0n,
    unknownSince: null,
    finishedAt: rests ? null : (order.finishedAt ?? at),
  };
}

/** Our own cancellation or expiry takes precedence over the venue's reason. */
function reasonOfEnd(
  order: OrderRow,
  outcome: Extract<VenueOutcome, { kind: 'done' | 'resting' }>,
  at: Date,
): string | null {
  if (order.cancelReason !== null) return order.cancelReason;
  if (order.expiresAt && order.expiresAt <= at) return EXPIRED;
  return outcome.kind === 'done' ? outcome.reason : order.reason;
}
