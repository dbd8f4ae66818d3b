import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { expectLedgerToBalance, giveCredits } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

const NOW = '2031-03-20T12:34:00.000Z';
const organizations: string[] = [];
beforeEach(() => service.clock.set(NOW));
afterEach(async () => {
  for (const orgId of organizations.splice(0)) await expectLedgerToBalance(database.db, orgId);
});

async function arrive() {
  const { db } = database;
  const { id: orgId, slug } = await createOrganization(db);
  organizations.push(orgId);
  const addProduct = async () => {
    const product = await createProduct(db, { creditPrice: '1', creditEnforcement: 'warn' });
    await grant(db, orgId, product.id);
    return product;
  };
  const product = await addProduct();
  const live = await createKey(db, orgId);
  const test = await createKey(db, orgId, { livemode: false });
  const { secret } = await createKey(db, orgId, { scopes: ['usage:read'] });
  const path = (key: string) => `/organizations/${slug}/credits/grants/${encodeURIComponent(key)}`;
  let events = 0;
  return {
    orgId,
    slug,
    product,
    secret,
    put: (key: string, body: object | string) => operate('PUT', path(key), body),
    give: (key: string, amount: number | string, more: object = {}) =>
      giveCredits(operate, slug, key, amount, more),
    void: (key: string, body: object = { reason: 'Not paid' }) => operate('POST', `${path(key)}/void`, body),
    forgive: (productSlug: string, body: object = { reason: 'Our mistake' }) =>
      operate('POST', `/organizations/${slug}/credits/overdrafts/${productSlug}/forgive`, body),
    read: async (query = '') => (await operate('GET', `/organizations/${slug}/credits${query}`)).body,
    entries: async (query = '') =>
      (await operate('GET', `/organizations/${slug}/credits/entries${query}`)).body.entries,
    addProduct,
    burn: async (quantity: number, { slug: productSlug = product.slug, livemode = true } = {}) => {
      const { secret: key } = livemode ? live : test;
      const event = usageEvent(productSlug, `event ${++events}`, { quantity });
      expect((await sendUsage(service.url, key, [event])).status).toBe(202);
    },
    audit: async () =>
      (await auditOf(db, orgId)).map(({ action, target, details }) => ({ action, target, details })),
  };
}

const summary = ({ balance, grants }: { balance: number; grants: Record<string, unknown>[] }) => [
  balance,
  ...grants.map(({ grantKey, burned, remaining, status }) => [grantKey, burned, remaining, status]),
];

