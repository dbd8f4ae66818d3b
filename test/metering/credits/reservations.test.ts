import { describe, expect, it } from 'vitest';
import { eq } from 'drizzle-orm';
import { products, type UsageLimit } from '../../../src/metering/entitlements/table.js';
import { makeFaulty } from '../../support/faulty-database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { startTestService } from '../../support/service.js';
import { useService } from '../../support/use.js';
import { addGrant, findCreditDrift, readAccount, type NewGrant } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';

const { database, service, startAnother } = useService();

type Values = Partial<typeof products.$inferInsert>;

async function call(method: string, path: string, secret: string | undefined, body?: unknown) {
  const response = await fetch(path.startsWith('http') ? path : service.url + path, {
    method,
    headers: {
      ...(secret ? { authorization: `Bearer ${secret}` } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, text, body: JSON.parse(text) as Record<string, any> };
}

const PATH = '/api/usage/reservations';

/** Creates an Organization with grants and products that cost credits. */
async function tenant(grants: string[] = [], price: Values = {}, limits: UsageLimit[] | null = null) {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const { secret } = await createKey(db, orgId);
  let n = 0;
  const addProduct = async (values: Values = {}) => {
    const product = await createProduct(db);
    const costs = { creditPrice: '1', creditEnforcement: 'block' as const, ...price, ...values };
    await db.orm.update(products).set(costs).where(eq(products.id, product.id));
    await grant(db, orgId, product.id, { limits });
    return product;
  };
  const product = await addProduct();
  const give = (amount: string, more: Partial<NewGrant> = {}) =>
    addGrant(db, orgId, { amount, ...more }, new Date(service.clock.now()));
  for (const amount of grants) await give(amount);
  return {
    orgId,
    secret,
    product,
    addProduct,
    give,
    setPrice: (values: Values) => db.orm.update(products).set(values).where(eq(products.id, product.id)),
    reserve: async (quantity: unknown, more: Record<string, unknown> = {}, own = secret, url = '') =>
      call('POST', url + PATH, own, {
        productSlug: product.slug,
        metric: 'calls',
        quantity,
        idempotencyKey: `r-${++n}`,
        ...more,
      }),
    settle: (id: string, body: object = {}) => call('POST', `${PATH}/${id}/settle`, secret, body),
    account: async (part: 'rests' | 'debts') => (await readAccount(db, orgId))[part],
    drift: () => findCreditDrift(db, orgId),
    check: async (...items: object[]) =>
      (await call('POST', '/api/entitlements/check', secret, { items })).body.results as Record<
        string,
        any
      >[],
    find: async (slug = product.slug) => (await call('GET', `/api/entitlements/${slug}`, secret)).body,
    release: (id: string) => call('DELETE', `${PATH}/${id}`, secret),
    send: (quantity: number, more: object = {}) =>
      sendUsage(service.url, secret, [usageEvent(product.slug, `e-${++n}`, { quantity, ...more })]),
  };
}

const codeOf = ({ status, body }: { status: number; body: Record<string, any> }) => body.code ?? status;

describe('a reservation of a product that blocks', () => {
  it('fits exactly, to the last of twelve places, and not one unit more', async () => {
    const t = await tenant(['0.300000000003'], { creditPrice: '0.100000000001' });
    const refused = await t.reserve(3.5);
    expect(refused).toMatchObject({ status: 409, body: { code: 'credits_exhausted' } });
    expect(refused.text).toContain('"required":0.3500000000035,"available":0.300000000003');
    expect((await t.reserve(2)).status).toBe(201);
    const more = await t.reserve(1.000000000001);
    expect(more.text).toContain('"available":0.100000000001');
    expect((await t.reserve(1)).status).toBe(201);
    expect(codeOf(await t.reserve(1e-12))).toBe('credits_exhausted');
    // A quantity of 0 costs nothing, so it is accepted.
    expect((await t.reserve(0)).status).toBe(201);
  });

  it('is refused without any grant, and holds nothing then', async () => {
    const t = await tenant();
    const { creditRefusals } = service.context.metrics;
    const refusals = async () => (await creditRefusals.get()).values[0]!.value;
    const before = await refusals();
    expect((await t.reserve(1)).body).toMatchObject({ code: 'credits_exhausted', required: 1, available: 0 });
    expect(await refusals()).toBe(before + 1);
    expect((await call('GET', PATH, t.secret)).body.reservations).toEqual([]);
    await t.give('1');
    expect((await t.reserve(1)).status).toBe(201);
    expect(await refusals()).toBe(before + 1);
  });

  it('costs the price of its dimensions', async () => {
    const t = await tenant(['10']);
    const dear = await t.addProduct({
      dimensions: ['model'],
      creditPrice: '1',
      creditDimension: 'model',
      creditPrices: { large: '4' },
    });
    const of = (model: string | undefined, quantity: number) =>
      t.reserve(quantity, { productSlug: dear.slug, ...(model ? { dimensions: { model } } : {}) });
    expect((await of('large', 2.5)).status).toBe(201);
    expect((await of('large', 0.5)).body).toMatchObject({ required: 2, available: 0 });
    await t.give('3');
    expect((await of('small', 2)).status).toBe(201);
    expect((await of(undefined, 1)).status).toBe(201);
    expect(codeOf(await of('__proto__', 1))).toBe('credits_exhausted');
    expect(codeOf(await t.reserve(1, { productSlug: dear.slug, dimensions: { size: 'xl' } }))).toBe(
      'unknown_dimension',
    );
  });

  it('shares grants with other products, and keeps what applies to its product alone', async () => {
    const t = await tenant(['10']);
    const other = await t.addProduct();
    await t.give('3', { productIds: [other.id] });
    const theirs = { productSlug: other.slug };
    expect((await t.reserve(8)).status).toBe(201);
    expect((await t.reserve(6, theirs)).body).toMatchObject({ required: 6, available: 5 });
    expect((await t.reserve(5, theirs)).status).toBe(201);
    // All 13 credits are held, whichever product burns first.
    expect((await t.reserve(0.5)).body.available).toBe(0);
    expect((await t.reserve(0.5, theirs)).body.available).toBe(0);
  });

  it('takes turns with other products in one flush until each has what its grants allow', async () => {
    const t = await tenant(['6']);
    const other = await t.addProduct();
    await t.give('5', { productIds: [other.id] });
    await t.give('5', { productIds: [t.product.id] });
    const made = await Promise.all(
      Array.from({ length: 40 }, (_, i) => t.reserve(1, i % 2 ? { productSlug: other.slug } : {})),
    );
    expect(made.filter(({ status }) => status === 201)).toHaveLength(16);
    expect(new Set(made.flatMap(({ body }) => body.code ?? []))).toEqual(new Set(['credits_exhausted']));
  });

  it('counts no holds of the other mode or of another Organization', async () => {
    const t = await tenant(['5']);
    const other = await tenant(['5']);
    await t.give('7', { livemode: false });
    const testKey = await createKey(database.db, t.orgId, { livemode: false });
    expect((await t.reserve(7, {}, testKey.secret)).status).toBe(201);
    expect((await other.reserve(5)).status).toBe(201);
    expect((await t.reserve(5)).status).toBe(201);
    expect((await t.reserve(1, {}, testKey.secret)).body.available).toBe(0);
  });

  it('gets its room back when others are released, expire, or settle for less', async () => {
    const t = await tenant(['6']);
    const ids: string[] = [];
    for (const ttlSeconds of [60, 600, 600])
      ids.push((await t.reserve(2, { ttlSeconds })).body.reservation.id);
    expect((await t.reserve(1)).body.available).toBe(0);
    await t.release(ids[1]!);
    expect((await t.reserve(3)).body.available).toBe(2);
    await t.settle(ids[2]!, { quantity: 0.5 });
    expect((await t.reserve(4)).body.available).toBe(3.5);
    service.clock.advance(60_000);
    expect((await t.reserve(6)).body.available).toBe(5.5);
    expect((await t.reserve(5.5)).status).toBe(201);
  });

  it('is held once for the same key, and refused for another body', async () => {
    const t = await tenant(['5']);
    const same = { idempotencyKey: 'same' };
    const made = await Promise.all([1, 2, 3].map(() => t.reserve(5, same)));
    expect(made.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 201]);
    await t.setPrice({ creditPrice: '3' });
    expect((await t.reserve(5, same)).status).toBe(200);
    expect(codeOf(await t.reserve(4, same))).toBe('idempotency_conflict');
  });

  it('must fit limits and credits, and names the limit first', async () => {
    const limits: UsageLimit[] = [
      { quantity: '10', window: 'calendar_day', enforcement: 'block' },
      { quantity: '6', window: 'calendar_day', enforcement: 'block', per: 'subject' },
    ];
    const t = await tenant(['8'], { subjectsSince: new Date(0) }, limits);
    const [ann, bob] = [{ subject: 'ann' }, { subject: 'bob' }];
    expect(codeOf(await t.reserve(11, ann))).toBe('limit_reached');
    expect(codeOf(await t.reserve(7, ann))).toBe('limit_reached');
    expect(codeOf(await t.reserve(9))).toBe('credits_exhausted');
    expect((await t.reserve(6, ann)).status).toBe(201);
    expect(codeOf(await t.reserve(1, ann))).toBe('limit_reached');
    expect((await t.reserve(3, bob)).body).toMatchObject({ code: 'credits_exhausted', available: 2 });
    expect((await t.reserve(2, bob)).status).toBe(201);
    await t.give('100');
    expect((await t.reserve(3, bob)).body).toMatchObject({ code: 'limit_reached', limit: { remaining: 2 } });
  });

  it('is refused with hostile values, and then holds nothing; another Organization cannot end it', async () => {
    const t = await tenant(['5']);
    for (const quantity of [-1, '1', null, true]) expect((await t.reserve(quantity)).status).toBe(400);
    const text = (quantity: string) =>
      `{"productSlug":"${t.product.slug}","metric":"calls","idempotencyKey":"k","quantity":${quantity}}`;
    expect((await call('POST', PATH, t.secret, text('1e400'))).status).toBe(400);
    const tiny = await call('POST', PATH, t.secret, text(`5.${'0'.repeat(90)}1`));
    expect(tiny.text).toContain(`"required":5.${'0'.repeat(90)}1,"available":5`);
    expect((await t.reserve(5)).status).toBe(201);
    const other = await tenant(['5']);
    const { id } = (await other.reserve(1)).body.reservation;
    expect((await t.settle(id)).status).toBe(404);
    expect((await t.release(id)).status).toBe(404);
  });
});

it('a product that warns holds beyond the grants, and those holds count for products that block', async () => {
  const t = await tenant(['5']);
  const warning = await t.addProduct({ creditEnforcement: 'warn' });
  expect((await t.reserve(4, { productSlug: warning.slug })).status).toBe(201);
  expect((await t.reserve(2)).body).toMatchObject({ required: 2, available: 1 });
  expect((await t.reserve(4, { productSlug: warning.slug })).status).toBe(201);
  expect((await t.reserve(1)).body.available).toBe(0);
});

it('a product without a price can be reserved beside one that has a price', async () => {
  const t = await tenant(['1']);
  const free = await createProduct(database.db);
  await grant(database.db, t.orgId, free.id);
  const made = await Promise.all([
    t.reserve(1),
    t.reserve(1_000, { productSlug: free.slug }),
    t.reserve(1),
    t.reserve(1_000, { productSlug: free.slug }),
  ]);
  expect(made.map(codeOf)).toEqual([201, 201, 'credits_exhausted', 201]);
});

describe('a settlement', () => {
  it('burns at the price of the hold, whatever the price is now, in the commit that ends the hold', async () => {
    const t = await tenant(['10'], { creditPrice: '0.5' });
    const { id } = (await t.reserve(8)).body.reservation;
    await t.setPrice({ creditPrice: '100' });
    const settled = await t.settle(id, { quantity: 6 });
    expect(settled.body).toMatchObject({ accepted: 1, warnings: [] });
    expect(Object.values(await t.account('rests'))).toEqual(['7']);
    expect((await t.settle(id, { quantity: 6 })).body).toEqual(settled.body);
    expect((await t.reserve(1)).body).toMatchObject({ required: 100, available: 7 });
    expect(await t.drift()).toEqual([]);
  });

  it('above the hold burns all of it, and warns of the overdraft, again when repeated', async () => {
    const t = await tenant(['10']);
    const { id } = (await t.reserve(10)).body.reservation;
    const settled = await t.settle(id, { quantity: 12.5 });
    expect(settled.body.warnings).toEqual([
      { code: 'reservation_exceeded', reserved: 10, used: 12.5 },
      { code: 'credits_overdrawn', productSlug: t.product.slug, overdraft: 2.5 },
    ]);
    expect((await t.settle(id, { quantity: 12.5 })).body).toEqual(settled.body);
    expect(await t.account('debts')).toEqual({ [t.product.id]: '2.5' });
    // A new grant first pays the overdraft.
    await t.give('3');
    expect((await t.reserve(1)).body.available).toBe(0.5);
    expect((await t.settle(id, { quantity: 12.5 })).body.warnings).toHaveLength(1);
    expect(await t.drift()).toEqual([]);
  });

  it('of an expired or released hold burns as well', async () => {
    const t = await tenant(['10']);
    const [first, second] = [await t.reserve(4, { ttlSeconds: 60 }), await t.reserve(4)].map(
      ({ body }) => body.reservation.id as string,
    );
    await t.release(second!);
    service.clock.advance(60_000);
    for (const id of [first!, second!])
      expect((await t.settle(id)).body).toMatchObject({
        accepted: 1,
        warnings: [{ code: 'reservation_expired' }],
      });
    expect((await t.reserve(3)).body.available).toBe(2);
    expect(await t.drift()).toEqual([]);
  });

  it('burns nothing for an event that was recorded before with its key', async () => {
    const t = await tenant(['10']);
    const { id } = (await t.reserve(5, { idempotencyKey: 'twice' })).body.reservation;
    await sendUsage(service.url, t.secret, [usageEvent(t.product.slug, 'twice', { quantity: 4 })]);
    expect((await t.settle(id)).body).toMatchObject({ accepted: 0, deduped: 1 });
    expect(Object.values(await t.account('rests'))).toEqual(['6']);
    expect(await t.drift()).toEqual([]);
  });

  it('after its grant expired burns the next one for current usage, and the expired one for earlier usage', async () => {
    service.clock.set('2026-03-01T10:30:00Z');
    const t = await tenant();
    const expiresAt = new Date('2026-03-01T11:00:00Z');
    const short = await t.give('10', { expiresAt, priority: 1 });
    const [a, b] = [await t.reserve(4, { ttlSeconds: 3_600 }), await t.reserve(4, { ttlSeconds: 3_600 })].map(
      ({ body }) => body.reservation.id as string,
    );
    await t.give('7');
    service.clock.set('2026-03-01T10:59:59.999Z');
    expect((await t.reserve(10)).body.available).toBe(9);
    // The first grant has expired, so the holds now count against the second.
    service.clock.set('2026-03-01T11:00:00Z');
    expect((await t.reserve(1)).body.available).toBe(0);
    expect((await t.settle(a!)).status).toBe(200);
    expect((await t.account('rests'))[short]).toBe('10');
    await t.settle(b!, { occurredAt: '2026-03-01T10:59:59Z' });
    expect((await t.account('rests'))[short]).toBe('6');
    expect((await t.reserve(4)).body.available).toBe(3);
    expect(await t.drift()).toEqual([]);
  });

  it('beside one without credits counts both', async () => {
    const t = await tenant(['10']);
    const free = await createProduct(database.db);
    await grant(database.db, t.orgId, free.id);
    const made = [await t.reserve(4), await t.reserve(9, { productSlug: free.slug })];
    const settled = await Promise.all(made.map(({ body }) => t.settle(body.reservation.id)));
    expect(settled.map(({ body }) => [body.accepted, body.warnings])).toEqual([
      [1, []],
      [1, []],
    ]);
    expect((await t.reserve(7)).body.available).toBe(6);
    expect(await t.drift()).toEqual([]);
  });
});

it('instances whose clocks differ by 30 seconds hold no credit twice, and one of them sees the hold longer', async () => {
  const ahead = await startAnother();
  const t = await tenant(['10']);
  ahead.clock.set(new Date(service.clock.now() + 30_000).toISOString());
  const made = await Promise.all(
    Array.from({ length: 30 }, (_, i) =>
      t.reserve(1, { ttlSeconds: 60 }, t.secret, i % 2 ? ahead.url : service.url),
    ),
  );
  const held = made.filter(({ status }) => status === 201);
  expect(held).toHaveLength(10);
  service.clock.advance(60_000);
  ahead.clock.advance(60_000);
  const behind = held.filter(({ body }) => Date.parse(body.reservation.expiresAt) > service.clock.now());
  expect((await t.reserve(11)).body.available).toBe(10 - behind.length);
  expect((await t.reserve(11, {}, t.secret, ahead.url)).body.available).toBe(10);
});

describe('a check', () => {
  it('is not allowed if the quantity costs more than is left, or if nothing is', async () => {
    const t = await tenant(['0.3'], { creditPrice: '0.1' });
    const { slug: productSlug } = t.product;
    const reasons = async (...quantities: (number | undefined)[]) =>
      (await t.check(...quantities.map((quantity) => ({ productSlug, quantity })))).map(
        ({ allowed, reason }) => (allowed ? true : reason),
      );
    expect(await reasons(3, 3.0000001, 0, undefined)).toEqual([true, 'credits_exhausted', true, true]);
    const { id } = (await t.reserve(1)).body.reservation;
    expect(await reasons(2, 2.5)).toEqual([true, 'credits_exhausted']);
    await t.reserve(2);
    expect(await reasons(1, 0, undefined)).toEqual(Array(3).fill('credits_exhausted'));
    await t.release(id);
    expect(await reasons(1, undefined)).toEqual([true, true]);
    await t.setPrice({ creditEnforcement: 'warn' });
    expect(await reasons(100)).toEqual([true]);
    await t.setPrice({ creditEnforcement: 'block', creditPrice: '0' });
    expect(await reasons(100, 0)).toEqual([true, true]);
    const slugs = { productSlugs: [productSlug, 'none'] };
    const { results } = (await call('POST', '/api/entitlements/check', t.secret, slugs)).body;
    expect(results).toMatchObject([{ allowed: true }, { reason: 'entitlement_required' }]);
  });

  it('reads open grants with the balances, once products are known to cost credits', async () => {
    const t = await tenant(['2']);
    const { slug: productSlug } = t.product;
    const faulty = makeFaulty(database.db);
    let read: string[] = [];
    faulty.before = ({ name }) => void read.push(name);
    const other = await startTestService(faulty.db, { context: { clock: service.clock } });
    try {
      const check = async (quantity: number) => {
        read = [];
        const path = `${other.url}/api/entitlements/check`;
        const { results } = (await call('POST', path, t.secret, { items: [{ productSlug, quantity }] })).body;
        return [results[0].allowed, ...read.filter((name) => /^(entitlements|credits)_/.test(name))];
      };
      await check(1);
      expect(await check(2)).toEqual([true, 'entitlements_check_priced']);
      await t.send(1);
      expect(await check(2)).toEqual([false, 'entitlements_check_priced']);
      // The check must now subtract the open hold.
      await t.reserve(0.5);
      expect(await check(0.6)).toEqual([false, 'entitlements_check_priced', 'credits_find_rooms']);
      await t.setPrice({ creditPrice: null, creditEnforcement: null });
      expect(await check(9)).toEqual([true, 'entitlements_check_priced']);
      expect(await check(9)).toEqual([true, 'entitlements_check']);
      await t.setPrice({ creditPrice: '1', creditEnforcement: 'block' });
      await t.give('1');
      const rest = ['entitlements_check', 'credits_find_open_grants', 'credits_find_rooms'];
      expect(await check(1.6)).toEqual([false, ...rest]);
      expect(await check(1.5)).toEqual([true, 'entitlements_check_priced', 'credits_find_rooms']);
    } finally {
      await other.stop();
    }
  });

  it('finds the price by the dimensions of each item', async () => {
    const t = await tenant(['10'], { creditDimension: 'model', creditPrices: { large: '4' } });
    await t.setPrice({ dimensions: ['model', 'region'] });
    const item = (quantity: number, dimensions?: object) => ({
      productSlug: t.product.slug,
      quantity,
      ...(dimensions ? { dimensions } : {}),
    });
    const results = await t.check(
      item(2.5, { model: 'large' }),
      item(3, { model: 'large' }),
      item(3, { model: 'small' }),
      item(10, { region: 'large' }),
      item(11, { model: '__proto__' }),
      item(10),
    );
    expect(results.map(({ allowed }) => allowed)).toEqual([true, false, true, true, false, true]);
  });

  it('names a limit before the credits, and no other account counts', async () => {
    const limits: UsageLimit[] = [{ quantity: '5', window: 'calendar_day', enforcement: 'block' }];
    const t = await tenant(['3'], {}, limits);
    await tenant(['100']);
    await t.give('100', { livemode: false });
    const { slug: productSlug } = t.product;
    const checked = await t.check({ productSlug, quantity: 6 }, { productSlug, quantity: 4 });
    expect(checked.map(({ reason }) => reason)).toEqual(['limit_reached', 'credits_exhausted']);
  });
});

it('an entitlement shows the price and the available credits, or neither if there is no price', async () => {
  const t = await tenant(['10'], { creditPrice: '0.000000000001' });
  const free = await createProduct(database.db);
  await grant(database.db, t.orgId, free.id);
  await t.reserve(4_000_000_000_000);
  const credits = { price: 0.000000000001, enforcement: 'block', available: 6 };
  expect((await t.find()).credits).toEqual(credits);
  expect(await t.find(free.slug)).not.toHaveProperty('credits');
  const { entitlements: listed } = (await call('GET', '/api/entitlements', t.secret)).body;
  expect(listed.map((one: { credits?: object }) => one.credits)).toEqual([credits, undefined]);
});
