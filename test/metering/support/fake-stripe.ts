import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout } from 'node:timers/promises';

const DAY_SECONDS = 86_400;

export interface FakeMeter {
  status?: 'active' | 'inactive';
  formula?: 'sum' | 'count' | 'last';
  event_time_window?: 'hour' | 'day' | null;
}

export interface CountedEvent {
  identifier: string;
  event_name: string;
  customer: string;
  value: string;
  timestamp: number;
  livemode: boolean;
}

/**
 * - `lose request`: closes the connection before anything is recorded
 * - `lose answer`: records the event and closes the connection
 * - `500`, `500 after recording`, `502 page`: fails without effect, fails after recording, or fails as a proxy does
 * - `double`: the network delivers the request twice, and the first response arrives
 * - `double, second answer`: the same, but the second response arrives
 * - `delay`: responds after a while
 * - `429`, `401`: refuses
 */
export type Fault =
  | 'lose request'
  | 'lose answer'
  | '500'
  | '500 after recording'
  | '502 page'
  | 'double'
  | 'double, second answer'
  | 'delay'
  | '429'
  | '401';

interface Reply {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
}

const refuse = (status: number, message: string, code?: string): Reply => ({
  status,
  body: {
    error: {
      type: status === 429 ? 'rate_limit_error' : 'invalid_request_error',
      message,
      ...(code && { code }),
    },
  },
});

/**
 * Stripe's Billing API as its public documentation describes it: customers, meters and `POST /v1/billing/meter_events`.
 * An event for an unknown customer or meter gets 200 but is not counted.
 * @param now seconds since 1970
 */