describe('a grant', () => {
  it('is made once for each key, with an audit row, and a repeat changes nothing', async () => {
    const { slug, product, put, audit } = await arrive();
    const body = {
      amount: 12.5,
      priority: 10,
      expiresAt: '2031-03-31T23:00:00.001+00:00',
      productSlugs: [product.slug],
      rollover: { percent: 50, for: 'P30D' },
      reason: 'Plan',
    };
    const made = await put('plan/03 ü', body);
    expect([made.status, made.body.grant]).toEqual([
      201,
      {
        id: expect.any(String),
        grantKey: 'plan/03 ü',
        amount: 12.5,
        priority: 10,
        startsAt: NOW,
        expiresAt: '2031-04-01T00:00:00.000Z',
        productSlugs: [product.slug],
        rollover: { percent: 50, for: 'P30D' },
        livemode: true,
        reason: 'Plan',
        createdAt: NOW,
        voidedAt: null,
        voidReason: null,
        burned: 0,
        remaining: 12.5,
        status: 'open',
      },
    ]);
    service.clock.advance(86_400_000);
    const same = `{"reason":"Plan","rollover":{"for":"P30D","percent":50},"amount":12.50,"livemode":true,"priority":10,
      "productSlugs":["${product.slug}"],"expiresAt":"2031-04-01T01:00:00.001+02:00"}`;
    const again = await put('plan/03 ü', same);
    expect([again.status, again.body]).toEqual([200, made.body]);
    for (const other of [
      { amount: 12.500000000001 },
      { priority: 11 },
      { productSlugs: null },
      { reason: 'Other' },
    ]) {
      const conflict = await put('plan/03 ü', { ...body, ...other });
      expect([conflict.status, conflict.body.code]).toEqual([409, 'idempotency_conflict']);
    }
    expect(await audit()).toEqual([
      {
        action: 'credits.granted',
        target: 'plan/03 ü',
        details: {
          livemode: true,
          after: { ...body, amount: '12.5', expiresAt: '2031-03-31T23:00:00.001Z' },
        },
      },
    ]);
    const { body: log } = await operate('GET', `/organizations/${slug}/credits`);
    expect(log.grants).toHaveLength(1);
  });

  it('keeps every digit of its amount', async () => {
    const { slug, give } = await arrive();
    await give('a', '12345678901234567890.000000000001');
    await give('b', '0.000000000001');
    const { text } = await operate('GET', `/organizations/${slug}/credits`);
    expect(text).toContain('"balance":12345678901234567890.000000000002');
    expect(text).toContain('"amount":12345678901234567890.000000000001');
  });

  it('is made once by parallel requests with its key', async () => {
    const { put, read, audit } = await arrive();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => put('once', { amount: 5, reason: 'Parallel' })),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(7);
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(summary(await read())).toEqual([5, ['once', 0, 5, 'open']]);
    expect(await audit()).toHaveLength(1);
  });

  it('is separate for live and test usage, even with the same key', async () => {
    const { orgId, give, read, burn } = await arrive();
    await give('k', 5);
    await give('k', 7, { livemode: false });
    await burn(2, { livemode: false });
    expect(summary(await read())).toEqual([5, ['k', 0, 5, 'open']]);
    expect(summary(await read('?livemode=false'))).toEqual([5, ['k', 2, 5, 'open']]);
    for (const [livemode, balance] of [
      [true, 5],
      [false, 5],
    ] as const) {
      const { secret } = await createKey(database.db, orgId, { livemode, scopes: ['usage:read'] });
      const response = await fetch(`${service.url}/api/credits`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      const body = (await response.json()) as { balance: number; grants: { livemode: boolean }[] };
      expect([body.balance, body.grants.map((one) => one.livemode)]).toEqual([balance, [livemode]]);
    }
  });

  it('is one of at most 64 that are open or scheduled', async () => {
    const { put, give, void: voidGrant } = await arrive();
    for (let n = 0; n < 63; n++) await give(`g${n}`, 1);
    await give('scheduled', 1, { startsAt: '2031-04-01T00:00:00Z' });
    const { status, body } = await put('more', { amount: 1, reason: 'Too many' });
    expect([status, body.code]).toEqual([409, 'too_many_grants']);
    // Repeating a request creates no further grant.
    expect((await put('g0', { amount: 1, reason: 'Test' })).status).toBe(200);
    await voidGrant('g0');
    expect((await put('more', { amount: 1, reason: 'Now there is room' })).status).toBe(201);
  });

  it('begins, expires, and rolls over by itself, in reads as in the ledger', async () => {
    const { give, read, burn, entries } = await arrive();
    await give('rolls', 10, { expiresAt: '2031-03-20T14:00:00Z', rollover: { percent: 25, for: 'P1D' } });
    await give('expires', 10, { expiresAt: '2031-03-20T14:00:00Z', priority: 60 });
    await give('starts', 10, { startsAt: '2031-03-20T15:00:00Z', priority: 0 });
    await burn(2);
    expect(summary(await read())).toEqual([
      18,
      ['starts', 0, 10, 'scheduled'],
      ['rolls', 2, 8, 'open'],
      ['expires', 0, 10, 'open'],
    ]);
    service.clock.set('2031-03-20T13:59:59.999Z');
    expect((await read()).balance).toBe(18);
    service.clock.set('2031-03-20T14:00:00Z');
    const rolled = [2, ['starts', 0, 10, 'scheduled'], ['rolls', 2, 2, 'open'], ['expires', 0, 0, 'expired']];
    expect(summary(await read())).toEqual(rolled);
    expect(await entries('?kind=roll')).toEqual([]);
    // The next write records the rollover and the expiry as entries.
    await burn(0.5);
    rolled[0] = 1.5;
    rolled[2] = ['rolls', 2.5, 1.5, 'open'];
    expect(summary(await read())).toEqual(rolled);
    expect(await entries('?grantKey=rolls&kind=roll')).toMatchObject([{ amount: 2, productSlug: null }]);
    expect(await entries('?kind=expire')).toMatchObject([{ grantKey: 'rolls', amount: 6 }]);
    service.clock.set('2031-03-21T14:00:00Z');
    expect(summary(await read())).toEqual([
      10,
      ['starts', 0, 10, 'open'],
      ['expires', 0, 0, 'expired'],
      ['rolls', 2.5, 0, 'expired'],
    ]);
    service.clock.set('2031-04-20T14:00:00Z');
    await burn(1);
    expect(summary(await read())).toEqual([
      9,
      ['starts', 1, 9, 'open'],
      ['expires', 0, 0, 'expired'],
      ['rolls', 2.5, 0, 'expired'],
    ]);
  });

  it('pays overdrafts first, a scheduled one once it begins', async () => {
    const { product, give, read, burn } = await arrive();
    await burn(7);
    expect(await read()).toMatchObject({
      balance: -7,
      overdrafts: [{ productSlug: product.slug, quantity: 7 }],
      grants: [],
    });
    expect(await give('a', 4)).toMatchObject({ burned: 4, remaining: 0, status: 'spent' });
    await give('b', 5, { startsAt: '2031-03-20T13:00:00Z' });
    expect((await read()).balance).toBe(-3);
    service.clock.set('2031-03-20T13:00:00Z');
    expect(summary(await read())).toEqual([2, ['b', 3, 2, 'open'], ['a', 4, 0, 'spent']]);
  });
});

