import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { mayRest } from '../market/book.js';
import type { LiveOrder, RestingOrder, VenueOutcome } from '../orders/order.js';
import { readAnswer, readChange, readFailure, type ChangeVerdict, type OrderVerdict } from './answer.js';
import {
  MAX_SEND_AGE_MS,
  UNFILLED,
  collectFills,
  findVenueStatus,
  type StatusDeps,
  type VenueStatus,
} from './order-status.js';
import type { ReconcileDeps } from './reconcile.js';
import { claim, notSent, recheck, type Recheck } from './recheck.js';
import { describeUnresolved } from '../orders/queries.js';
import type { VenueOrderId } from './venue.js';
import { toWireOrder } from './wire.js';

export interface SendDeps extends StatusDeps, Pick<ReconcileDeps, 'db' | 'status'> {
  log: Logger;
  lookUpPausesMs: readonly number[];
  /** After a venue answer that could not be understood. */
  close: (reason: string) => void;
  /** Aborts when waiting orders must be rechecked. */
  nextReview: () => AbortSignal;
}

/** A caller waits no longer for an order's outcome. */
const CONCLUDE_MS = 20_000;

/** Never rejects: an undetermined outcome is `unknown`. `stopping` ends unsent orders; sent ones are followed up. */
export async function sendOrder(
  deps: SendDeps,
  order: LiveOrder,
  stopping: AbortSignal,
): Promise<VenueOutcome> {
  const ready = await waitForTurn(deps, order, stopping);
  if (ready.kind !== 'ready') return ready;
  const verdict = await sendOnce(deps, order, ready.orderGroupId);
  if (verdict.kind === 'unexpected') deps.close(`the venue's answer to an order: ${verdict.reason}`);
  if (verdict.kind !== 'accepted' && verdict.kind !== 'refused' && verdict.kind !== 'killed')
    deps.log.warn({ orderId: order.id, reason: verdict.reason }, 'an order is looked up at the venue');
  try {
    return await conclude(deps, order, verdict, AbortSignal.timeout(CONCLUDE_MS));
  } catch (error) {
    deps.log.warn({ err: error, orderId: order.id }, 'an order could not be looked up; it stays pending');
    return { kind: 'unknown', reason: reasonOf(verdict) };
  }
}

/** A review ends the wait if the order may no longer be sent. */
async function waitForTurn(deps: SendDeps, order: LiveOrder, stopping: AbortSignal): Promise<Recheck> {
  let blockedMs: number | undefined;
  for (let hasTurn = false; ;) {
    const review = deps.nextReview();
    hasTurn ||= await takeTurn(deps, AbortSignal.any([stopping, review]));
    if (stopping.aborted) return notSent('the service is stopping');
    const checked = await recheck(deps, order);
    if (checked.kind !== 'ready') return checked;
    const sending = hasTurn ? await tryToClaim(deps, order, (blockedMs ??= performance.now())) : undefined;
    if (sending?.kind === 'rejected') return sending;
    // The recovery of lost orders relies on old orders never being sent.
    if (deps.now() - order.createdAt.getTime() > MAX_SEND_AGE_MS)
      return notSent('the order had waited for too long');
    // The recheck may have read the database before a switch was set.
    if (sending?.kind === 'ready' && !review.aborted && !stopping.aborted) return checked;
    if (sending?.kind === 'wait') await sleep(CLAIM_PAUSE_MS);
  }
}

/** For the response to the previous order in its market. */
const CLAIM_WAIT_MS = MAX_SEND_AGE_MS;
const CLAIM_PAUSE_MS = 50;

async function tryToClaim(
  deps: SendDeps,
  order: LiveOrder,
  sinceMs: number,
): Promise<{ kind: 'ready' | 'wait' } | Extract<VenueOutcome, { kind: 'rejected' }>> {
  try {
    const first = await claim(deps, order);
    if (!first || first.id === order.id) return { kind: 'ready' };
    if (!first.isLost && performance.now() - sinceMs < CLAIM_WAIT_MS) return { kind: 'wait' };
    return { kind: 'rejected', reason: `not sent: ${describeUnresolved(first)}` };
  } catch (error) {
    deps.log.error(
      { err: error, orderId: order.id },
      'an order is not sent because it cannot be marked as sent',
    );
    return { kind: 'rejected', reason: 'not sent: the other orders in its market cannot be read' };
  }
}

/** False if the signal ended the wait. */
async function takeTurn({ venue }: SendDeps, signal: AbortSignal): Promise<boolean> {
  try {
    await venue.takeTurn(signal);
    return true;
  } catch (error) {
    if (!signal.aborted) throw error;
    return false;
  }
}

async function sendOnce({ venue }: SendDeps, order: LiveOrder, orderGroupId: string | null) {
  const group = mayRest(order.timeInForce) ? (orderGroupId ?? undefined) : undefined;
  try {
    return readAnswer(await venue.createOrder(toWireOrder(order, group)), order);
  } catch (error) {
    return readFailure(error);
  }
}

