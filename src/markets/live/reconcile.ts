import { setTimeout as sleep } from 'node:timers/promises';
import { firstIdOf } from '../../core/ids.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../core/time.js';
import { findAccount, listHoldings } from '../ledger/queries.js';
import type { Orm } from '../../core/db/client.js';
import type { Lease } from '../../core/db/jobs.js';
import { parseCount, parseHundredths, subtractCounts } from '../market/contracts.js';
import { BALANCE_STEP } from '../market/money.js';
import { bookRounding, bookTransfers, openLiveAccount } from './book.js';
import { compareWithVenue, type AccountComparison } from './compare.js';
import {
  countFillsSinceAdjustment,
  findLiveAccount,
  listBookedTransfers,
  listHinted,
  listOrdersNamed,
  listOrdersSince,
  listOpenOrders,
  listSettledSince,
  readFingerprint,
  type LiveAccountRow,
  type LiveOrderRow,
} from './queries.js';
import type { OrderHint } from './account-stream.js';
import { ensureOrderGroup } from './order-group.js';
import { mayStillChange } from '../orders/record-outcome.js';
import { recoverOrders, type RecoverDeps } from './order-status.js';
import type { LiveStatus } from './report.js';
import { findGap, joinRows, requireWhole, type Rows } from '../venue/rows.js';
import type { ShardTransfer, VenueSettlement } from './wire.js';

const COMPARED_MS = DAY_MS;
/** Clock skew may put orders this near the start of the period outside the venue's list. */
const EDGE_MS = 5 * MINUTE_MS;
/** The venue may still show a position after we booked its settlement. */
const SETTLING_MS = 2 * HOUR_MS;
/** Clock skew, and the venue's transfer times in whole seconds. */
const TRANSFER_EDGE_MS = 5 * SECOND_MS;
const MAX_ORDERS = 20_000;
const MAX_POSITIONS = 5_000;
const MAX_PENDING = 200;
const MAX_RESTING = 1_000;
/** Per pass; each takes a few reads. The rest follow a few seconds later. */
const MAX_LOOKED_UP = 50;

/**
 * Undefined if an order was pending or something was booked during the reads.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function compareAccounts(
  { db: { orm }, venue, now }: Pick<ReconcileDeps, 'db' | 'venue' | 'now'>,
  orgId: string,
  signal: AbortSignal,
): Promise<AccountComparison | undefined> {
  const isQuiet = async () => (await listOpenOrders(orm, orgId, 'pending', 1)).length === 0;
  const fingerprint = await readFingerprint(orm, orgId);
  if (!(await isQuiet())) return undefined;
  const since = now() - COMPARED_MS;
  const sinceSeconds = Math.floor(since / 1000);
  const cash = await venue.readBalance(signal);
  const positions = await venue.listPositions(signal);
  const recentOrders = await venue.listOrders({ sinceSeconds }, signal);
  // The recent list omits older orders that still rest.
  const resting = await venue.listOrders({ status: 'resting' }, signal);
  const orders = [
    ...new Map([...recentOrders.rows, ...resting.rows].map((order) => [order.order_id, order])).values(),
  ];
  const fills = await venue.listFills({ sinceSeconds }, signal);
  const listed = await venue.listTransfers(signal);

  const account = await findLiveAccount(orm, orgId);
  const recent = await listOrdersSince(orm, orgId, firstIdOf(since + EDGE_MS), MAX_ORDERS);
  const names = orders.map(({ client_order_id: name }) => name);
  const named = await listOrdersNamed(orm, orgId, names);
  const openOrders = await listOpenOrders(orm, orgId, 'resting', MAX_RESTING);
  const held = await listHoldings(orm, { orgId, mode: 'live' }, MAX_POSITIONS);
  const shown = new Set(positions.rows.map(({ ticker }) => ticker));
  const gone = positions.cutOff ? [] : held.filter(({ ticker }) => !shown.has(ticker));
  const found: Rows<VenueSettlement>[] = [];
  for (const { ticker } of gone) found.push(await venue.listSettlements(ticker, signal));
  const settlements = joinRows(found);
  const transfers = account ? await chooseUnbooked(orm, account, listed.rows) : [];
  const settled = await listSettledSince(orm, orgId, new Date(now() - SETTLING_MS), MAX_POSITIONS);
  // A list that ended early names no order that is missing.
  const known = recentOrders.cutOff || resting.cutOff ? named : [...named, ...recent, ...openOrders];
  const ours = {
    cash: (await findAccount(orm, { orgId, mode: 'live' }))?.cash ?? 0n,
    positions: held,
    orders: [...new Map(known.map((order) => [order.id, order])).values()],
    expected: new Set(recent.map(({ clientOrderId }) => clientOrderId)),
    foreignPositions: account?.foreignPositions ?? {},
    accepted: account?.accepted ?? [],
    settled,
  };
  if ((await readFingerprint(orm, orgId)) !== fingerprint || !(await isQuiet())) return undefined;
  const lists = { positions, orders: recentOrders, 'resting orders': resting, fills, settlements };
  const gaps = Object.entries({ ...lists, transfers: listed }).map(([list, found]) => findGap(list, found));
  return {
    ...compareWithVenue(ours, {
      cash,
      positions: positions.rows,
      orders,
      fills: fills.rows,
      settlements: settlements.rows,
      transfers,
    }),
    gap: gaps.find((gap) => gap !== undefined),
    fingerprint,
    cashStep: cash.step,
    otherShards: cash.otherShards,
  };
}

/** The opening cash already includes transfers from before. */
async function chooseUnbooked(
  orm: Orm,
  { orgId, openedAt }: LiveAccountRow,
  listed: readonly ShardTransfer[],
): Promise<ShardTransfer[]> {
  const from = openedAt.getTime() - TRANSFER_EDGE_MS;
  const since = listed.filter(({ createdAt }) => createdAt.getTime() > from);
  const ids = since.map(({ id }) => id);
  const booked = await listBookedTransfers(orm, orgId, ids);
  return since.filter(({ id }) => !booked.has(id));
}

