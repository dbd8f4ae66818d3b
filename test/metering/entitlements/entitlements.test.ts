import { describe, expect, it } from 'vitest';
import { ANY_QUANTITY, createProduct, grant } from '../support/products.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { itWithApiKey } from '../../support/service-calls.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

async function call(
  method: string,
  path: string,
  secret?: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(secret ? { authorization: `Bearer ${secret}` } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: JSON.parse(text) as Record<string, any>,
    headers: response.headers,
  };
}

async function entitledOrganization() {
  const organization = await createOrganization(database.db);
  const key = await createKey(database.db, organization.id);
  const capped = await createProduct(database.db, { unitCap: '10.5' });
  const open = await createProduct(database.db, { maxQuantity: ANY_QUANTITY });
  const readOnly = await createProduct(database.db);
  await grant(database.db, organization.id, capped.id);
  await grant(database.db, organization.id, open.id);
  await grant(database.db, organization.id, readOnly.id, { kind: 'read_only' });
  return { organization, key, capped, open, readOnly };
}

async function use(
  secret: string,
  productSlug: string,
  quantity: number,
  idempotencyKey = String(Math.random()),
) {
  const answer = await call('POST', '/api/usage/events', secret, {
    events: [{ productSlug, metric: 'calls', quantity, idempotencyKey }],
  });
  expect(answer.status).toBe(202);
}

describe('GET /api/entitlements', () => {
  it("lists the entitlements in effect, with the current month's balance", async () => {
    const { key, capped, open, readOnly } = await entitledOrganization();
    await use(key.secret, capped.slug, 0.2);
    await use(key.secret, capped.slug, 0.1);
    const { status, body } = await call('GET', '/api/entitlements', key.secret);
    expect(status).toBe(200);
    expect(body.entitlements.map((e: any) => e.productSlug)).toEqual(
      [capped.slug, open.slug, readOnly.slug].toSorted(),
    );
    const entitlement = body.entitlements.find((e: any) => e.productSlug === capped.slug);
    expect(Object.keys(entitlement)).toEqual([
      'productSlug',
      'productName',
      'kind',
      'usageMetric',
      'unitCap',
      'used',
      'remaining',
      'period',
      'limits',
      'features',
      'startsAt',
      'endsAt',
    ]);
    expect(entitlement).toMatchObject({
      kind: 'live',
      unitCap: 10.5,
      used: 0.3,
      remaining: 10.2,
      endsAt: null,
    });
    expect(body.entitlements.find((e: any) => e.productSlug === open.slug)).toMatchObject({
      unitCap: null,
      used: 0,
      remaining: null,
    });
  });

  it('returns pages', async () => {
    const { key } = await entitledOrganization();
    const first = await call('GET', '/api/entitlements?limit=2', key.secret);
    expect(first.body.entitlements).toHaveLength(2);
    const second = await call('GET', `/api/entitlements?limit=2&cursor=${first.body.nextCursor}`, key.secret);
    expect(second.body.entitlements).toHaveLength(1);
    expect(second.body.nextCursor).toBeNull();
    expect((await call('GET', '/api/entitlements?limit=501', key.secret)).body).toMatchObject({
      code: 'invalid_request',
      errors: [{ pointer: '/limit' }],
    });
  });

  it('omits entitlements that have not started or have ended', async () => {
    const { organization, key } = await entitledOrganization();
    const now = service.clock.now();
    const future = await createProduct(database.db);
    const past = await createProduct(database.db);
    await grant(database.db, organization.id, future.id, { startsAt: new Date(now + 1000) });
    await grant(database.db, organization.id, past.id, { endsAt: new Date(now) });
    const { body } = await call('GET', '/api/entitlements', key.secret);
    expect(body.entitlements).toHaveLength(3);
    expect((await call('GET', `/api/entitlements/${past.slug}`, key.secret)).body.code).toBe(
      'entitlement_not_found',
    );
  });

  it('shows nothing of another Organization', async () => {
    const one = await entitledOrganization();
    const other = await entitledOrganization();
    await use(one.key.secret, one.capped.slug, 5);
    const { body } = await call('GET', '/api/entitlements', other.key.secret);
    expect(body.entitlements.map((e: any) => e.productSlug)).not.toContain(one.capped.slug);
    expect((await call('GET', `/api/entitlements/${one.capped.slug}`, other.key.secret)).status).toBe(404);
  });

  it('counts live and test usage separately', async () => {
    const { organization, key, open } = await entitledOrganization();
    const testKey = await createKey(database.db, organization.id, { livemode: false });
    await use(key.secret, open.slug, 5);
    await use(testKey.secret, open.slug, 2);
    expect((await call('GET', `/api/entitlements/${open.slug}`, key.secret)).body.used).toBe(5);
    expect((await call('GET', `/api/entitlements/${open.slug}`, testKey.secret)).body.used).toBe(2);
  });

  it('keeps every digit of a total that a double cannot hold', async () => {
    const { key, open } = await entitledOrganization();
    const events = `{"events":[{"productSlug":"${open.slug}","metric":"calls","idempotencyKey":"a","quantity":9007199254740993.000000000000000001}]}`;
    expect((await call('POST', '/api/usage/events', key.secret, events)).status).toBe(202);
    const { text } = await call('GET', `/api/entitlements/${open.slug}`, key.secret);
    expect(text).toContain('"used":9007199254740993.000000000000000001,');
  });
});