describe('voiding', () => {
  it('forfeits what is left, once, with an audit row', async () => {
    const { give, burn, read, audit, void: voidGrant } = await arrive();
    await give('a', 10);
    await burn(3);
    const { status, body } = await voidGrant('a');
    expect([status, body.grant]).toMatchObject([
      200,
      { status: 'voided', burned: 3, remaining: 0, voidedAt: NOW, voidReason: 'Not paid' },
    ]);
    service.clock.advance(60_000);
    const again = await voidGrant('a', { reason: 'Another reason' });
    expect([again.status, again.body]).toEqual([200, body]);
    expect(summary(await read())).toEqual([0, ['a', 3, 0, 'voided']]);
    expect((await audit()).slice(1)).toEqual([
      {
        action: 'credits.voided',
        target: 'a',
        details: { livemode: true, forfeited: '7', reason: 'Not paid' },
      },
    ]);
    expect(
      (await operate('PUT', `/organizations/none/credits/grants/a`, { amount: 1, reason: 'x' })).status,
    ).toBe(404);
  });

  it('is refused for a grant that is spent or has expired', async () => {
    const { give, burn, void: voidGrant } = await arrive();
    await give('spent', 3, { priority: 0 });
    await give('expired', 3, { expiresAt: '2031-03-20T13:00:00Z' });
    await burn(4);
    service.clock.set('2031-03-20T13:00:00Z');
    for (const key of ['spent', 'expired']) {
      const { status, body } = await voidGrant(key);
      expect([status, body.code]).toEqual([409, 'grant_closed']);
    }
    service.clock.set('2031-04-20T13:00:00Z');
    await burn(1);
    expect((await voidGrant('expired')).body.code).toBe('grant_closed');
  });

  it('ends a scheduled grant before it begins', async () => {
    const { give, read, void: voidGrant } = await arrive();
    await give('a', 10, { startsAt: '2031-04-01T00:00:00Z' });
    expect((await voidGrant('a')).status).toBe(200);
    service.clock.set('2031-04-01T00:00:00Z');
    expect(summary(await read())).toEqual([0, ['a', 0, 0, 'voided']]);
  });
});