export interface ReconcileDeps extends RecoverDeps {
  status: LiveStatus;
  lease: Lease;
  /** This process is sending them; their outcomes will follow. */
  sending: ReadonlySet<string>;
  /** The venue's lists lag behind its trades. */
  confirmPausesMs: readonly number[];
}

/**
 * Every instance compares and opens or closes live trading for itself; only the lease holder books.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function reconcile(deps: ReconcileDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const { db, status, now } = deps;
  const at = new Date(now());
  const isLeader = await deps.lease.hold();
  // Booking is idempotent, so a new instance need not wait for the lease of a holder that may be dead.
  if (isLeader || status.report.comparedAt === null) await recoverPending(deps, orgId, signal);
  if (!(await findLiveAccount(db.orm, orgId)) && !(await open(deps, orgId, isLeader, signal))) return;
  if (isLeader) await ensureOrderGroup(deps, orgId, signal);
  const comparison = await compareUntilSure(deps, orgId, isLeader, signal);
  status.setOpen({
    pendingOrders: (await listOpenOrders(db.orm, orgId, 'pending', MAX_PENDING)).length,
    restingOrders: (await listOpenOrders(db.orm, orgId, 'resting', MAX_RESTING)).length,
  });
  if (comparison?.gap) throw comparison.gap;
  if (!comparison) return;
  const isRounded = await isOnlyRounding(deps, orgId, comparison);
  if (isRounded && isLeader) await bookRounding(db.orm, orgId, comparison, at);
  if (isLeader && comparison.transfers.length > 0)
    await bookTransfers(db.orm, orgId, comparison.transfers, at);
  status.compared(isRounded ? { ...comparison, differences: [] } : comparison, at);
}

async function recoverPending(deps: ReconcileDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const pending = await listOpenOrders(deps.db.orm, orgId, 'pending', MAX_PENDING);
  const lost = pending.filter(({ id }) => !deps.sending.has(id));
  await recoverOrders(deps, lost, signal);
}

async function open(
  { db, venue, status, now, log }: ReconcileDeps,
  orgId: string,
  isLeader: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isLeader) {
    status.failed('another instance is opening the account', false);
    return false;
  }
  const positions = requireWhole('positions', await venue.listPositions(signal));
  const { amount: cash } = await venue.readBalance(signal);
  const transfers = requireWhole('transfers', await venue.listTransfers(signal));
  // True if the opening cash may or may not include the transfer.
  const isUncertain = ({ isPending, createdAt }: ShardTransfer) =>
    isPending || createdAt.getTime() > now() - 2 * TRANSFER_EDGE_MS;
  if (transfers.some(isUncertain)) {
    status.failed('a transfer to or from shard 0 of the venue is under way or has just ended', false);
    return false;
  }
  const foreignPositions = Object.fromEntries(
    positions.map(({ ticker, position_fp: count }) => [ticker, parseHundredths(count)]),
  );
  await openLiveAccount(db.orm, { orgId, cash, foreignPositions, at: new Date(now()) });
  log.info({ orgId, positions: positions.length }, "the live account was opened with the venue's balances");
  return true;
}

/**
 * A single read if nothing happened. If two instances overlap, nothing is booked twice.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function watchResting(deps: ReconcileDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const ours = await listOpenOrders(deps.db.orm, orgId, 'resting', MAX_RESTING);
  if (ours.length === 0 || !(await deps.lease.hold())) return;
  const { rows: listed } = await deps.venue.listOrders({ status: 'resting' }, signal);
  const byName = new Map(listed.map((wire) => [wire.client_order_id, wire]));
  const at = new Date(deps.now());
  const changed = ours.filter((order) => {
    const { clientOrderId, contracts, filledContracts } = order;
    const wire = byName.get(clientOrderId);
    const isSame =
      wire &&
      (order.unknownSince === null || mayStillChange(order, at)) &&
      parseCount(wire.fill_count_fp) === filledContracts &&
      parseCount(wire.remaining_count_fp) === subtractCounts(contracts, filledContracts);
    return !isSame;
  });
  await recoverOrders(deps, changed.slice(0, MAX_LOOKED_UP), signal);
}

/** At two reads each. More are first compared with the venue's list of resting orders. */
const MAX_HINTED = 5;