describe('POST /api/entitlements/check', () => {
  it('returns one result per slug, in order, including repeats', async () => {
    const { key, capped, readOnly } = await entitledOrganization();
    await use(key.secret, capped.slug, 11);
    const { status, body } = await call('POST', '/api/entitlements/check', key.secret, {
      productSlugs: ['nope', capped.slug, readOnly.slug, capped.slug],
    });
    expect(status).toBe(200);
    const over = {
      productSlug: capped.slug,
      allowed: true,
      reason: null,
      kind: 'live',
      unitCap: 10.5,
      used: 11,
      remaining: 0,
      overCap: true,
      limits: [],
      features: {},
    };
    expect(body.results).toEqual([
      {
        productSlug: 'nope',
        allowed: false,
        reason: 'entitlement_required',
        kind: null,
        unitCap: null,
        used: null,
        remaining: null,
        overCap: false,
        limits: [],
        features: {},
      },
      over,
      {
        productSlug: readOnly.slug,
        allowed: false,
        reason: 'entitlement_read_only',
        kind: 'read_only',
        unitCap: null,
        used: 0,
        remaining: null,
        overCap: false,
        limits: [],
        features: {},
      },
      over,
    ]);
  });

  it('refuses an empty, an oversized and a malformed list', async () => {
    const { key } = await entitledOrganization();
    const check = (body: unknown) => call('POST', '/api/entitlements/check', key.secret, body);
    expect(await check({ productSlugs: [] })).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    expect(await check({ productSlugs: Array.from({ length: 51 }, () => 'a') })).toMatchObject({
      status: 413,
      body: { code: 'batch_too_large' },
    });
    expect(await check({ productSlugs: ['a\u0000'] })).toMatchObject({
      status: 400,
      body: { errors: [{ pointer: '/productSlugs/0' }] },
    });
    expect(await check({ productSlugs: ['a'], more: 1 })).toMatchObject({
      status: 400,
      body: { errors: [{ pointer: '/more' }] },
    });
    expect(await check('{"productSlugs":')).toMatchObject({ status: 400, body: { code: 'invalid_json' } });
    expect(
      (await check({ productSlugs: Array.from({ length: 50 }, (_, i) => `p${i}`) })).body.results,
    ).toHaveLength(50);
  });
});

itWithApiKey('GET /api/key describes the key itself and never returns its secret', async () => {
  const organization = await createOrganization(database.db);
  const key = await createKey(database.db, organization.id, { scopes: ['usage:write'], name: 'runtime' });
  const { status, body, text } = await call('GET', '/api/key', key.secret);
  expect(status).toBe(200);
  expect(body).toMatchObject({
    apiKey: {
      id: key.id,
      name: 'runtime',
      prefix: key.secret.slice(0, 12),
      scopes: ['usage:write'],
      state: 'active',
      livemode: true,
    },
    organization: { id: organization.id, slug: organization.slug, name: organization.name },
  });
  expect(text).not.toContain(key.secret);
});
