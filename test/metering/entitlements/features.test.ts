import { describe, expect, it } from 'vitest';
import { featureLines, writeFeatures } from '../../../src/metering/entitlements/features.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient, unique } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const operator = operatorClient(() => service);

async function scene(product: object = {}, entitlement: object = {}) {
  const [org, slug] = [unique('org'), unique('product')];
  const { body } = await operator('PUT', `/organizations/${org}`, { name: 'Org' });
  const path = `/organizations/${org}/entitlements/${slug}`;
  const declareProduct = (more: object) =>
    operator('PUT', `/products/${slug}`, { name: 'Product', usageMetric: 'calls', ...more });
  const declare = (more: object) => operator('PUT', path, { kind: 'live', ...more });
  expect((await declareProduct(product)).status).toBe(201);
  expect((await declare(entitlement)).status).toBe(201);
  const scopes = ['usage:write', 'usage:read', 'entitlements:read'];
  const { secret } = await createKey(database.db, body.id, { scopes });
  const api = async (method: string, address: string, sent?: object) => {
    const response = await fetch(`${service.url}/api${address}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      ...(sent && { body: JSON.stringify(sent) }),
    });
    return { status: response.status, body: (await response.json()) as Record<string, any> };
  };
  /** In every answer that has the entitlement. */
  const read = async () => {
    const [list, one, check, grants, grant] = await Promise.all([
      api('GET', '/entitlements'),
      api('GET', `/entitlements/${slug}`),
      api('POST', '/entitlements/check', { productSlugs: [slug] }),
      operator('GET', `/organizations/${org}/entitlements`),
      operator('GET', path),
    ]);
    const answers = [
      list.body.entitlements[0],
      one.body,
      check.body.results[0],
      grants.body.entitlements[0],
      grant.body,
    ];
    for (const { features } of answers) expect(features).toEqual(answers[0].features);
    return answers[0].features as object;
  };
  return { org, slug, path, api, read, declare, declareProduct };
}

const event = (productSlug: string) => ({
  productSlug,
  metric: 'calls',
  quantity: 1,
  idempotencyKey: unique('event'),
  occurredAt: new Date(service.clock.now()).toISOString(),
});

describe('features', () => {
  it('are those of the product, replaced by name; null removes one', async () => {
    const own = { sso: true, max_seats: 5.25, plan_name: 'Größe "5"', regions: ['eu', 'us'] };
    const { read, declare, declareProduct, path } = await scene({ features: own });
    expect(await read()).toEqual(own);
    await declare({ features: { max_seats: 50, sso: null, beta: false, unknown: null } });
    const { sso: _, ...rest } = own;
    expect(await read()).toEqual({ ...rest, max_seats: 50, beta: false });
    expect((await operator('GET', path)).body.featureOverrides).toEqual({
      max_seats: 50,
      sso: null,
      beta: false,
      unknown: null,
    });
    // A product's change applies to the next request, and without the field nothing changes.
    await declareProduct({ features: { regions: [] } });
    await declareProduct({});
    expect(await read()).toEqual({ regions: [], max_seats: 50, beta: false });
    await declare({});
    expect(await read()).toEqual({ regions: [] });
    await declareProduct({ features: {} });
    expect(await read()).toEqual({});
  });

  it('a repeat in another order changes nothing', async () => {
    const { declare, org } = await scene({}, { features: { a: 1, b: 'x' } });
    const first = await declare({ features: { b: 'x', a: 1 } });
    const log = await operator('GET', `/organizations/${org}/audit-log`);
    expect(first.status).toBe(200);
    expect(log.body.auditLog.map(({ action }: { action: string }) => action)).toEqual([
      'entitlement.granted',
      'organization.created',
    ]);
  });

  it.each([
    [{ Seats: 1 }, '/features/Seats'],
    [{ ['a'.repeat(65)]: 1 }, `/features/${'a'.repeat(65)}`],
    [JSON.parse('{"__proto__": 1}') as object, '/features/__proto__'],
    [{ seats: { max: 1 } }, '/features/seats'],
    [{ seats: 2 ** 60 }, '/features/seats'],
    [{ seats: 'x'.repeat(257) }, '/features/seats'],
    [{ seats: 'nul\u0000' }, '/features/seats'],
    [{ seats: Array.from({ length: 33 }, () => 'a') }, '/features/seats'],
    [{ seats: ['a', 1] }, '/features/seats'],
    [Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`n${i}`, i])), '/features'],
    [Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`n${i}`, 'x'.repeat(256)])), '/features'],
    [5, '/features'],
    [[], '/features'],
  ])('refuses %j and names the place', async (features, pointer) => {
    const { declare, declareProduct, read } = await scene({ features: { kept: 1 } });
    for (const answer of [await declareProduct({ features }), await declare({ features })])
      expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request', errors: [{ pointer }] } });
    expect(await read()).toEqual({ kept: 1 });
  });

  it('a product cannot remove what it does not have', async () => {
    const { declareProduct } = await scene();
    expect(await declareProduct({ features: { sso: null } })).toMatchObject({ status: 400 });
  });

  it('lines of a form say the same as the JSON', () => {
    const features = {
      a: true,
      b: 'true',
      c: 5,
      d: '5',
      e: ['x', 'y'],
      f: '',
      g: ' x = y ',
      h: null,
      i: 'plain text',
    };
    expect(featureLines.parse(writeFeatures(features))).toEqual(features);
    expect(featureLines.parse('sso\r\n\r\nseats = 5')).toEqual({ sso: true, seats: 5 });
    expect(() => featureLines.parse('a = 1\na = 2')).toThrow();
  });
});

describe('a product without a metric', () => {
  it('is entitled and checked, but records no event and holds no reservation', async () => {
    const { slug, api, read } = await scene({ usageMetric: null, features: { sso: true } });
    expect(await read()).toEqual({ sso: true });
    expect(await api('GET', `/entitlements/${slug}`)).toMatchObject({
      body: { usageMetric: null, used: 0, unitCap: null },
    });
    expect(await api('POST', '/usage/events', { events: [event(slug)] })).toMatchObject({
      status: 422,
      body: { code: 'unknown_metric', detail: expect.stringContaining(`The product ${slug} has no usage.`) },
    });
    const { occurredAt: _, ...request } = event(slug);
    expect(await api('POST', '/usage/reservations', request)).toMatchObject({
      status: 422,
      body: { code: 'unknown_metric' },
    });
  });

  it.each([
    [{ unitCap: 5 }, '/unitCap'],
    [{ stripeMeterEvent: 'calls' }, '/stripeMeterEvent'],
    [{ credits: { price: 1, enforcement: 'warn' } }, '/credits'],
  ])('refuses %j', async (more, pointer) => {
    const { declareProduct } = await scene();
    expect(await declareProduct({ usageMetric: null, ...more })).toMatchObject({
      status: 400,
      body: { errors: [{ pointer }] },
    });
  });

  it.each([
    [{ unitCap: 5 }, '/unitCap'],
    [{ limits: [{ quantity: 5, window: 'calendar_day' }] }, '/limits'],
  ])('its entitlement refuses %j', async (more, pointer) => {
    const { declare } = await scene({ usageMetric: null });
    expect(await declare(more)).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  });
});
