import { z } from 'zod';
import { readRetryAfter, SECOND_MS } from '../../core/time.js';

/** Shapes of `POST /v1/billing/meter_events`, from Stripe's OpenAPI document of this version. */
const API_VERSION = '2026-10-28.endive';
export const TIMEOUT_MS = 20 * SECOND_MS;

export interface MeterEvent {
  /** Stripe refuses a second event with the same identifier for at least 24 hours. */
  identifier: string;
  eventName: string;
  customerId: string;
  /** A decimal of at most 15 significant digits, which may be negative. */
  value: string;
  timestampSeconds: number;
}

export type Answer =
  | { kind: 'recorded' }
  /** Stripe already has an event with this identifier. */
  | { kind: 'exists'; reason: string }
  /** Stripe recorded nothing. `isGeneral`: it would refuse other events too. */
  | { kind: 'refused'; reason: string; isGeneral: boolean; retryAfterMs: number }
  | { kind: 'unclear'; reason: string };

export type SendMeterEvent = (event: MeterEvent) => Promise<Answer>;

const recordedSchema = z.object({ object: z.literal('billing.meter_event'), identifier: z.string() });
const errorSchema = z.object({
  error: z.object({ type: z.string(), code: z.string().optional(), message: z.string().optional() }),
});

/** Sends no `Idempotency-Key`: Stripe would repeat a stored error for a day, and the outcome would stay unclear. */
export function createStripeClient(key: string, baseUrl: string): SendMeterEvent {
  return async ({ identifier, eventName, customerId, value, timestampSeconds }) => {
    try {
      const response = await fetch(new URL('/v1/billing/meter_events', baseUrl), {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'stripe-version': API_VERSION },
        body: new URLSearchParams({
          event_name: eventName,
          identifier,
          timestamp: String(timestampSeconds),
          'payload[stripe_customer_id]': customerId,
          'payload[value]': value,
        }),
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      return readAnswer(response, await response.json(), identifier);
    } catch (error) {
      return { kind: 'unclear', reason: describe(error) };
    }
  };
}

/** Only Stripe's own JSON counts as an answer; a proxy's page says nothing about the event. */
function readAnswer({ ok, status, headers }: Response, body: unknown, identifier: string): Answer {
  if (ok && recordedSchema.safeParse(body).data?.identifier === identifier) return { kind: 'recorded' };
  const error = errorSchema.safeParse(body).data?.error;
  if (!error || status < 400 || status >= 500 || status === 409)
    return { kind: 'unclear', reason: `Stripe answered ${status}` };
  const reason = `Stripe answered ${status}: ${error.message ?? error.code ?? error.type}`.slice(0, 500);
  if (status === 400 && isDuplicate(error)) return { kind: 'exists', reason };
  return {
    kind: 'refused',
    reason,
    isGeneral: status === 401 || status === 403 || status === 429,
    retryAfterMs: readRetryAfter(headers.get('retry-after')) ?? 0,
  };
}

const isDuplicate = ({ code, message = '' }: { code?: string | undefined; message?: string | undefined }) =>
  code === 'duplicate_meter_event' || /already exists with identifier/i.test(message);

function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  return `Stripe did not answer: ${text}`.slice(0, 500);
}
