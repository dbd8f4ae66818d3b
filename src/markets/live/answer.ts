import type { z } from 'zod';
import { codeOf } from '../../core/errors.js';
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

type Reading =
  | { kind: 'body'; json: unknown }
  /** With `isBusy`, the refusal is temporary. */
  | { kind: 'refused'; reason: string; isBusy?: boolean }
  | { kind: 'conflict'; reason: string }
  /** The venue may have carried out the request. */
  | { kind: 'unclear'; reason: string }
  /** Contradicts the known API, so nothing more is sent to the venue. */
  | { kind: 'unexpected'; reason: string };

type Failure = Exclude<Reading, { kind: 'body' }>;

export type OrderVerdict =
  | { kind: 'accepted'; venueOrderId: string; filled: number; remaining: number }
  | { kind: 'killed'; reason: string }
  | Failure;

export type ChangeVerdict = { kind: 'acknowledged' } | Exclude<Failure, { kind: 'conflict' }>;

/** @see https://docs.kalshi.com/getting_started/order_errors for statuses and codes */
function read({ status, body, contentType }: VenueAnswer): Reading {
  if (status === 408 || status >= 500) return { kind: 'unclear', reason: `the venue answered ${status}` };
  // The venue checks its rate limit first, so nothing was done, regardless of the body.
  if (status === 429) return { kind: 'refused', reason: 'too_many_requests', isBusy: true };
  let json: unknown;
  try {
    json = JSON.parse(body) as unknown;
  } catch {
    return { kind: 'unclear', reason: `${status} with ${contentType ?? 'an unknown type'} instead of JSON` };
  }
  const error = readError(json);
  if (status >= 200 && status < 300) {
    // The venue has returned 2xx with an error in the body.
    if (error !== undefined) return { kind: 'unexpected', reason: `${status} with the error ${error}` };
    return { kind: 'body', json };
  }
  if (error === undefined) return { kind: 'unexpected', reason: `${status} with an unknown error` };
  if (status === 410) return { kind: 'unexpected', reason: `410 ${error}` };
  if (status === 409) return { kind: 'conflict', reason: error };
  if (status >= 400) return { kind: 'refused', reason: error };
  return { kind: 'unexpected', reason: `${status} ${error}` };
}

/** The venue reports a killed order as a conflict. */
const killed = /insufficient_resting_volume$/;

function readAs<T extends z.ZodType>(answer: VenueAnswer, schema: T) {
  const reading = read(answer);
  if (reading.kind !== 'body') return reading;
  const { success, data, error } = schema.safeParse(reading.json);
  if (success) return { kind: 'body' as const, data };
  const { path, message } = error.issues[0]!;
  return unexpected(`${answer.status}, but ${path.join('.') || 'the body'}: ${message}`);
}

const unexpected = (reason: string) => ({ kind: 'unexpected' as const, reason });

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

/** The order is looked up, because the answer's state is not trusted. */
export function readChange(answer: VenueAnswer, venueOrderId: string): ChangeVerdict {
  const reading = readAs(answer, changedOrderSchema);
  if (reading.kind === 'conflict') return { kind: 'refused', reason: reading.reason };
  if (reading.kind !== 'body') return reading;
  return reading.data.order_id === venueOrderId
    ? { kind: 'acknowledged' }
    : unexpected(`${answer.status} about another order`);
}

export const readOrderGroup = (answer: VenueAnswer) => readAs(answer, orderGroupSchema);

/** Without characters that cannot be stored or shown. */
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

/** Without a connection, the request cannot have been carried out. */
const neverConnected = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

export function readFailure(error: unknown): Extract<Failure, { kind: 'refused' | 'unclear' }> {
  const code = codeOf(error);
  if (code !== undefined && neverConnected.has(code))
    return { kind: 'refused', reason: `not sent: the venue cannot be reached (${code})` };
  return { kind: 'unclear', reason: `no response: ${(error as Error).name} ${code ?? ''}`.trim() };
}
