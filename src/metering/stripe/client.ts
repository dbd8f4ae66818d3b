import { z } from 'zod';
import { createRecentMap } from '../../core/collections.js';
import { DAY_MS, MINUTE_MS, readRetryAfter, SECOND_MS } from '../../core/time.js';

/** Requests to `POST /v1/billing/meter_events` follow this version's OpenAPI document. */
const API_VERSION = '2026-10-28.endive';
/** For sending one event, and for checking one. */
export const TIMEOUT_MS = 20 * SECOND_MS;
const MAX_REASON_LENGTH = 500;

export interface MeterEvent {
  /** Stripe refuses a repeated identifier for at least 24 hours. */
  identifier: string;
  eventName: string;
  customerId: string;
  /** At most 15 significant digits; may be negative. */
  value: string;
  timestampSeconds: number;
}

/** Stripe recorded nothing. `isGeneral` means that it would refuse other events too. */
export interface Refusal {
  kind: 'refused';
  reason: string;
  isGeneral: boolean;
  retryAfterMs: number;
}

export type Answer =
  | { kind: 'recorded' }
  /** Stripe already has this identifier. */
  | { kind: 'exists'; reason: string }
  | Refusal
  | { kind: 'unclear'; reason: string };

export type Stripe = ReturnType<typeof createStripeClient>;

/** Only this event is refused. */
export const refusedFor = (reason: string): Refusal => ({
  kind: 'refused',
  reason,
  isGeneral: false,
  retryAfterMs: 0,
});

const recordedSchema = z.object({ object: z.literal('billing.meter_event'), identifier: z.string() });
const errorSchema = z.object({
  error: z.object({ type: z.string(), code: z.string().optional(), message: z.string().optional() }),
});
const customerSchema = z.object({ object: z.literal('customer'), deleted: z.boolean().optional() });
const metersSchema = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      event_name: z.string(),
      default_aggregation: z.object({ formula: z.string() }),
      event_time_window: z.string().nullish(),
      customer_mapping: z.object({ event_payload_key: z.string() }),
      value_settings: z.object({ event_payload_key: z.string() }),
    }),
  ),
  has_more: z.boolean(),
});
type Meter = z.output<typeof metersSchema>['data'][number];

const MAX_METER_PAGES = 20;
const METERS_KEPT_MS = 10 * MINUTE_MS;
const CUSTOMER_KEPT_MS = DAY_MS;
const MAX_CUSTOMERS_KEPT = 10_000;