describe('forgiving', () => {
  it('forgives the overdraft of one product, once, with an audit row', async () => {
    const { product, addProduct, burn, forgive, read, entries, audit } = await arrive();
    const other = await addProduct();
    await burn(7.000000000001);
    await burn(2, other);
    const { status, text } = await forgive(product.slug);
    expect([status, text]).toEqual([200, `{"productSlug":"${product.slug}","forgiven":7.000000000001}`]);
    expect((await forgive(product.slug)).body).toEqual({ productSlug: product.slug, forgiven: 0 });
    expect(await read()).toMatchObject({
      balance: -2,
      overdrafts: [{ productSlug: other.slug, quantity: 2 }],
    });
    expect(await entries('?kind=forgive')).toMatchObject([{ productSlug: product.slug, grantKey: null }]);
    expect(await audit()).toEqual([
      {
        action: 'credits.forgiven',
        target: product.slug,
        details: { livemode: true, forgiven: '7.000000000001', reason: 'Our mistake' },
      },
    ]);
  });
});

describe('bad input', () => {
  it.each([
    [{ amount: 0 }, '/amount'],
    [{ amount: -1 }, '/amount'],
    ['{"amount":1e400,"reason":"x"}', '/amount'],
    ['{"amount":1.0000000000001,"reason":"x"}', '/amount'],
    [`{"amount":${'9'.repeat(101)},"reason":"x"}`, '/amount'],
    [{ amount: '5' }, '/amount'],
    [{ priority: 101 }, '/priority'],
    [{ priority: -1 }, '/priority'],
    [{ priority: 0.5 }, '/priority'],
    [{ startsAt: '2031-03-20T12:33:59.999Z' }, '/startsAt'],
    [{ expiresAt: '2031-03-20T12:00:00Z' }, '/expiresAt'],
    [{ startsAt: '2031-04-01T00:00:00Z', expiresAt: '2031-04-01T00:00:00Z' }, '/expiresAt'],
    [{ expiresAt: '9998-01-01T00:00:00Z' }, '/expiresAt'],
    [{ expiresAt: '2031-04-01' }, '/expiresAt'],
    [{ expiresAt: '2031-04-01T00:00:00Z', rollover: { percent: 101, for: 'P1D' } }, '/rollover/percent'],
    [{ expiresAt: '2031-04-01T00:00:00Z', rollover: { percent: 0, for: 'P1D' } }, '/rollover/percent'],
    [{ expiresAt: '2031-04-01T00:00:00Z', rollover: { percent: 1, for: 'P0D' } }, '/rollover/for'],
    [{ expiresAt: '2031-04-01T00:00:00Z', rollover: { percent: 1, for: 'P367D' } }, '/rollover/for'],
    [{ rollover: { percent: 1, for: 'P1D' } }, '/rollover'],
    [{ productSlugs: [] }, '/productSlugs'],
    [{ productSlugs: ['a', 'a'] }, '/productSlugs'],
    [{ reason: '' }, '/reason'],
    [{ reason: 'a\u0000b' }, '/reason'],
    [{ livemode: 'true' }, '/livemode'],
    ['{"amount":1,"reason":"x","__proto__":{"amount":2}}', '/__proto__'],
  ])('is refused with its place named: %j', async (input, pointer) => {
    const { put, read } = await arrive();
    const { status, body } = await put(
      'a',
      typeof input === 'string' ? input : { amount: 1, reason: 'x', ...input },
    );
    expect([status, body.code, body.errors?.map((one: { pointer: string }) => one.pointer)]).toEqual([
      400,
      'invalid_request',
      [pointer],
    ]);
    expect((await read()).grants).toEqual([]);
  });

  it('names each product that does not exist', async () => {
    const { product, put, read } = await arrive();
    const { status, body } = await put('a', {
      amount: 1,
      reason: 'x',
      productSlugs: ['none', product.slug, 'constructor'],
    });
    expect([status, body.code]).toEqual([422, 'unknown_product']);
    expect(body.errors).toMatchObject([{ pointer: '/productSlugs/0' }, { pointer: '/productSlugs/2' }]);
    expect((await read()).grants).toEqual([]);
  });

  it('takes any text of up to 128 characters as a key', async () => {
    const { give, put, read, void: voidGrant } = await arrive();
    for (const key of ['__proto__', 'constructor', "a'b", 'a/b', 'ü'.repeat(128)]) await give(key, 1);
    expect((await read()).balance).toBe(5);
    expect((await voidGrant('__proto__')).body.grant.status).toBe('voided');
    for (const key of ['x'.repeat(129), 'x'.repeat(200), 'a\u0000b', 'a\nb'])
      for (const { status, body } of [await put(key, { amount: 1, reason: 'x' }), await voidGrant(key)])
        expect([status, body.code]).toEqual([400, 'invalid_request']);
  });

  it('finds nothing of another Organization, and no unknown product', async () => {
    const { give, product } = await arrive();
    const other = await arrive();
    await give('a', 1);
    expect((await other.void('a')).status).toBe(404);
    expect((await other.void('a', { reason: 'x', livemode: false })).status).toBe(404);
    expect((await other.forgive('none')).status).toBe(404);
    expect((await other.forgive(product.slug)).body.forgiven).toBe(0);
    expect(await other.read()).toEqual({ balance: 0, held: 0, overdrafts: [], grants: [] });
  });
});

