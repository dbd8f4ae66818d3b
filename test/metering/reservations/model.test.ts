import fc from 'fast-check';
import { and, eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import type { UsageLimit } from '../../../src/metering/entitlements/table.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { isEmbedded } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { useService } from '../../support/use.js';

/** Use MODEL_RUNS=300 for a long run and MODEL_SEED to repeat one. The embedded database runs fewer by default. */
const numRuns = Number(process.env.MODEL_RUNS ?? (isEmbedded ? 4 : 10));
const seed = process.env.MODEL_SEED === undefined ? {} : { seed: Number(process.env.MODEL_SEED) };

const { database, service } = useService();

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const rolling: Record<string, number> = { PT1M: MINUTE, PT90M: 90 * MINUTE, PT5H: 5 * HOUR, P31D: 31 * DAY };

interface Hold {
  id: string;
  key: string;
  quantity: number;
  expiresAt: number;
  isReleased: boolean;
  settled?: { quantity: number; at: number; isLate: boolean };
}

/** The service's guarantees as a plain in-memory model. Quantities are in thousandths, times in ms. */
interface Model {
  now: number;
  limits: UsageLimit[];
  isEntitled: boolean;
  events: { key: string; quantity: number; at: number; receivedAt: number }[];
  holds: Hold[];
}

/** The fields of all responses, including errors. */
interface Answer {
  code?: string;
  accepted?: number;
  reservation: { id: string; status: string };
  reservations: { id: string }[];
  warnings: { code: string; limit?: { window: string; quantity: number }; used?: number }[];
  limits?: unknown[];
  entitlement?: { limits: unknown[] };
  results: { reason: string | null }[];
}

function windowAt(
  window: string,
  now: number,
): { counts: (at: number) => boolean; start: number; isAhead: (at: number) => boolean } {
  const lasts = rolling[window];
  if (lasts !== undefined)
    return { counts: (at) => at > now - lasts && at <= now, start: now - lasts, isAhead: (at) => at > now };
  const day = new Date(now);
  day.setUTCHours(0, 0, 0, 0);
  const end = new Date(day);
  if (window === 'calendar_month') {
    day.setUTCDate(1);
    end.setUTCDate(1);
    end.setUTCMonth(end.getUTCMonth() + 1);
  } else if (window === 'calendar_week') {
    while (day.getUTCDay() !== 1) day.setUTCDate(day.getUTCDate() - 1);
    end.setTime(day.getTime() + 7 * DAY);
  } else end.setTime(day.getTime() + DAY);
  const [from, to] = [day.getTime(), end.getTime()];
  return { counts: (at) => at >= from && at < to, start: from, isAhead: (at) => at >= to };
}

const sum = (values: { quantity: number }[]) => values.reduce((total, { quantity }) => total + quantity, 0);
const isHeld = ({ now }: Model, { settled, isReleased, expiresAt }: Hold) =>
  !settled && !isReleased && expiresAt > now;

function statesOf(model: Model) {
  const held = sum(model.holds.filter((hold) => isHeld(model, hold)));
  return model.limits.map(({ quantity: text, window, enforcement }) => {
    const quantity = Math.round(Number(text) * 1000);
    const { counts, isAhead, start } = windowAt(window, model.now);
    const used = sum(model.events.filter(({ at }) => counts(at)));
    const taken = used + held + sum(model.events.filter(({ at }) => isAhead(at)));
    return { quantity, window, enforcement, used, held, taken, start };
  });
}

const shown = (model: Model) =>
  statesOf(model).map(({ quantity, window, enforcement, used, held, taken }) => ({
    quantity: quantity / 1000,
    window,
    enforcement,
    used: used / 1000,
    held: held / 1000,
    remaining: Math.max(0, quantity - taken) / 1000,
  }));

/** Returns the exceeded limits whose current window starts no later than the event. */
const exceeded = (model: Model, at: number): string[] =>
  model.isEntitled
    ? statesOf(model)
        .filter(({ used, quantity, start }) => used > quantity && at >= start)
        .map(({ window, used, quantity }) => `limit_exceeded ${window} ${used}/${quantity}`)
    : [];

const blocks = (model: Model, more: number): boolean =>
  statesOf(model).some(
    ({ enforcement, taken, quantity }) => enforcement === 'block' && taken + more > quantity,
  );

type Step =
  | { do: 'reserve'; quantity: number; ttl: number }
  | { do: 'settle'; which: number; share: number | undefined; ago: number | undefined }
  | { do: 'release'; which: number }
  | { do: 'send'; quantity: number; ago: number | undefined }
  | { do: 'correct'; event: number; quantity: number; again: number | undefined }
  | { do: 'limit'; limits: UsageLimit[] }
  | { do: 'withdraw' | 'revoke' }
  | { do: 'wait'; ms: number };

const quantity = fc.constantFrom(0, 2, 500, 1_000, 2_250, 4_000, 9_998);
const ago = fc.constantFrom(
  undefined,
  undefined,
  0,
  1,
  MINUTE,
  90 * MINUTE,
  5 * HOUR - 1,
  DAY,
  7 * DAY - 1,
  -1,
  -4 * MINUTE,
);
const limit: fc.Arbitrary<UsageLimit> = fc.record({
  quantity: fc.constantFrom('0', '2.5', '5', '10', '20'),
  window: fc.constantFrom('calendar_month', 'calendar_week', 'calendar_day', ...Object.keys(rolling)),
  enforcement: fc.constantFrom('warn' as const, 'block' as const, 'block' as const),
});

const limits = fc.array(limit, { minLength: 1, maxLength: 4 });
const which = fc.nat(9);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('reserve' as const),
      quantity,
      ttl: fc.constantFrom(1, 60, 300, 86_400),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('settle' as const),
      which,
      share: fc.constantFrom(undefined, 0, 0.5, 1, 2),
      ago,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('release' as const), which }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('send' as const), quantity, ago }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('correct' as const),
      event: fc.nat(99),
      quantity,
      again: fc.option(quantity, { nil: undefined }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('limit' as const), limits }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('withdraw' as const, 'revoke' as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(
        1,
        999,
        MINUTE,
        10 * MINUTE,
        HOUR,
        90 * MINUTE,
        5 * HOUR,
        DAY,
        7 * DAY,
        29 * DAY,
        31 * DAY,
      ),
    }),
  },
);