/** Without an `Idempotency-Key`: Stripe would repeat a stored error for a day. */
export function createStripeClient(key: string, baseUrl: string) {
  const call: Call = async (path, signal, body) => {
    const response = await fetch(new URL(path, baseUrl), {
      headers: { authorization: `Bearer ${key}`, 'stripe-version': API_VERSION },
      redirect: 'manual',
      signal,
      ...(body && { method: 'POST', body }),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  };
  const findProblem = createCheck(call);
  return {
    /**
     * Stripe answers 200 to an event for an unknown customer or an unsuitable meter and then never bills it. Undefined
     * if the event can be sent.
     */
    async check({ customerId, eventName }: Pick<MeterEvent, 'customerId' | 'eventName'>) {
      try {
        const reason = await findProblem(customerId, eventName);
        return reason === undefined ? undefined : refusedFor(reason);
      } catch (error) {
        return error instanceof RefusedError ? error.refusal : refusedFor(describe(error));
      }
    },
    async send(event: MeterEvent): Promise<Answer> {
      const { identifier, eventName, customerId, value, timestampSeconds } = event;
      try {
        const body = new URLSearchParams({
          event_name: eventName,
          identifier,
          timestamp: String(timestampSeconds),
          'payload[stripe_customer_id]': customerId,
          'payload[value]': value,
        });
        const answer = await call('/v1/billing/meter_events', AbortSignal.timeout(TIMEOUT_MS), body);
        return readAnswer(answer, identifier);
      } catch (error) {
        return { kind: 'unclear', reason: describe(error) };
      }
    },
  };
}

type Call = (path: string, signal: AbortSignal, body?: URLSearchParams) => Promise<HttpAnswer>;

/** The function throws if Stripe returns no usable response. */
function createCheck(call: Call) {
  const customers = createRecentMap<string, number>(MAX_CUSTOMERS_KEPT);
  let meters: { known: Promise<Map<string, Meter>>; atMs: number } | undefined;

  async function readMeters(signal: AbortSignal): Promise<Map<string, Meter>> {
    const known = new Map<string, Meter>();
    let after = '';
    for (let page = 0; page < MAX_METER_PAGES; page++) {
      const answer = await call(`/v1/billing/meters?status=active&limit=100${after}`, signal);
      const { data, has_more: hasMore } = read(metersSchema, answer);
      for (const meter of data) known.set(meter.event_name, meter);
      if (!hasMore || data.length === 0) break;
      after = `&starting_after=${encodeURIComponent(data.at(-1)!.id)}`;
    }
    return known;
  }

  return async function findProblem(customerId: string, eventName: string): Promise<string | undefined> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const nowMs = performance.now();
    if (!meters || nowMs - meters.atMs > METERS_KEPT_MS) meters = { known: readMeters(signal), atMs: nowMs };
    const kept = meters;
    const problem = await kept.known.then(
      (known) => findMeterProblem(known.get(eventName), eventName),
      (error: unknown) => error,
    );
    if (problem !== undefined) {
      // Somebody may have created the right meter meanwhile.
      if (meters === kept) meters = undefined;
      if (typeof problem !== 'string') throw problem;
      return problem;
    }
    if (nowMs - (customers.get(customerId) ?? -Infinity) <= CUSTOMER_KEPT_MS) return undefined;
    const answer = await call(`/v1/customers/${encodeURIComponent(customerId)}`, signal);
    if (read(customerSchema, answer).deleted) return `The customer ${customerId} is deleted at Stripe`;
    customers.set(customerId, nowMs);
    return undefined;
  };
}

interface HttpAnswer {
  status: number;
  headers: Headers;
  body: unknown;
}

class RefusedError extends Error {
  readonly refusal: Refusal;
  constructor(refusal: Refusal) {
    super(refusal.reason);
    this.refusal = refusal;
  }
}

function read<T>(schema: z.ZodType<T>, answer: HttpAnswer): T {
  const { data } = schema.safeParse(answer.body);
  if (answer.status === 200 && data !== undefined) return data;
  throw new RefusedError(toRefusal(answer));
}

function findMeterProblem(meter: Meter | undefined, eventName: string): string | undefined {
  if (!meter) return `Stripe has no active meter with the event name ${eventName}`;
  if (meter.default_aggregation.formula !== 'sum' || meter.event_time_window)
    return `The meter ${eventName} must add up all values (formula sum, no event time window)`;
  const keys = [meter.customer_mapping.event_payload_key, meter.value_settings.event_payload_key];
  if (keys.join(' ') !== 'stripe_customer_id value')
    return `The meter ${eventName} must read the payload's stripe_customer_id and value`;
  return undefined;
}

/** A proxy's page says nothing about the event. */
function readAnswer(answer: HttpAnswer, identifier: string): Answer {
  const { status, body } = answer;
  if (status === 200 && recordedSchema.safeParse(body).data?.identifier === identifier)
    return { kind: 'recorded' };
  const error = errorSchema.safeParse(body).data?.error;
  if (!error || status < 400 || status >= 500 || status === 409)
    return { kind: 'unclear', reason: `Stripe answered ${status}` };
  const refusal = toRefusal(answer);
  return status === 400 && isDuplicate(error) ? { kind: 'exists', reason: refusal.reason } : refusal;
}

function toRefusal({ status, headers, body }: HttpAnswer): Refusal {
  const error = errorSchema.safeParse(body).data?.error;
  const text = error && `: ${error.message ?? error.code ?? error.type}`;
  return {
    kind: 'refused',
    reason: `Stripe answered ${status}${text ?? ''}`.slice(0, MAX_REASON_LENGTH),
    isGeneral: status === 401 || status === 403 || status === 429,
    retryAfterMs: readRetryAfter(headers.get('retry-after')) ?? 0,
  };
}

const isDuplicate = ({ code, message = '' }: { code?: string | undefined; message?: string | undefined }) =>
  code === 'duplicate_meter_event' || /already exists with identifier/i.test(message);

function describe(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  const text = cause instanceof Error ? cause.message : String(cause);
  return `Stripe did not answer: ${text}`.slice(0, MAX_REASON_LENGTH);
}
