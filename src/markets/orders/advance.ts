import { byService, confirmAuthority } from '../../accounts/audit/audit.js';
import type { Orm } from '../../core/db/client.js';
import { newId } from '../../core/ids.js';
import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { bookFills, type Position } from '../ledger/positions.js';
import { findPosition, lockAccount, type Account } from '../ledger/queries.js';
import { subtractCounts, sumCounts } from '../market/contracts.js';
import { chargeFill } from '../market/fees.js';
import type { Micros } from '../market/money.js';
import { readKnownFacts } from '../risk/gate.js';
import type { Snapshot, SnapshotStore } from '../snapshot/snapshot.js';
import { findBarrier, findCause } from './cancel-causes.js';
import { findNearExtreme } from '../signals/near-extreme.js';
import {
  listFills,
  listResting,
  writeExecution,
  type FillRow,
  type OrderRow,
  type WrittenFill,
} from './queries.js';
import {
  advanceQueue,
  bidOf,
  type QueueStep,
  type KnownPrints,
  type QueuePlace,
  type QueuedOrder,
  type ShownBook,
} from './queue.js';
import { EXPIRED, feeRuleOfOrder, finalStatus, reserveAfter } from './order.js';
import { notifyFilled } from './trade.js';

export interface MarketNews {
  snapshots: SnapshotStore;
  /** Undefined if the venue could not be read: nothing fills then, and no order ends that an unread print may fill. */
  known: KnownPrints | undefined;
  shown: ShownBook | undefined;
  isChecking: boolean;
  at: Date;
}

interface Ending {
  at: Date;
  reason: string;
}

/** Longest time that an order stays open past its end because earlier prints are still unknown. */
const LONGEST_WAIT_MS = HOUR_MS;
/** Maximum lag of an unchanged order's stored watermark; well within the period that one read of prints covers. */
const WRITTEN_EVERY_MS = 15 * MINUTE_MS;

/**
 * Advances an account's resting paper orders in one market up to now, inside the transaction `orm`: fills them from new
 * prints and ends those that are due. The watermark is stored together with the fills, so a print cannot count twice
 * after a crash.
 * @returns the number of orders that filled, at least in part, or ended
 */
export async function advanceOrders(orm: Orm, orgId: string, ticker: string, news: MarketNews) {
  const account: Account = { orgId, mode: 'paper' };
  const { at, known } = news;
  const { current } = news.snapshots;
  let cash = (await lockAccount(orm, account))!;
  const orders = await listResting(orm, account, ticker);
  if (orders.length === 0) return 0;
  const tx = await confirmAuthority(orm, byService, at);
  let position = await findPosition(tx, account, ticker);
  const facts = news.isChecking ? await readKnownFacts(tx, { orgId, mode: 'paper', at }) : undefined;
  const checked = orders.map((order) => {
    const barrier = news.isChecking ? findBarrier(order, facts, position) : undefined;
    const cause =
      barrier ?? (news.isChecking ? findCause(order, { ...news, nowMs: at.getTime() }) : undefined);
    return cause === undefined || order.cancelRequestedAt !== null
      ? order
      : { ...order, cancelRequestedAt: at, cancelReason: cause };
  });
  const endings = new Map(checked.map((order) => [order.id, endingOf(order, news)]));
  const queued = checked.map((order) => toQueued(order, endings.get(order.id)));
  const advanced = known ? advanceQueue(queued, known, news.shown) : undefined;
  const earlier = advanced?.fills.length
    ? await listFills(
        tx,
        orgId,
        checked.map(({ id }) => id),
      )
    : [];
  let changed = 0;
  for (const [i, order] of checked.entries()) {
    const booked = bookPrints(order, advanced, { position, cash, earlier, at, current });
    const next = conclude(booked, endings.get(order.id), advanced?.places.get(order.id), news);
    if (booked.fills.length === 0 && !isWorthWriting(orders[i]!, next)) continue;
    const { fills } = booked;
    ({ position } = booked);
    cash += booked.cashChange;
    await writeExecution(tx, { order: next, isNew: false, filled: booked, at });
    await notifyFilled(tx, next, fills, at);
    if (fills.length > 0 || next.finishedAt) changed++;
  }
  return changed;
}

function endingOf(order: OrderRow, { snapshots: { current }, at }: MarketNews): Ending | undefined {
  const market = current?.markets.get(order.ticker);
  const endings: (Ending | undefined)[] = [
    order.cancelRequestedAt
      ? { at: order.cancelRequestedAt, reason: order.cancelReason ?? 'Cancelled.' }
      : undefined,
    order.expiresAt && order.expiresAt <= at ? { at: order.expiresAt, reason: EXPIRED } : undefined,
    market && market.closeTime <= at
      ? { at: market.closeTime, reason: 'The market closed before the order was filled completely.' }
      : undefined,
  ];
  return endings.filter((one) => one !== undefined).toSorted((a, b) => a.at.getTime() - b.at.getTime())[0];
}