describe('the ledger', () => {
  it('is read in pages, newest first, and narrowed by product, grant, kind and time', async () => {
    const { slug, product, addProduct, secret, give, burn, entries } = await arrive();
    const other = await addProduct();
    await give('a', 3);
    await give('b', 2, { productSlugs: [product.slug] });
    for (let minute = 0; minute < 4; minute++) {
      service.clock.set(`2031-03-20T13:0${minute}:00Z`);
      await burn(1);
      await burn(1, other);
    }
    const all = await entries();
    expect(all.map(({ at }: { at: string }) => at)).toEqual(
      all
        .map(({ at }: { at: string }) => at)
        .toSorted()
        .toReversed(),
    );
    expect(all).toHaveLength(8);
    const paged: unknown[] = [];
    let cursor: string | null = '';
    do {
      const query = `?limit=3${cursor ? `&cursor=${cursor}` : ''}`;
      const response = await fetch(`${service.url}/api/credits/entries${query}`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      const body = (await response.json()) as { entries: unknown[]; nextCursor: string | null };
      expect(body.entries.length).toBeGreaterThan(0);
      paged.push(...body.entries);
      cursor = body.nextCursor;
    } while (cursor !== null);
    expect(paged).toEqual(all);
    const isOf = (field: string, value: unknown) =>
      all.filter((entry: Record<string, unknown>) => entry[field] === value);
    expect(await entries(`?productSlug=${other.slug}`)).toEqual(isOf('productSlug', other.slug));
    expect(await entries('?grantKey=a')).toEqual(isOf('grantKey', 'a'));
    expect(await entries('?grantKey=none')).toEqual([]);
    expect(await entries('?from=2031-03-20T13:01:00Z&to=2031-03-20T13:02:00Z')).toEqual(
      isOf('at', '2031-03-20T13:01:00.000Z'),
    );
    for (const query of [
      'limit=501',
      'cursor=x',
      'cursor=YSBiIGMgZCBl',
      'kind=other',
      'from=2031-01-01',
      'from=2031-01-02T00:00:00Z&to=2031-01-01T00:00:00Z',
      'colour=red',
      `grantKey=${'x'.repeat(129)}`,
    ]) {
      const { status } = await operate('GET', `/organizations/${slug}/credits/entries?${query}`);
      expect(status, query).toBe(400);
    }
  });
});