export async function startFakeStripe(
  now: () => number,
  { latencyMs = 0, delayMs = 50, keys = ['sk_live_fake00000', 'sk_test_fake00000'] } = {},
) {
  const customers = new Map<string, { deleted?: boolean }>();
  const meters = new Map<string, FakeMeter>();
  const identifiers = new Map<string, number>();
  const counted: CountedEvent[] = [];
  /** Accepted events that Stripe would later report as errors. */
  const uncounted: CountedEvent[] = [];
  const busy = new Set<string>();
  const state = {
    requests: 0,
    /** Calls for a customer and meter that overlapped another such call; Stripe limits these. */
    overlaps: 0,
    fault: (): Fault | undefined => undefined,
  };

  function record(form: URLSearchParams, livemode: boolean): Reply {
    const [name, identifier, time] = ['event_name', 'identifier', 'timestamp'].map((field) =>
      form.get(field),
    );
    const [customer, value] = ['stripe_customer_id', 'value'].map((field) => form.get(`payload[${field}]`));
    if (!name) return refuse(400, 'Missing required param: event_name.', 'parameter_missing');
    if (!customer || !value) return refuse(400, 'Missing required param: payload.', 'parameter_missing');
    if (!identifier || identifier.length > 100) return refuse(400, 'Invalid identifier', 'string_too_long');
    if (!/^-?\d+(\.\d{1,12})?$/.test(value) || value.replace(/^-?0*\.?0*|\.|0+$/g, '').length > 15)
      return refuse(400, `Invalid value ${value}`, 'billing_meter_event_invalid_value');
    const timestamp = Number(time);
    if (timestamp < now() - 35 * DAY_SECONDS)
      return refuse(400, 'The timestamp is too far in the past', 'timestamp_too_far_in_past');
    if (timestamp > now() + 300) return refuse(400, 'The timestamp is in the future', 'timestamp_in_future');
    const scoped = `${livemode} ${identifier}`;
    const seen = identifiers.get(scoped);
    if (seen !== undefined && now() - seen < DAY_SECONDS)
      return refuse(400, `An event already exists with identifier ${identifier}.`, 'duplicate_meter_event');
    identifiers.set(scoped, now());
    const event = { identifier, event_name: name, customer, value, timestamp, livemode };
    const meter = meters.get(name);
    const isKnown = customers.get(customer)?.deleted === false && meter && meter.status !== 'inactive';
    (isKnown ? counted : uncounted).push(event);
    return {
      status: 200,
      body: {
        object: 'billing.meter_event',
        created: Math.floor(now()),
        livemode,
        identifier,
        event_name: name,
        timestamp,
        payload: { stripe_customer_id: customer, value },
      },
    };
  }

  function listMeters(query: URLSearchParams): Reply {
    const wanted = [...meters].filter(([, { status = 'active' }]) => status === query.get('status'));
    const from = wanted.findIndex(([name]) => `mtr_${name}` === query.get('starting_after')) + 1;
    const limit = Number(query.get('limit') ?? 10);
    const page = wanted
      .slice(from, from + limit)
      .map(([name, { formula = 'sum', event_time_window = null }]) => ({
        id: `mtr_${name}`,
        object: 'billing.meter',
        event_name: name,
        status: 'active',
        default_aggregation: { formula },
        event_time_window,
        customer_mapping: { type: 'by_id', event_payload_key: 'stripe_customer_id' },
        value_settings: { event_payload_key: 'value' },
      }));
    return { status: 200, body: { object: 'list', data: page, has_more: from + limit < wanted.length } };
  }

  function readCustomer(id: string): Reply {
    const customer = customers.get(id);
    if (!customer) return refuse(404, `No such customer: '${id}'`, 'resource_missing');
    return { status: 200, body: { id, object: 'customer', ...(customer.deleted && { deleted: true }) } };
  }

  async function answerEvent(
    text: string,
    livemode: boolean,
    fault: Fault | undefined,
  ): Promise<Reply | 'close'> {
    const form = new URLSearchParams(text);
    const turn = `${form.get('payload[stripe_customer_id]')} ${form.get('event_name')}`;
    if (busy.has(turn)) state.overlaps++;
    busy.add(turn);
    try {
      if (latencyMs > 0 || fault === 'delay') await setTimeout(latencyMs + (fault === 'delay' ? delayMs : 0));
      if (fault === 'lose request') return 'close';
      if (fault === '500') return refuse(500, 'An unknown error occurred');
      if (fault === '502 page') return { status: 502, body: '<html>Bad gateway</html>' };
      if (fault === '429') return { ...refuse(429, 'Too many requests'), headers: { 'retry-after': '1' } };
      if (fault === '401') return refuse(401, 'Invalid API Key provided');
      const first = record(form, livemode);
      if (latencyMs > 0) await setTimeout(latencyMs);
      if (fault === 'lose answer') return 'close';
      if (fault === '500 after recording') return refuse(500, 'An unknown error occurred');
      if (fault === 'double') record(form, livemode);
      return fault === 'double, second answer' ? record(form, livemode) : first;
    } finally {
      busy.delete(turn);
    }
  }

  async function answer(req: IncomingMessage, text: string): Promise<Reply | 'close'> {
    const { pathname, searchParams } = new URL(req.url!, 'http://stripe');
    const key = /^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1];
    if (!key || !keys.includes(key)) return refuse(401, 'Invalid API Key provided');
    const livemode = key.startsWith('sk_live_') || key.startsWith('rk_live_');
    if (req.method === 'GET' && pathname === '/v1/billing/meters') return listMeters(searchParams);
    const id = /^\/v1\/customers\/(\w+)$/.exec(pathname)?.[1];
    if (req.method === 'GET' && id !== undefined) return readCustomer(id);
    if (req.method !== 'POST' || pathname !== '/v1/billing/meter_events')
      return refuse(404, `Unrecognized request URL (${req.method}: ${pathname}).`);
    if (!/^application\/x-www-form-urlencoded\b/.test(req.headers['content-type'] ?? ''))
      return refuse(400, 'Invalid request: the body must be form-encoded');
    state.requests++;
    return answerEvent(text, livemode, state.fault());
  }

  function reply(res: ServerResponse, given: Reply | 'close'): void {
    if (given === 'close') return void res.destroy();
    res.writeHead(given.status, { 'content-type': 'application/json', ...given.headers });
    res.end(typeof given.body === 'string' ? given.body : JSON.stringify(given.body));
  }

  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on(
      'end',
      () => void answer(req, Buffer.concat(chunks).toString()).then((given) => reply(res, given)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    key: keys[0]!,
    testKey: keys[1]!,
    customers,
    meters,
    counted,
    uncounted,
    state,
    /** Quantities that Stripe would bill, by customer, meter and hour, in units of 1e-12. */
    sums(of?: string): Record<string, string> {
      const sums = new Map<string, bigint>();
      for (const { customer, event_name: name, timestamp, value, livemode } of counted) {
        if (of !== undefined && customer !== of) continue;
        const hour = new Date(timestamp * 1000).toISOString().slice(0, 13);
        const key = `${livemode ? '' : 'test '}${customer} ${name} ${hour}`;
        sums.set(key, (sums.get(key) ?? 0n) + toUnits(value));
      }
      return toTexts(sums);
    },
    inFlight: () => busy.size,
    has: (identifier: string) => counted.some((event) => event.identifier === identifier),
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

const SCALE = 12;

/** Converts a decimal exactly to units of 1e-12. */
export function toUnits(decimal: string): bigint {
  const [, sign, whole = '', fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(decimal)!;
  return BigInt(sign + whole + fraction.padEnd(SCALE, '0'));
}

/** Returns the nonzero sums, sorted. */
export const toTexts = (sums: ReadonlyMap<string, bigint>): Record<string, string> =>
  Object.fromEntries(
    [...sums]
      .filter(([, units]) => units !== 0n)
      .map(([key, units]) => [key, String(units)])
      .sort(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  );

export type FakeStripe = Awaited<ReturnType<typeof startFakeStripe>>;
