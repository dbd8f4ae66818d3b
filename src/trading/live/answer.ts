import type { VenueAnswer } from './venue.js';
import { createdOrderSchema, errorSchema } from './venue-schema.js';
import type { SentOrder } from './wire.js';
import { parseCount } from '../market/contracts.js';

/** What the venue's answer to an order means. */
export type Verdict =
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
export function judgeAnswer({ status, body, contentType }: VenueAnswer, order: SentOrder): Verdict {
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
  if (status >= 200 && status < 300) return judgeSuccess(status, json, error, order);
  if (error === undefined)
    return { kind: 'unexpected', reason: `${status} without an error that is understood` };
  if (status === 410) return { kind: 'unexpected', reason: `410 ${error}` };
  if (status === 409)
    return { kind: killed.test(error.split(':')[0]!) ? 'killed' : 'conflict', reason: error };
  if (status >= 400) return { kind: 'refused', reason: error };
  return { kind: 'unexpected', reason: `${status} ${error}` };
}

function judgeSuccess(status: number, json: unknown, error: string | undefined, order: SentOrder): Verdict {
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