/**
 * Returns the hints whose changes are not booked yet.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function lookUpHinted(
  deps: ReconcileDeps,
  orgId: string,
  hints: readonly OrderHint[],
  signal: AbortSignal,
): Promise<readonly OrderHint[]> {
  const { orm } = deps.db;
  const found = await listHinted(orm, orgId, hints, MAX_RESTING);
  if (found.length === 0 || !(await deps.lease.hold())) return [];
  const due = found.filter(({ id }) => !deps.sending.has(id));
  if (due.length <= MAX_HINTED) await recoverOrders(deps, due, signal);
  else await watchResting(deps, orgId, signal);
  const left = await listHinted(orm, orgId, hints, MAX_RESTING);
  return hints.filter((hint) => left.some((order) => isAbout(hint, order)));
}

const isAbout = (hint: OrderHint, { venueOrderId, clientOrderId }: LiveOrderRow): boolean =>
  hint.venueOrderId === venueOrderId || hint.clientOrderId === clientOrderId;

async function compareUntilSure(deps: ReconcileDeps, orgId: string, isLeader: boolean, signal: AbortSignal) {
  let last: AccountComparison | undefined;
  for (const pauseMs of [0, ...deps.confirmPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const comparison = await compareAccounts(deps, orgId, signal);
    if (!comparison) continue;
    last = comparison;
    if (comparison.differences.length === 0 && !comparison.gap) return comparison;
    // The order was treated as lost but carried out after all, or it rested and has since filled or ended.
    if (isLeader && comparison.late.length > 0)
      await recoverOrders(deps, await listOrdersNamed(deps.db.orm, orgId, comparison.late), signal);
  }
  // Fills that keep arriving are no difference while they are being booked.
  const isMoving =
    last && last.late.length > 0 && (await readFingerprint(deps.db.orm, orgId)) !== last.fingerprint;
  return isMoving ? undefined : last;
}

/** At most one rounding or resolution step per fill since the last adjustment. */
async function isOnlyRounding({ db }: ReconcileDeps, orgId: string, comparison: AccountComparison) {
  const [first, ...more] = comparison.differences;
  if (first?.kind !== 'cash' || more.length > 0 || comparison.settling.length > 0) return false;
  const size = comparison.cashDifference < 0n ? -comparison.cashDifference : comparison.cashDifference;
  const each = comparison.cashStep > BALANCE_STEP ? comparison.cashStep : BALANCE_STEP;
  return size <= each * BigInt(await countFillsSinceAdjustment(db.orm, orgId));
}
