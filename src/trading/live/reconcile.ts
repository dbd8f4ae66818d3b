import { setTimeout as sleep } from 'node:timers/promises';
import { BALANCE_STEP } from '../market/money.js';
import type { Lease } from '../../core/db/lease.js';
import { bookRounding, openLiveAccount } from './book.js';
import { lookAtBoth, MAX_PENDING, type Look } from './look.js';
import { recoverOrders, type RecoverDeps } from './recover.js';
import { countFillsSinceAdjustment, findLiveAccount, listOrdersNamed, listPendingOrders } from './queries.js';
import type { Standing } from './standing.js';
import { parseHundredths } from '../market/contracts.js';
import type { Database } from '../../core/db/client.js';

export interface ReconcileDeps extends RecoverDeps {
  db: Database;
  standing: Standing;
  /** Of what is booked. */
  lease: Lease;
  /** Orders that this process is sending: their outcome is on its way. */
  sending: ReadonlySet<string>;
  /** Before a difference is looked at again: the venue's lists follow its trades a moment later. */
  confirmPausesMs: readonly number[];
}

/**
 * Finds out about orders whose outcome is not known, then compares everything. Every instance compares, and closes or opens
 * for itself; one at a time books.
 * @throws UnexpectedAnswerError, VenueUnavailableError
 */
export async function reconcile(deps: ReconcileDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const { db, standing, now } = deps;
  const at = new Date(now());
  const isLeader = await deps.lease.hold();
  // An instance that has just started does not wait for the lease of one that may be gone: nothing is booked twice.
  if (isLeader || standing.report.comparedAt === null) await recoverPending(deps, orgId, signal);
  if (!(await findLiveAccount(db.orm, orgId)) && !(await open(deps, orgId, isLeader, signal))) return;
  const look = await lookUntilSure(deps, orgId, isLeader, signal);
  standing.setPending((await listPendingOrders(db.orm, orgId, MAX_PENDING)).length);
  if (!look) return;
  const isRounded = await isOnlyRounding(deps, orgId, look);
  if (isRounded && isLeader) await bookRounding(db.orm, orgId, look, at);
  standing.compared(isRounded ? { ...look, differences: [] } : look, at);
}

async function recoverPending(deps: ReconcileDeps, orgId: string, signal: AbortSignal): Promise<void> {
  const pending = await listPendingOrders(deps.db.orm, orgId, MAX_PENDING);
  const lost = pending.filter(({ id }) => !deps.sending.has(id));
  await recoverOrders(deps, lost, signal);
}

/** @returns true if the account is open now */
async function open(
  { db, venue, standing, now, log }: ReconcileDeps,
  orgId: string,
  isLeader: boolean,
  signal: AbortSignal,
): Promise<boolean> {
  if (!isLeader) {
    standing.failed('another instance is opening the account', false);
    return false;
  }
  const positions = await venue.listPositions(signal);
  const { amount: cash } = await venue.readBalance(signal);
  const foreignPositions = Object.fromEntries(
    positions.map(({ ticker, position_fp: count }) => [ticker, parseHundredths(count)]),
  );
  await openLiveAccount(db.orm, { orgId, cash, foreignPositions, at: new Date(now()) });
  log.info({ orgId, positions: positions.length }, 'the live account was opened with what is at the venue');
  return true;
}

/** Looks until both agree, or until a difference has lasted. */
async function lookUntilSure(
  deps: ReconcileDeps,
  orgId: string,
  isLeader: boolean,
  signal: AbortSignal,
): Promise<Look | undefined> {
  let last: Look | undefined;
  for (const pauseMs of [0, ...deps.confirmPausesMs]) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
    const look = await lookAtBoth(deps, orgId, signal);
    if (!look) continue;
    last = look;
    if (look.differences.length === 0) return look;
    // An order that was given up for lost, and was carried out after all.
    if (isLeader && look.late.length > 0)
      await recoverOrders(deps, await listOrdersNamed(deps.db.orm, orgId, look.late), signal);
  }
  return last;
}

/** At most what one fill is rounded by, or what the venue leaves out when it tells the cash, for each fill since the cash was last made to agree. */
async function isOnlyRounding({ db }: ReconcileDeps, orgId: string, look: Look): Promise<boolean> {
  const [first, ...more] = look.differences;
  if (first?.kind !== 'cash' || more.length > 0 || look.settling.length > 0) return false;
  const size = look.cashDifference < 0n ? -look.cashDifference : look.cashDifference;
  const each = look.cashStep > BALANCE_STEP ? look.cashStep : BALANCE_STEP;
  return size <= each * BigInt(await countFillsSinceAdjustment(db.orm, orgId));
}
