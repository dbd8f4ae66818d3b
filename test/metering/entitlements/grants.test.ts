import { sql } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { createKey } from '../../support/fixtures.js';
import { hostileSlugs, operatorClient, unique } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);

async function setUp() {
  const slug = unique('org');
  const product = unique('product');
  const { body: organization } = await call('PUT', `/organizations/${slug}`, { name: 'Org' });
  await call('PUT', `/products/${product}`, { name: 'Product', usageMetric: 'calls' });
  const list = `/organizations/${slug}/entitlements`;
  return { slug, product, organization, list, path: `${list}/${product}` };
}

const audit = async (slug: string): Promise<any[]> =>
  (await call('GET', `/organizations/${slug}/audit-log`)).body.auditLog;
const now = () => new Date(service.clock.now()).toISOString();

describe('PUT /operator/organizations/:slug/entitlements/:productSlug', () => {
  it('grants from now on, and a repeat keeps the start', async () => {
    const { slug, product, path, list } = await setUp();
    const granted = await call('PUT', path, { kind: 'live' });
    expect(granted.status).toBe(201);
    expect(granted.body).toEqual({
      productSlug: product,
      productName: 'Product',
      kind: 'live',
      startsAt: now(),
      endsAt: null,
      limits: [],
      thresholds: [50, 80, 100],
      features: {},
      plan: null,
      effectiveUnitCap: null,
      createdAt: now(),
      updatedAt: now(),
    });
    service.clock.advance(60_000);
    expect(await call('PUT', path, { kind: 'live' })).toMatchObject({ status: 200, body: granted.body });
    expect((await call('GET', path)).body).toEqual(granted.body);
    expect((await call('GET', list)).body).toEqual({ entitlements: [granted.body], nextCursor: null });
    expect(await audit(slug)).toMatchObject([
      {
        action: 'entitlement.granted',
        actor: 'operator',
        target: product,
        details: { after: { kind: 'live', startsAt: granted.body.startsAt, endsAt: null } },
        ip: '127.0.0.1',
      },
      { action: 'organization.created' },
    ]);
  });

  it('changes kind, start and end; an omitted end means none', async () => {
    const { slug, path } = await setUp();
    await call('PUT', path, {
      kind: 'live',
      startsAt: '2026-01-01T00:00:00+02:00',
      endsAt: '2027-01-01T00:00:00Z',
    });
    const changed = await call('PUT', path, { kind: 'read_only' });
    expect(changed).toMatchObject({
      status: 200,
      body: { kind: 'read_only', startsAt: '2025-12-31T22:00:00.000Z', endsAt: null },
    });
    expect((await audit(slug))[0]).toMatchObject({
      action: 'entitlement.changed',
      details: {
        before: { kind: 'live', endsAt: '2027-01-01T00:00:00.000Z' },
        after: { kind: 'read_only', endsAt: null },
      },
    });
    // The same instant in another time zone.
    const same = await call('PUT', path, {
      kind: 'read_only',
      startsAt: '2025-12-31T22:00:00Z',
      endsAt: null,
    });
    expect(same.body).toEqual(changed.body);
    expect(await audit(slug)).toHaveLength(3);
  });

  it("applies to the key's next call: live, read-only, ended, withdrawn", async () => {
    const { product, path, organization } = await setUp();
    const key = await createKey(database.db, organization.id);
    let n = 0;
    const send = async () => {
      const response = await fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          events: [{ productSlug: product, metric: 'calls', idempotencyKey: `e${++n}` }],
        }),
      });
      return ((await response.json()) as any).code ?? response.status;
    };
    expect(await send()).toBe('entitlement_required');
    await call('PUT', path, { kind: 'live' });
    expect(await send()).toBe(202);
    await call('PUT', path, { kind: 'read_only' });
    expect(await send()).toBe('entitlement_read_only');
    await call('PUT', path, { kind: 'live', endsAt: new Date(service.clock.now() + 1000).toISOString() });
    expect(await send()).toBe(202);
    service.clock.advance(1000);
    expect(await send()).toBe('entitlement_required');
    await call('PUT', path, { kind: 'live' });
    expect(await send()).toBe(202);
    await call('DELETE', path);
    expect(await send()).toBe('entitlement_required');
  });

  it('refuses an end that is not later than the start', async () => {
    const { path } = await setUp();
    const before = new Date(service.clock.now() - 1).toISOString();
    const bodies = [
      { kind: 'live', startsAt: '2026-01-01T00:00:00Z', endsAt: '2026-01-01T00:00:00Z' },
      { kind: 'live', startsAt: '2026-01-02T00:00:00Z', endsAt: '2026-01-01T00:00:00Z' },
      { kind: 'live', endsAt: before },
      { kind: 'live', endsAt: now() },
    ];
    for (const body of bodies) {
      const answer = await call('PUT', path, body);
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/endsAt' }] } });
    }
    expect((await call('GET', path)).status).toBe(404);
    await call('PUT', path, { kind: 'live', startsAt: '2026-01-02T00:00:00Z' });
    expect((await call('PUT', path, { kind: 'live', endsAt: '2026-01-01T00:00:00Z' })).status).toBe(400);
    expect((await call('PUT', path, { kind: 'live', endsAt: before })).status).toBe(200);
  });

  it('names the errors of the body', async () => {
    const { path } = await setUp();
    const times = [
      '',
      'x',
      '2026-01-01',
      '2026-01-01T00:00:00',
      '2026-02-30T00:00:00Z',
      '0000-01-01T00:00:00Z',
      '9999-12-31T23:59:59-23:59',
      '1969-12-31T23:59:59Z',
      'nul\u0000',
      5,
    ];
    for (const startsAt of times) {
      const answer = await call('PUT', path, { kind: 'live', startsAt });
      expect(answer.status, String(startsAt)).toBe(400);
      expect(answer.body.errors[0].pointer).toBe('/startsAt');
      expect((await call('PUT', path, { kind: 'live', endsAt: startsAt })).body.errors[0].pointer).toBe(
        '/endsAt',
      );
    }
    expect((await call('PUT', path, { kind: 'live', startsAt: null })).status).toBe(400);
    for (const kind of ['', 'Live', 'trial', '__proto__', null, undefined]) {
      const answer = await call('PUT', path, { kind });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/kind' }] } });
    }
    expect((await call('PUT', path, { kind: 'live', cap: 5 })).status).toBe(400);
    for (const unitCap of [-1, '5', true, [], {}]) {
      const answer = await call('PUT', path, { kind: 'live', unitCap });
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/unitCap' }] } });
    }
    const digits = `{"kind":"live","unitCap":${'9'.repeat(101)}}`;
    expect((await call('PUT', path, digits)).body.errors[0].pointer).toBe('/unitCap');
    expect((await call('PUT', path, { kind: 'live', endsAt: '9999-12-31T23:59:59.999Z' })).status).toBe(201);
  });

  it('accepts a missing, null or exact decimal cap, and audits each change', async () => {
    const { slug, product, path, list } = await setUp();
    await call('PUT', `/products/${product}`, { name: 'Product', usageMetric: 'calls', unitCap: 10 });
    const absent = await call('PUT', path, { kind: 'live' });
    expect(absent.body).toMatchObject({ effectiveUnitCap: 10 });
    expect(absent.body).not.toHaveProperty('unitCap');
    const digits = '12345678901234567890.123456789';
    const own = await call('PUT', path, `{"kind":"live","unitCap":${digits}00}`);
    expect(own.text).toContain(`"unitCap":${digits},"effectiveUnitCap":${digits},`);
    expect((await call('GET', path)).text).toBe(own.text);
    const unlimited = await call('PUT', path, { kind: 'live', unitCap: null });
    expect(unlimited.body).toMatchObject({ unitCap: null, effectiveUnitCap: null });
    const entries = (await audit(slug)).length;
    expect((await call('PUT', path, { kind: 'live', unitCap: null })).body).toEqual(unlimited.body);
    expect(await audit(slug)).toHaveLength(entries);
    expect((await call('PUT', path, { kind: 'live', unitCap: 0 })).body).toMatchObject({
      unitCap: 0,
      effectiveUnitCap: 0,
    });
    expect((await call('PUT', path, { kind: 'live' })).body).toEqual({
      ...absent.body,
      updatedAt: now(),
    });
    // If the entitlement has no cap of its own, a cap added to the product later applies.
    await call('PUT', `/products/${product}`, { name: 'Product', usageMetric: 'calls', unitCap: 20 });
    expect((await call('GET', list)).body.entitlements).toMatchObject([{ effectiveUnitCap: 20 }]);
    expect((await audit(slug)).slice(0, 4).map(({ action, details }) => ({ action, ...details }))).toEqual([
      { action: 'entitlement.changed', before: { unitCap: '0' }, after: {} },
      { action: 'entitlement.changed', before: { unitCap: null }, after: { unitCap: '0' } },
      { action: 'entitlement.changed', before: { unitCap: digits }, after: { unitCap: null } },
      { action: 'entitlement.changed', before: {}, after: { unitCap: digits } },
    ]);
  });

  it('the table rejects a cap without hasOwnCap and a negative cap', async () => {
    const { organization, product, path } = await setUp();
    await call('PUT', path, { kind: 'live' });
    const store = (values: string) =>
      database.db.orm.execute(
        sql`update entitlements set ${sql.raw(values)} where org_id = ${organization.id}`,
      );
    await expect(store('unit_cap = 5')).rejects.toThrow();
    await expect(store('has_own_cap = true, unit_cap = -1')).rejects.toThrow();
    await store('has_own_cap = true, unit_cap = 5');
    expect((await call('GET', path)).body).toMatchObject({ productSlug: product, unitCap: 5 });
  });

  it('two identical grants at the same moment grant once', async () => {
    const { slug, path } = await setUp();
    const puts = Array.from({ length: 4 }, () => call('PUT', path, { kind: 'live' }));
    const statuses = (await Promise.all(puts)).map((answer) => answer.status).sort((a, b) => b - a);
    expect(statuses).toEqual([201, 200, 200, 200]);
    expect(await audit(slug)).toHaveLength(2);
  });

  it('says whether the Organization or the product does not exist', async () => {
    const { slug, product } = await setUp();
    for (const [method, body] of [['PUT', { kind: 'live' }], ['GET'], ['DELETE']] as const) {
      const elsewhere = await call(method, `/organizations/no-such-org/entitlements/${product}`, body);
      expect(elsewhere.status).toBe(404);
      expect(elsewhere.body.detail).toContain('Organization "no-such-org"');
      const nothing = await call(method, `/organizations/${slug}/entitlements/no-such-product`, body);
      expect(nothing.status).toBe(404);
      expect(nothing.body.detail).toContain('product "no-such-product"');
    }
  });

  it('refuses invalid slugs, naming the parameter', async () => {
    const { slug, product } = await setUp();
    for (const hostile of hostileSlugs.filter((s) => s !== '%ED%A0%80')) {
      for (const [method, body] of [['PUT', { kind: 'live' }], ['GET'], ['DELETE']] as const) {
        const first = await call(method, `/organizations/${hostile}/entitlements/${product}`, body);
        expect(first.status).toBe(400);
        expect(first.body.detail).toContain('path parameter slug');
        const second = await call(method, `/organizations/${slug}/entitlements/${hostile}`, body);
        expect(second.status).toBe(400);
        expect(second.body.detail).toContain('path parameter productSlug');
      }
    }
  });
});

