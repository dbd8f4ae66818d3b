import type { z } from 'zod';
import { mayRest } from '../market/book.js';
import { addCounts, parseCount } from '../market/contracts.js';
import type { VenueAnswer } from './venue.js';
import {
  changedOrderSchema,
  createdOrderSchema,
  errorSchema,
  orderGroupSchema,
  type SentOrder,
} from './wire.js';

/** What an answer says before it is looked into. */
type Reading =
  | { kind: 'body'; json: unknown }
  /** The venue will not do it. `isBusy`: at this moment. */
  | { kind: 'refused'; reason: string; isBusy?: boolean }
  /** It is in the way of something that there is. */
  | { kind: 'conflict'; reason: string }
  /** It may have been carried out. */
  | { kind: 'unclear'; reason: string }
  /** The same, and the venue speaks another language than the one that is known here: nothing more is sent to it. */
  | { kind: 'unexpected'; reason: string };

type Failure = Exclude<Reading, { kind: 'body' }>;

export type OrderVerdict =
  /** `remaining`: what stands in the book. */
  | { kind: 'accepted'; venueOrderId: string; filled: number; remaining: number }
  /** Fill or kill, and it could not be filled whole. */
  | { kind: 'killed'; reason: string }
  | Failure;

/** What a cancellation or a decrease was answered with. */
export type ChangeVerdict = { kind: 'told' } | Exclude<Failure, { kind: 'conflict' }>;

/** @see https://docs.kalshi.com/getting_started/order_errors for statuses and codes */
function read({ status, body, contentType }: VenueAnswer): Reading {
  if (status === 408 || status >= 500) return { kind: 'unclear', reason: `the venue answered ${status}` };
  // A limit is checked before anything else: whatever the body says, nothing was done.
  if (status === 429) return { kind: 'refused', reason: 'too_many_requests', isBusy: true };
  let json: unknown;
  try {
    json = JSON.parse(body) as unknown;
  } catch {
    return { kind: 'unclear', reason: `${status} and no JSON but ${contentType ?? 'something else'}` };
  }
  const error = readError(json);
  if (status >= 200 && status < 300) {
    // An error that calls itself a success has been seen.
    if (error !== undefined) return { kind: 'unexpected', reason: `${status} with the error ${error}` };
    return { kind: 'body', json };
  }
  if (error === undefined)
    return { kind: 'unexpected', reason: `${status} without an error that is understood` };
  if (status === 410) return { kind: 'unexpected', reason: `410 ${error}` };
  if (status === 409) return { kind: 'conflict', reason: error };
  if (status >= 400) return { kind: 'refused', reason: error };
  return { kind: 'unexpected', reason: `${status} ${error}` };
}

/** The venue's word for an order that found too little to trade with: it comes as a conflict. */
const killed = /insufficient_resting_volume$/;

/** What an answer says in the shape that is expected of it, or what it says instead. */
function readAs<T extends z.ZodType>(answer: VenueAnswer, schema: T) {
  const reading = read(answer);
  if (reading.kind !== 'body') return reading;
  const { success, data, error } = schema.safeParse(reading.json);
  if (success) return { kind: 'body' as const, data };
  const { path, message } = error.issues[0]!;
  return unexpected(`${answer.status}, but ${path.join('.') || 'the body'}: ${message}`);
}

const unexpected = (reason: string) => ({ kind: 'unexpected' as const, reason });

/** The answer to a new order. */
export function readAnswer(answer: VenueAnswer, order: SentOrder): OrderVerdict {
  const reading = readAs(answer, createdOrderSchema);
  if (reading.kind === 'conflict' && killed.test(reading.reason.split(':')[0]!))
    return { kind: 'killed', reason: reading.reason };
  if (reading.kind !== 'body') return reading;
  const { order_id: venueOrderId, client_order_id: name, fill_count, remaining_count } = reading.data;
  if (name !== undefined && name !== order.clientOrderId)
    return unexpected(`${answer.status} about another order`);
  const filled = parseCount(fill_count);
  const remaining = mayRest(order.timeInForce) ? parseCount(remaining_count) : 0;
  if (addCounts(filled, remaining) > order.contracts)
    return unexpected(`${filled} of ${order.contracts} contracts filled`);
  return { kind: 'accepted', venueOrderId, filled, remaining };
}

/** The answer to a cancellation or a decrease. What it says of the order is not believed: that is looked up. */
export function readChange(answer: VenueAnswer, venueOrderId: string): ChangeVerdict {
  const reading = readAs(answer, changedOrderSchema);
  if (reading.kind === 'conflict') return { kind: 'refused', reason: reading.reason };
  if (reading.kind !== 'body') return reading;
  return reading.data.order_id === venueOrderId
    ? { kind: 'told' }
    : unexpected(`${answer.status} about another order`);
}

/** The answer to the wish for a group of orders. */
export const readOrderGroup = (answer: VenueAnswer) => readAs(answer, orderGroupSchema);

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

/** Nothing can have been carried out where no connection was made. */
const neverConnected = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** What a request that ended without an answer says. */
export function readFailure(error: unknown): Extract<Failure, { kind: 'refused' | 'unclear' }> {
  const code = codeOf(error);
  if (code !== undefined && neverConnected.has(code))
    return { kind: 'refused', reason: `not sent: the venue cannot be reached (${code})` };
  return { kind: 'unclear', reason: `no answer came: ${(error as Error).name} ${code ?? ''}`.trim() };
}

function codeOf(error: unknown): string | undefined {
  for (let e = error; e instanceof Error; e = e.cause) {
    const { code } = e as NodeJS.ErrnoException;
    if (typeof code === 'string') return code;
  }
  return undefined;
}
