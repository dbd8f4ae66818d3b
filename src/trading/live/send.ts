import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { LiveOrder, VenueOutcome } from '../orders/order.js';
import { judgeAnswer, type Verdict } from './answer.js';
import { collectFills, lookUp, UNFILLED, type Found, type LookUpDeps } from './look-up.js';
import { toWireOrder } from './wire.js';

/**
 * An order is not sent any more when it is older than this, and is booked as never sent when it is older than
 * `SAFE_MS` and the venue does not know it. Between both lies the longest that a request can be on its way.
 */
export const MAX_SEND_AGE_MS = 10_000;
export const SAFE_MS = 60_000;

export interface SendDeps extends LookUpDeps {
  log: Logger;
  /** Pauses before each look-up of an order whose answer was lost. */
  lookUpPausesMs: readonly number[];
  /** The venue has said something that is not understood: nothing more may be sent. */
  close: (reason: string) => void;
}

/** Whoever placed the order waits no longer than this for its outcome. */
const CONCLUDE_MS = 20_000;

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
  // Whoever looks for lost orders must be able to rely on it that an old one is not sent after all.
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

async function sendOnce({ venue }: SendDeps, order: LiveOrder): Promise<Verdict> {
  try {
    return judgeAnswer(await venue.createOrder(toWireOrder(order)), order);
  } catch (error) {
    const code = codeOf(error);
    if (code !== undefined && neverConnected.has(code))
      return { kind: 'refused', reason: `not sent: the venue cannot be reached (${code})` };
    return { kind: 'unclear', reason: `no answer came: ${(error as Error).name} ${code ?? ''}`.trim() };
  }
}

/** Nothing can have been carried out where no connection was made. */
const neverConnected = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

function codeOf(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code } = e as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return undefined;
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
    case 'accepted': {
      const { venueOrderId, filled: expected } = verdict;
      return outcomeOf(await collectFills(deps, order, { venueOrderId, expected, isOld: false }, signal));
    }
    default:
      return lookUpRepeatedly(deps, order, verdict, signal);
  }
}

/** The venue shows an order a moment after it has taken it. */
async function lookUpRepeatedly(
  deps: SendDeps,
  order: LiveOrder,
  verdict: Verdict,
  signal: AbortSignal,
): Promise<VenueOutcome> {
  for (const pauseMs of deps.lookUpPausesMs) {
    await sleep(pauseMs, undefined, { signal });
    const found = await lookUp(deps, order, signal);
    if (found.kind !== 'absent') return outcomeOf(found);
  }
  // A conflict about something else than the order's name is a refusal, now that there is no such order.
  if (verdict.kind === 'conflict' && !verdict.reason.startsWith('order_already_exists'))
    return { kind: 'rejected', reason: verdict.reason };
  return { kind: 'unknown', reason: reasonOf(verdict) };
}

function outcomeOf(found: Found): VenueOutcome {
  switch (found.kind) {
    case 'final':
      return found.outcome;
    case 'incomplete':
      return { kind: 'unknown', reason: found.reason };
    case 'resting':
      return { kind: 'unknown', reason: 'the venue has put it into the book' };
    default:
      return { kind: 'unknown', reason: 'the venue does not know it yet' };
  }
}

const reasonOf = (verdict: Verdict): string =>
  verdict.kind === 'accepted' ? 'the venue took it and has not listed its fills yet' : verdict.reason;