const toQueued = (order: OrderRow, ending: Ending | undefined): QueuedOrder => ({
  id: order.id,
  bid: bidOf(order),
  remaining: subtractCounts(order.contracts, order.filledContracts),
  queueAhead: order.queueAhead ?? Infinity,
  seen: order.printsSeen ?? { at: order.createdAt.toISOString(), counted: {} },
  endsAt: ending?.at ?? null,
});

interface Held {
  position: Position | undefined;
  cash: Micros;
  earlier: readonly FillRow[];
  at: Date;
  current: Snapshot | undefined;
}

interface BookedPrints {
  order: OrderRow;
  fills: WrittenFill[];
  position: Position | undefined;
  cashChange: Micros;
  failure?: string;
}

function bookPrints(order: OrderRow, advanced: QueueStep | undefined, held: Held): BookedPrints {
  const { position, at, current } = held;
  const market = current?.markets.get(order.ticker);
  const { side, action, limitPrice: price } = order;
  const prints = (advanced?.fills ?? []).filter(({ orderId }) => orderId === order.id);
  const nothing = { order, fills: [], position, cashChange: 0n };
  if (prints.length === 0) return nothing;
  let account = { exact: order.exact, booked: order.booked };
  const charged = prints.map(({ contracts }) => {
    const charge = chargeFill(feeRuleOfOrder(order), account, { action, price, contracts, isMaker: true });
    ({ account } = charge);
    return { side, action, price, contracts, fee: charge.fee };
  });
  const filled = sumCounts(charged.map(({ contracts }) => contracts));
  // A settlement or correction booked in the meantime may have used up the reserved contracts or cash.
  if (action === 'sell' && (position?.side !== side || position.contracts < filled))
    return { ...nothing, failure: 'Cancelled because the contracts to sell are no longer held.' };
  const booked = bookFills(position, charged);
  if (held.cash + booked.cashChange < 0n)
    return { ...nothing, failure: 'Cancelled because the account no longer has enough cash.' };
  const before = held.earlier.filter(({ orderId }) => orderId === order.id).length;
  const fills = charged.map(({ contracts, fee }, i): WrittenFill => {
    const printedAt = prints[i]!.print.at;
    const near = current && market && findNearExtreme(current, market, printedAt.getTime());
    return {
      n: before + i + 1,
      price,
      contracts,
      fee,
      filledAt: printedAt < at ? printedAt : at,
      venueFillId: null,
      nearExtreme: near !== undefined,
      ledgerId: newId(at.getTime()),
      postings: booked.postings[i]!,
    };
  });
  const next: OrderRow = {
    ...order,
    ...account,
    filledContracts: sumCounts([order.filledContracts, filled]),
    fees: order.fees + charged.reduce((sum, { fee }) => sum + fee, 0n),
    reserved: reserveAfter(order, filled),
  };
  return { order: next, fills, position: booked.position, cashChange: booked.cashChange };
}

function conclude(
  { order, failure }: BookedPrints,
  ending: Ending | undefined,
  place: QueuePlace | undefined,
  { known, at }: MarketNews,
): OrderRow {
  const isFilled = order.filledContracts === order.contracts;
  const isOver =
    ending !== undefined &&
    ((known && known.through >= ending.at) || at.getTime() - ending.at.getTime() > LONGEST_WAIT_MS);
  if (isFilled || isOver || failure !== undefined)
    return {
      ...order,
      status: finalStatus(order),
      reason: isFilled ? null : (failure ?? ending!.reason),
      reserved: 0n,
      queueAhead: null,
      finishedAt: at,
    };
  return {
    ...order,
    ...(place && {
      queueAhead: place.queueAhead === Infinity ? null : place.queueAhead,
      printsSeen: place.seen,
    }),
    reason: ending ? `${ending.reason} Earlier trades are still being read.` : null,
  };
}

/** Queue positions rarely change; the watermark, which each pass changes, is stored every `WRITTEN_EVERY_MS`. */
function isWorthWriting(before: OrderRow, next: OrderRow): boolean {
  const seenMs = (order: OrderRow) => Date.parse(order.printsSeen?.at ?? '');
  return (
    next.status !== before.status ||
    next.reason !== before.reason ||
    next.cancelRequestedAt !== before.cancelRequestedAt ||
    next.queueAhead !== before.queueAhead ||
    Object.keys(next.printsSeen?.counted ?? {}).some((id) => !before.printsSeen?.counted[id]) ||
    !(seenMs(next) - seenMs(before) < WRITTEN_EVERY_MS)
  );
}
