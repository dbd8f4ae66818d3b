import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { mayRest } from '../market/book.js';
import type { LiveOrder, VenueOutcome } from '../orders/order.js';
import {
  MAX_SEND_AGE_MS,
  UNFILLED,
  collectFills,
  findVenueStatus,
  type VenueStatus,
  type StatusDeps,
} from './order-status.js';
import { readAnswer, readFailure, type Verdict } from './answer.js';
import { toWireOrder } from './wire.js';

export interface SendDeps extends StatusDeps {
  log: Logger;
  /** Pauses before the venue is asked again for an order whose answer was lost. */
  lookUpPausesMs: readonly number[];
  /** The venue has said something that is not understood: nothing more may be sent. */
  close: (reason: string) => void;
  /** The venue's group that orders which rest stand in. */
  findGroup: (orgId: string) => Promise<string | undefined>;
}

/** A caller waits no longer than this for the outcome of an order. */
export const CONCLUDE_MS = 20_000;

/**
 * Sends an order once and finds out what became of it. Never rejects: what is not known is `unknown`. `stopping` keeps
 * what has not been sent yet from being sent; what has is still looked after.
 */
export async function sendOrder(
  deps: SendDeps,
  order: LiveOrder,
  stopping: AbortSignal,
): Promise<VenueOutcome> {
  try {
    await deps.venue.takeTurn(stopping);
    stopping.throwIfAborted();
  } catch {
    return { kind: 'rejected', reason: 'not sent: the service is stopping' };
  }
  // The recovery of lost orders relies on it that an old one is not sent after all.
  if (deps.now() - order.createdAt.getTime() > MAX_SEND_AGE_MS)
    return { kind: 'rejected', reason: 'not sent: the order had waited for too long' };
  const verdict = await sendOnce(deps, order);
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

async function sendOnce({ venue, findGroup }: SendDeps, order: LiveOrder): Promise<Verdict> {
  const group = mayRest(order.timeInForce) ? await findGroup(order.orgId) : undefined;
  try {
    return readAnswer(await venue.createOrder(toWireOrder(order, group)), order);
  } catch (error) {
    return readFailure(error);
  }
}

async function conclude(
  deps: SendDeps,
  order: LiveOrder,
  verdict: Verdict,
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
      return askRepeatedly(deps, order, verdict, signal);
  }
}

/** The venue shows an order a moment after it has taken it. */
async function askRepeatedly(
  deps: SendDeps,
  order: LiveOrder,
  verdict: Verdict,
  signal: AbortSignal,
): Promise<VenueOutcome> {
  for (const pauseMs of deps.lookUpPausesMs) {
    await sleep(pauseMs, undefined, { signal });
    const found = await findVenueStatus(deps, order, signal);
    if (found.kind !== 'absent') return outcomeOf(order, found);
  }
  // A conflict about something else than the order's name is a refusal, now that there is no such order.
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
      return { kind: 'unknown', reason: 'the venue has put it into the book' };
    default:
      return { kind: 'unknown', reason: 'the venue does not know it yet' };
  }
}

const reasonOf = (verdict: Verdict): string =>
  verdict.kind === 'accepted' ? 'the venue took it and has not listed its fills yet' : verdict.reason;