async function conclude(
  deps: SendDeps,
  order: LiveOrder,
  verdict: OrderVerdict,
  signal: AbortSignal,
): Promise<VenueOutcome> {
  switch (verdict.kind) {
    case 'refused':
      return { kind: 'rejected', reason: verdict.reason };
    case 'killed':
      return { kind: 'done', venueOrderId: null, fills: [], reason: UNFILLED };
    case 'accepted':
      return outcomeOf(order, await collectFills(deps, order, { ...verdict, isOld: false }, signal));
    default:
      return lookUpRepeatedly(deps, order, verdict, signal);
  }
}

/** The venue lists orders with a delay. */
async function lookUpRepeatedly(
  deps: SendDeps,
  order: LiveOrder,
  verdict: OrderVerdict,
  signal: AbortSignal,
): Promise<VenueOutcome> {
  for (const pauseMs of deps.lookUpPausesMs) {
    await sleep(pauseMs, undefined, { signal });
    const found = await findVenueStatus(deps, order, signal);
    if (found.kind !== 'absent') return outcomeOf(order, found);
  }
  // The order does not exist, so any other conflict is a refusal.
  if (verdict.kind === 'conflict' && !verdict.reason.startsWith('order_already_exists'))
    return { kind: 'rejected', reason: verdict.reason };
  return { kind: 'unknown', reason: reasonOf(verdict) };
}

function outcomeOf({ timeInForce }: LiveOrder, found: VenueStatus): VenueOutcome {
  switch (found.kind) {
    case 'final':
      return found.outcome;
    case 'incomplete':
      return { kind: 'unknown', reason: found.reason };
    case 'resting':
      if (mayRest(timeInForce)) return found.outcome;
      return { kind: 'unknown', reason: "the order is in the venue's book" };
    default:
      return { kind: 'unknown', reason: 'the venue does not know it yet' };
  }
}

const reasonOf = (verdict: OrderVerdict): string =>
  verdict.kind === 'accepted' ? 'the venue took it and has not listed its fills yet' : verdict.reason;

/**
 * The response's state is never trusted, because a fill may have occurred in flight. The request is idempotent, so it
 * is repeated if it may have been lost. Never rejects: an undetermined outcome is `unknown`.
 */
export async function withdraw(
  deps: SendDeps,
  order: RestingOrder,
  remaining: number,
  stopping: AbortSignal,
): Promise<VenueOutcome> {
  const signal = AbortSignal.any([stopping, AbortSignal.timeout(CONCLUDE_MS)]);
  let reason = 'the venue has not been asked yet';
  try {
    let verdict: ChangeVerdict | undefined;
    let { venueOrderId } = order;
    for (const pauseMs of [0, ...deps.lookUpPausesMs]) {
      if (pauseMs > 0) await sleep(pauseMs, undefined, { signal });
      if (venueOrderId !== null && mayRepeat(verdict)) {
        const { ticker } = order;
        verdict = await ask(deps, { venueOrderId, ticker }, remaining, signal);
        reason = verdict.kind === 'acknowledged' ? NOT_SHOWN : verdict.reason;
        if (verdict.kind !== 'acknowledged')
          deps.log.warn(
            { orderId: order.id, reason },
            'an order that is being cancelled or decreased is looked up',
          );
      }
      const found = await findVenueStatus(deps, order, signal);
      if (found.kind === 'final') return found.outcome;
      if (found.kind === 'incomplete') reason = found.reason;
      if (found.kind !== 'resting') continue;
      if (remaining > 0 && found.remaining <= remaining) return found.outcome;
      ({ venueOrderId } = found.outcome);
    }
  } catch (error) {
    deps.log.warn(
      { err: error, orderId: order.id },
      'an order that is being cancelled or decreased cannot be looked up',
    );
    if (stopping.aborted) reason = 'the service is stopping';
  }
  return {
    kind: 'unknown',
    reason: `${remaining === 0 ? 'Cancelling' : 'Decreasing'} it is not confirmed: ${reason}.`,
  };
}

const NOT_SHOWN = 'the venue has taken the request and still shows the order as it was';

/** Repeating an accepted or refused request changes nothing. */
const mayRepeat = (verdict: ChangeVerdict | undefined): boolean =>
  verdict === undefined ||
  verdict.kind === 'unclear' ||
  (verdict.kind === 'refused' && verdict.isBusy === true);

async function ask({ venue, close }: SendDeps, order: VenueOrderId, remaining: number, signal: AbortSignal) {
  await venue.takeTurn(signal);
  try {
    const answer = await (remaining === 0 ? venue.cancelOrder(order) : venue.decreaseOrder(order, remaining));
    const verdict = readChange(answer, order.venueOrderId);
    const what = remaining === 0 ? 'a cancellation' : 'a decrease';
    if (verdict.kind === 'unexpected') close(`the venue's answer to ${what}: ${verdict.reason}`);
    return verdict;
  } catch (error) {
    return readFailure(error);
  }
}