describe('DELETE /operator/organizations/:slug/entitlements/:productSlug', () => {
  it('withdraws once, from this Organization only', async () => {
    const { slug, product, path } = await setUp();
    const other = await setUp();
    const otherPath = `${other.list}/${product}`;
    await call('PUT', path, { kind: 'live' });
    await call('PUT', otherPath, { kind: 'live' });
    expect((await call('DELETE', path)).status).toBe(204);
    const second = await call('DELETE', path);
    expect(second).toMatchObject({ status: 404, body: { code: 'not_found' } });
    expect((await call('GET', path)).status).toBe(404);
    expect((await call('GET', otherPath)).status).toBe(200);
    expect(await audit(slug)).toMatchObject([
      { action: 'entitlement.withdrawn', target: product, details: { before: { kind: 'live' } } },
      { action: 'entitlement.granted' },
      { action: 'organization.created' },
    ]);
  });

  it('does not fail if the entitlement is granted again at the same moment', async () => {
    const { path } = await setUp();
    await call('PUT', path, { kind: 'live' });
    for (let i = 0; i < 10; i++) {
      const [gone, put] = await Promise.all([
        call('DELETE', path),
        call('PUT', path, { kind: i % 2 === 0 ? 'read_only' : 'live' }),
      ]);
      expect([204, 404]).toContain(gone.status);
      expect([200, 201]).toContain(put.status);
    }
  });
});

describe('GET /operator/organizations/:slug/entitlements', () => {
  it('pages through one Organization only, ordered by product', async () => {
    const { list, product, path } = await setUp();
    const slugs = [product, unique('product'), unique('product')];
    await call('PUT', path, { kind: 'live' });
    for (const slug of slugs.slice(1)) {
      await call('PUT', `/products/${slug}`, { name: 'P', usageMetric: 'calls' });
      await call('PUT', `${list}/${slug}`, { kind: 'read_only' });
    }
    const first = await call('GET', `${list}?limit=2`);
    const second = await call('GET', `${list}?limit=2&cursor=${first.body.nextCursor}`);
    const seen = [...first.body.entitlements, ...second.body.entitlements].map((e: any) => e.productSlug);
    expect(seen).toEqual(slugs);
    expect(second.body.nextCursor).toBeNull();
    expect((await call('GET', `${list}?cursor=!`)).status).toBe(400);
  });
});