/**
 * Start times shortly before a boundary: a leap day, the end of a week and a year, 31 January and the end of a short
 * February.
 */
const starts = [
  '2028-02-28T23:55:00.000Z',
  '2028-02-29T23:59:59.999Z',
  '2026-03-01T22:40:00.250Z',
  '2027-12-31T23:45:00.000Z',
  '2027-01-31T12:00:00.000Z',
  '2026-02-28T23:00:00.000Z',
];

/** Creates a service and a model of the service, which perform the same steps. */
async function setUp(start: string, declared: UsageLimit[]) {
  const { db } = database;
  service.clock.set(start);
  const organization = await createOrganization(db);
  const product = await createProduct(db, { maxQuantity: '1000000' });
  const givesRight = (to: UsageLimit[]) =>
    grant(db, organization.id, product.id, { limits: to, startsAt: new Date('2020-01-01') });
  await givesRight(declared);
  const scopes = ['usage:write', 'usage:correct', 'entitlements:read'];
  let key = await createKey(db, organization.id, { scopes });
  const model: Model = { now: Date.parse(start), limits: declared, isEntitled: true, events: [], holds: [] };
  const row = and(eq(entitlements.orgId, organization.id), eq(entitlements.productId, product.id));
  let names = 0;

  async function call(method: string, path: string, body?: object) {
    const response = await fetch(`${service.url}/api${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key.secret}`,
        ...(body ? { 'content-type': 'application/json' } : {}),
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, body: (await response.json()) as Answer };
  }

  const timeOf = (back: number | undefined) =>
    back === undefined ? {} : { occurredAt: new Date(model.now - back).toISOString() };
  const warningsOf = ({ warnings }: Answer) =>
    warnings
      .map(({ code, limit, used = 0 }) =>
        limit
          ? `${code} ${limit.window} ${Math.round(used * 1000)}/${Math.round(limit.quantity * 1000)}`
          : code,
      )
      .toSorted((a, b) => (a < b ? -1 : 1));

  async function reserve(asked: number, ttlSeconds: number): Promise<void> {
    const name = `r-${++names}`;
    const input = {
      productSlug: product.slug,
      metric: 'calls',
      quantity: asked / 1000,
      idempotencyKey: name,
      ttlSeconds,
    };
    const { status, body } = await call('POST', '/usage/reservations', input);
    if (!model.isEntitled) return expect([status, body.code]).toEqual([403, 'entitlement_required']);
    if (blocks(model, asked)) return expect([status, body.code]).toEqual([409, 'limit_reached']);
    expect([status, body.reservation?.status]).toEqual([201, 'held']);
    const expiresAt = model.now + ttlSeconds * 1000;
    model.holds.push({ id: body.reservation.id, key: name, quantity: asked, expiresAt, isReleased: false });
    expect(body.limits).toMatchObject(shown(model));
  }

  async function settle(hold: Hold, share: number | undefined, back: number | undefined): Promise<void> {
    const used = share === undefined ? hold.quantity : hold.quantity * share;
    const input = { ...(share === undefined ? {} : { quantity: used / 1000 }), ...timeOf(back) };
    const path = `/usage/reservations/${hold.id}/settle`;
    if (hold.settled) {
      // The body differs from the first settlement, at least in its time.
      const { status, body } = await call('POST', path, { quantity: (hold.settled.quantity + 1) / 1000 });
      return expect([status, body.code]).toEqual([409, 'idempotency_conflict']);
    }
    const isLate = !isHeld(model, hold);
    const at = model.now - (back ?? 0);
    hold.settled = { quantity: used, at, isLate };
    model.events.push({ key: hold.key, quantity: used, at, receivedAt: model.now });
    const expected = [
      ...(isLate ? ['reservation_expired'] : []),
      ...(used > hold.quantity ? ['reservation_exceeded'] : []),
      ...exceeded(model, at),
    ].sort();
    for (let repeat = 0; repeat < 2; repeat++) {
      const { status, body } = await call('POST', path, input);
      expect([status, body.accepted, warningsOf(body)]).toEqual([200, 1, expected]);
      expect(body.reservation).toMatchObject({ status: 'settled', settledQuantity: used / 1000 });
    }
  }

  async function release(hold: Hold): Promise<void> {
    const { status } = await call('DELETE', `/usage/reservations/${hold.id}`);
    expect(status).toBe(200);
    if (!hold.settled) hold.isReleased = true;
  }

  async function send(sent: number, back: number | undefined): Promise<void> {
    const event = {
      productSlug: product.slug,
      metric: 'calls',
      quantity: sent / 1000,
      idempotencyKey: `e-${++names}`,
    };
    const { status, body } = await call('POST', '/usage/events', { events: [{ ...event, ...timeOf(back) }] });
    if (!model.isEntitled) return expect(status).toBe(403);
    const at = model.now - (back ?? 0);
    model.events.push({ key: event.idempotencyKey, quantity: sent, at, receivedAt: model.now });
    expect([status, warningsOf(body)]).toEqual([202, exceeded(model, at).sort()]);
  }

  /** Corrects once, or twice in one request, and then repeats the request, which changes nothing. */
  async function correct(event: Model['events'][number], ...quantities: number[]): Promise<void> {
    const corrections = quantities.map((to) => ({
      idempotencyKey: event.key,
      quantity: to / 1000,
      reason: 'The model says so',
      correctionKey: `c-${++names}`,
    }));
    const before = event.quantity;
    for (const repeat of [false, true]) {
      const { status, body } = await call('POST', '/usage/corrections', { corrections });
      if (model.now - event.receivedAt > 35 * DAY)
        return expect([status, body.code]).toEqual([422, 'timestamp_out_of_range']);
      const results = quantities.map((to, i) => ({
        idempotencyKey: event.key,
        previousQuantity: (i === 0 ? before : quantities[i - 1]!) / 1000,
        quantity: to / 1000,
      }));
      const [applied, deduped] = repeat ? [0, quantities.length] : [quantities.length, 0];
      expect([status, body]).toEqual([200, { applied, deduped, results }]);
      event.quantity = quantities.at(-1)!;
    }
  }

  /** Revokes the key, checks that it has no further effect, and creates a new one. */
  async function revoke(): Promise<void> {
    await db.orm
      .update(apiKeys)
      .set({ revokedAt: new Date(model.now) })
      .where(eq(apiKeys.id, key.id));
    const held = model.holds.find((hold) => isHeld(model, hold));
    const input = { productSlug: product.slug, metric: 'calls', quantity: 0, idempotencyKey: `r-${++names}` };
    for (const [method, path, body] of [
      ['POST', '/usage/reservations', input],
      ...(held
        ? ([
            ['POST', `/usage/reservations/${held.id}/settle`, {}],
            ['DELETE', `/usage/reservations/${held.id}`],
          ] as const)
        : []),
    ] as const)
      expect((await call(method, path, body)).body.code).toBe('key_revoked');
    key = await createKey(db, organization.id, { scopes });
  }

  async function take(one: Step): Promise<void> {
    const hold = 'which' in one ? model.holds[one.which % Math.max(1, model.holds.length)] : undefined;
    switch (one.do) {
      case 'reserve':
        return reserve(one.quantity, one.ttl);
      case 'settle':
        return hold && settle(hold, one.share, one.ago);
      case 'release':
        return hold && release(hold);
      case 'send':
        return send(one.quantity, one.ago);
      case 'correct': {
        const event = model.events[one.event % Math.max(1, model.events.length)];
        return event && correct(event, one.quantity, ...(one.again === undefined ? [] : [one.again]));
      }
      case 'limit':
        model.limits = one.limits;
        if (model.isEntitled) await db.orm.update(entitlements).set({ limits: one.limits }).where(row);
        return;
      case 'withdraw':
        if (model.isEntitled) await db.orm.delete(entitlements).where(row);
        else await givesRight(model.limits);
        model.isEntitled = !model.isEntitled;
        return;
      case 'revoke':
        return revoke();
      case 'wait':
        model.now += one.ms;
        service.clock.advance(one.ms);
    }
  }

  async function expectSame(): Promise<void> {
    const { status, body } = await call('GET', `/entitlements/${product.slug}`);
    if (!model.isEntitled) return expect(status).toBe(404);
    expect(body.limits ?? body.entitlement?.limits).toMatchObject(shown(model));
    const items = [{ productSlug: product.slug, quantity: 1.5 }];
    const { results } = (await call('POST', '/entitlements/check', { items })).body;
    expect(results[0]?.reason).toBe(blocks(model, 1_500) ? 'limit_reached' : null);
  }

  async function expectSameAtTheEnd(): Promise<void> {
    for (const status of ['held', 'settled', 'released', 'expired']) {
      const own = model.holds.filter((hold) => statusOf(hold) === status).map(({ id }) => id);
      const { reservations } = (await call('GET', `/usage/reservations?status=${status}&limit=500`)).body;
      expect(reservations.map(({ id }) => id).sort()).toEqual(own.sort());
    }
    const drift = await compare(db.orm, { orgId: organization.id });
    expect(drift).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  }
  const statusOf = (hold: Hold) =>
    hold.settled ? 'settled' : hold.isReleased ? 'released' : isHeld(model, hold) ? 'held' : 'expired';

  return { take, expectSame, expectSameAtTheEnd };
}

it(
  'used, held and remaining, every refusal and every warning match a plain model',
  { timeout: 900_000 },
  async () => {
    const steps = fc.array(step, { minLength: 5, maxLength: 40, size: 'max' });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...starts), limits, steps, async (start, declared, sequence) => {
        const both = await setUp(start, declared);
        for (const one of sequence) {
          await both.take(one);
          await both.expectSame();
        }
        await both.expectSameAtTheEnd();
      }),
      { numRuns, ...seed },
    );
  },
);
