import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { parseCount } from '../market/contracts.js';
import type { LiveOrder, VenueOutcome } from '../orders/order.js';
import {
  MAX_SEND_AGE_MS,
  UNFILLED,
  collectFills,
  findVenueStatus,
  type VenueStatus,
  type StatusDeps,
} from './order-status.js';
import type { VenueAnswer } from './venue.js';
import { createdOrderSchema, errorSchema, toWireOrder, type SentOrder } from './wire.js';

type Verdict =
  | { kind: 'accepted'; venueOrderId: string; filled: number }
  /** The venue will not have it; nothing was traded. */
  | { kind: 'refused'; reason: string }
  /** Fill or kill, and it could not be filled whole. */
  | { kind: 'killed'; reason: string }
  /** The venue has an order of this name already. */
  | { kind: 'conflict'; reason: string }
  /** It may have been carried out. */
  | { kind: 'unclear'; reason: string }
  /** The same, and the venue speaks another language than the one that is known here: nothing more is sent to it. */
  | { kind: 'unexpected'; reason: string };

/** The venue's word for an order that found too little to trade with: it comes as a conflict. */
const killed = /insufficient_resting_volume$/;

/** @see https://docs.kalshi.com/getting_started/order_errors for statuses and codes */
export function readAnswer({ status, body, contentType }: VenueAnswer, order: SentOrder): Verdict {
  if (status === 408 || status >= 500) return { kind: 'unclear', reason: `the venue answered ${status}` };
  // A limit is checked before anything else: whatever the body says, nothing was done.
  if (status === 429) return { kind: 'refused', reason: 'too_many_requests' };
  let json: unknown;
  try {
    json = JSON.parse(body) as unknown;
  } catch {
    return { kind: 'unclear', reason: `${status} and no JSON but ${contentType ?? 'something else'}` };
  }
  const error = readError(json);
  if (status >= 200 && status < 300) return readSuccess(status, json, error, order);
  if (error === undefined)
    return { kind: 'unexpected', reason: `${status} without an error that is understood` };
  if (status === 410) return { kind: 'unexpected', reason: `410 ${error}` };
  if (status === 409)
    return { kind: killed.test(error.split(':')[0]!) ? 'killed' : 'conflict', reason: error };
  if (status >= 400) return { kind: 'refused', reason: error };
  return { kind: 'unexpected', reason: `${status} ${error}` };
}

function readSuccess(status: number, json: unknown, error: string | undefined, order: SentOrder): Verdict {
  // An error that calls itself a success has been seen.
  if (error !== undefined) return { kind: 'unexpected', reason: `${status} with the error ${error}` };
  const parsed = createdOrderSchema.safeParse(json);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0]!;
    return { kind: 'unexpected', reason: `${status}, but ${path.join('.') || 'the body'}: ${message}` };
  }
  const { order_id: venueOrderId, client_order_id: name, fill_count: count } = parsed.data;
  if (name !== undefined && name !== order.clientOrderId)
    return { kind: 'unexpected', reason: `${status} about another order` };
  const filled = parseCount(count);
  if (filled > order.contracts)
    return { kind: 'unexpected', reason: `${filled} of ${order.contracts} contracts filled` };
  return { kind: 'accepted', venueOrderId, filled };
}

/** `code: message`, without what cannot be stored or shown. */
function readError(json: unknown): string | undefined {
  const parsed = errorSchema.safeParse(json);
  if (!parsed.success) return undefined;
  const error = 'error' in parsed.data ? parsed.data.error : parsed.data;
  const text =
    typeof error === 'string'
      ? error
      : [error.code, error.details ?? error.message].filter((part) => part && part !== '').join(': ');
  return text.replace(/[\p{Cc}\p{Cs}]/gu, ' ').slice(0, 200);
}

interface SendDeps extends StatusDeps {
  log: Logger;
  /** Pauses before the venue is asked again for an order whose answer was lost. */
  lookUpPausesMs: readonly number[];
  /** The venue has said something that is not understood: nothing more may be sent. */
  close: (reason: string) => void;
}

/** A caller waits no longer than this for the outcome of an order. */
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

async function sendOnce({ venue }: SendDeps, order: LiveOrder): Promise<Verdict> {
  try {
    return readAnswer(await venue.createOrder(toWireOrder(order)), order);
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
    if (found.kind !== 'absent') return outcomeOf(found);
  }
  // A conflict about something else than the order's name is a refusal, now that there is no such order.
  if (verdict.kind === 'conflict' && !verdict.reason.startsWith('order_already_exists'))
    return { kind: 'rejected', reason: verdict.reason };
  return { kind: 'unknown', reason: reasonOf(verdict) };
}

function outcomeOf(found: VenueStatus): VenueOutcome {
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
