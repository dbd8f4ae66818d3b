import { describe, expect, it } from 'vitest';
import { isEmbedded } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';
import { hostileNames, hostileSlugs, operatorClient, unique } from '../../support/operator.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

const call = operatorClient(() => service);

const input = { name: 'Forecast API', usageMetric: 'requests', unitCap: 1000 };

async function audit(slug: string): Promise<any[]> {
  const { body } = await call('GET', '/audit-log?limit=500');
  return body.auditLog.filter((row: any) => row.target === slug);
}

describe.runIf(isEmbedded)('PUT /operator/products/:slug', () => {
  it('creates the product once and records who did', async () => {
    const slug = unique('product');
    const made = await call('PUT', `/products/${slug}`, input, { 'x-request-id': 'make-it' });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{14}7/),
      slug,
      ...input,
      maxQuantity: 1e15,
      dimensions: [],
      credits: null,
      features: {},
      countsSubjects: false,
      archivedAt: null,
      stripeMeterEvent: null,
      stripeSince: null,
      createdAt: new Date(service.clock.now()).toISOString(),
      updatedAt: new Date(service.clock.now()).toISOString(),
    });
    const again = await call('PUT', `/products/${slug}`, input);
    expect(again).toMatchObject({ status: 200, body: made.body });
    expect((await call('GET', `/products/${slug}`)).body).toEqual(made.body);
    expect(await audit(slug)).toEqual([
      {
        id: expect.any(String),
        at: made.body.createdAt,
        action: 'product.created',
        actor: 'operator',
        target: slug,
        details: { after: { ...input, unitCap: '1000', maxQuantity: '1000000000000000' } },
        ip: '127.0.0.1',
        requestId: 'make-it',
        seq: expect.any(Number),
        hash: expect.stringMatching(/^[\da-f]{64}$/),
      },
    ]);
  });

  it('archives and restores it; while archived, no entitlement to it is in effect', async () => {
    const { product, key } = await createTenant(database.db);
    const declared = { name: product.name, usageMetric: product.usageMetric, maxQuantity: 10 };
    const path = `/products/${product.slug}`;
    await call('PUT', path, declared);
    const ask = async () => {
      const headers = { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' };
      const body = JSON.stringify({ productSlugs: [product.slug] });
      const check = await fetch(`${service.url}/api/entitlements/check`, { method: 'POST', headers, body });
      const { results } = (await check.json()) as { results: { allowed: boolean }[] };
      const list = await fetch(`${service.url}/api/entitlements`, { headers });
      const { status } = await fetch(`${service.url}/api/entitlements/${product.slug}`, { headers });
      const sent = await sendUsage(service.url, key.secret, [usageEvent(product.slug, unique('event'))]);
      const listed = ((await list.json()) as { entitlements: unknown[] }).entitlements.length;
      return [
        results[0]!.allowed,
        status,
        listed,
        sent.status,
        sent.body.code,
        sent.body.errors?.[0]?.detail,
      ];
    };
    expect(await ask()).toEqual([true, 200, 1, 202, undefined, undefined]);
    const archived = await call('PUT', path, { ...declared, archived: true });
    expect(archived.body.archivedAt).toBe(new Date(service.clock.now()).toISOString());
    expect(await ask()).toEqual([
      false,
      404,
      0,
      403,
      'entitlement_required',
      expect.stringContaining('archived'),
    ]);
    // Omitted fields keep their values, and repeating the request changes nothing.
    expect((await call('PUT', path, declared)).body).toEqual(archived.body);
    // Without an entitlement, the response reveals nothing about a product.
    const stranger = await createKey(database.db, (await createOrganization(database.db)).id);
    const told = await sendUsage(service.url, stranger.secret, [usageEvent(product.slug, 'x')]);
    expect(told.body.errors[0].detail).not.toContain('archived');
    await call('PUT', path, { ...declared, archived: false });
    expect(await ask()).toEqual([true, 200, 1, 202, undefined, undefined]);
    expect((await audit(product.slug)).map(({ action }) => action)).toEqual(
      expect.arrayContaining(['product.archived', 'product.restored']),
    );
    expect((await call('PUT', path, { ...declared, archived: 'yes' })).status).toBe(400);
  });

  it('changes it, and audits the values before and after', async () => {
    const slug = unique('product');
    const made = await call('PUT', `/products/${slug}`, input);
    service.clock.advance(1000);
    const changed = await call('PUT', `/products/${slug}`, { ...input, usageMetric: 'calls', unitCap: 2000 });
    expect(changed.status).toBe(200);
    expect(changed.body).toEqual({
      ...made.body,
      usageMetric: 'calls',
      unitCap: 2000,
      updatedAt: new Date(service.clock.now()).toISOString(),
    });
    expect((await call('GET', `/products/${slug}`)).body).toEqual(changed.body);
    const [newest, oldest, ...more] = await audit(slug);
    expect(newest).toMatchObject({
      action: 'product.changed',
      details: {
        before: { usageMetric: 'requests', unitCap: '1000' },
        after: { usageMetric: 'calls', unitCap: '2000' },
      },
    });
    expect(newest.details.before).not.toHaveProperty('name');
    expect(oldest.action).toBe('product.created');
    expect(more).toEqual([]);
  });

  it('replaces it completely: an omitted cap means none', async () => {
    const slug = unique('product');
    await call('PUT', `/products/${slug}`, input);
    const { unitCap: _cap, ...rest } = input;
    expect((await call('PUT', `/products/${slug}`, rest)).body.unitCap).toBeNull();
    expect((await call('PUT', `/products/${slug}`, { ...rest, unitCap: null })).body.unitCap).toBeNull();
    expect(await audit(slug)).toHaveLength(2);
  });

  it.each([
    ['0', '0'],
    ['-0', '0'],
    ['0.1', '0.1'],
    ['10.50', '10.5'],
    ['1e3', '1000'],
    ['1.5E-3', '0.0015'],
    ['12345678901234567890.123456789', '12345678901234567890.123456789'],
    ['9007199254740993', '9007199254740993'],
    ['0.30000000000000000001', '0.30000000000000000001'],
    ['1.25e30', '1250000000000000000000000000000'],
    ['123456e-8', '0.00123456'],
  ])('keeps every digit of the cap %s', async (sent, kept) => {
    const slug = unique('product');
    const body = `{"name":"say \\"unitCap\\": 7","usageMetric":"calls","unitCap" : ${sent}}`;
    const made = await call('PUT', `/products/${slug}`, body);
    expect(made.status).toBe(201);
    expect(made.text).toContain(`"unitCap":${kept},`);
    expect((await call('GET', `/products/${slug}`)).text).toContain(`"unitCap":${kept},`);
    await call('PUT', `/products/${slug}`, body);
    expect(await audit(slug)).toHaveLength(1);
  });

  it.each(['1e400', `1${'0'.repeat(120)}`, '1e-5000', '0e999', '-1', '"5"', 'true', '[]', 'NaN'])(
    'refuses the cap %s',
    async (sent) => {
      const body = `{"name":"n","usageMetric":"calls","unitCap":${sent}}`;
      const answer = await call('PUT', `/products/${unique('product')}`, body);
      expect(answer.status).toBe(400);
      if (sent !== 'NaN') expect(answer.body.errors).toMatchObject([{ pointer: '/unitCap' }]);
    },
  );

  it.each([
    ['5', '5'],
    ['0.1', '0.1'],
    ['12345678901234567890.123456789', '12345678901234567890.123456789'],
    ['1e30', `1${'0'.repeat(30)}`],
  ])('keeps every digit of the event ceiling %s, and defaults to the usual ceiling', async (sent, kept) => {
    const slug = unique('product');
    const made = await call(
      'PUT',
      `/products/${slug}`,
      `{"name":"n","usageMetric":"calls","maxQuantity":${sent}}`,
    );
    expect(made.status).toBe(201);
    expect(made.text).toContain(`"maxQuantity":${kept},`);
    const usual = await call('PUT', `/products/${slug}`, { name: 'n', usageMetric: 'calls' });
    expect(usual.text).toContain('"maxQuantity":1000000000000000,');
    const [changed] = await audit(slug);
    expect(changed.details).toEqual({
      before: { maxQuantity: kept },
      after: { maxQuantity: '1000000000000000' },
    });
  });

  it.each(['0', '-1', 'null', '"5"', '1e400', `1${'0'.repeat(120)}`])(
    'refuses the event ceiling %s',
    async (sent) => {
      const answer = await call(
        'PUT',
        `/products/${unique('product')}`,
        `{"name":"n","usageMetric":"calls","maxQuantity":${sent}}`,
      );
      expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/maxQuantity' }] } });
    },
  );

  it('two identical requests at the same moment create one product and one audit row', async () => {
    const slug = unique('product');
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => call('PUT', `/products/${slug}`, input)),
    );
    const statuses = answers.map((answer) => answer.status).sort((a, b) => b - a);
    expect(statuses).toEqual([201, 200, 200, 200, 200, 200, 200, 200]);
    expect(new Set(answers.map((answer) => answer.body.id)).size).toBe(1);
    expect(await audit(slug)).toHaveLength(1);
  });

  it('keeps the usage of a former metric separate', async () => {
    const slug = unique('product');
    const organization = await createOrganization(database.db);
    const key = await createKey(database.db, organization.id);
    await call('PUT', `/products/${slug}`, { ...input, unitCap: 5 });
    await call('PUT', `/organizations/${organization.slug}/entitlements/${slug}`, { kind: 'live' });
    const send = async (metric: string, idempotencyKey: string) => {
      const event = { productSlug: slug, metric, quantity: 4, idempotencyKey };
      const response = await fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ events: [event] }),
      });
      return { status: response.status, body: (await response.json()) as any };
    };
    expect(await send('requests', 'a')).toMatchObject({ status: 202, body: { warnings: [] } });
    await call('PUT', `/products/${slug}`, { ...input, usageMetric: 'calls', unitCap: 5 });
    expect(await send('requests', 'b')).toMatchObject({ status: 422 });
    expect(await send('calls', 'c')).toMatchObject({ status: 202, body: { warnings: [] } });
    await call('PUT', `/products/${slug}`, { ...input, unitCap: 5 });
    expect(await send('requests', 'd')).toMatchObject({
      status: 202,
      body: { warnings: [{ code: 'unit_cap_exceeded', used: 8 }] },
    });
  });

  it('names the errors of the body', async () => {
    const path = `/products/${unique('product')}`;
    const missing = await call('PUT', path, {});
    expect(missing).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(missing.body.errors.map((e: any) => e.pointer)).toEqual(['/name', '/usageMetric']);
    const unknown = await call('PUT', path, '{"name":"n","usageMetric":"m","cap":1,"__proto__":{"a":1}}');
    expect(unknown.status).toBe(400);
    expect(unknown.body.errors.map((e: any) => e.pointer)).toContain('/cap');
    // Names that are too long or blank, but valid as a metric.
    const isMetric = /^(x{201}|\s+)$/;
    for (const name of hostileNames) {
      const answer = await call('PUT', path, { ...input, name });
      expect(answer.status).toBe(400);
      expect(answer.body.errors).toMatchObject([{ pointer: '/name' }]);
      expect(
        (
          await call('PUT', path, {
            ...input,
            usageMetric: typeof name === 'string' && isMetric.test(name) ? '' : name,
          })
        ).status,
      ).toBe(400);
    }
    expect(await call('PUT', path, '{')).toMatchObject({ status: 400, body: { code: 'invalid_json' } });
    expect(await call('PUT', path, input, { 'content-type': 'text/plain' })).toMatchObject({ status: 415 });
    expect(await call('PUT', path, { ...input, name: 'x'.repeat(20_000) })).toMatchObject({ status: 413 });
    expect((await call('GET', path)).status).toBe(404);
  });

  it('accepts any Unicode in names unchanged', async () => {
    for (const name of [
      '<script>alert(1)</script>',
      '😀 emoji',
      "O'Brien; drop table products;--",
      '__proto__',
    ]) {
      const slug = unique('product');
      expect((await call('PUT', `/products/${slug}`, { name, usageMetric: name })).status).toBe(201);
      const { body } = await call('GET', `/products/${slug}`);
      expect(body).toMatchObject({ name, usageMetric: name });
    }
  });

  it('refuses every invalid slug, naming the parameter', async () => {
    for (const slug of hostileSlugs) {
      for (const method of ['PUT', 'GET']) {
        const answer = await call(method, `/products/${slug}`, method === 'PUT' ? input : undefined);
        expect(answer.status, slug).toBe(400);
        expect(answer.body.code).toBe('invalid_request');
        if (slug !== '%ED%A0%80') expect(answer.body.detail).toContain('path parameter slug');
      }
    }
    for (const slug of ['a', '0', 'constructor', 'a.b_c-d', 'x'.repeat(64)]) {
      expect((await call('PUT', `/products/${slug}`, input)).status, slug).toBe(201);
    }
  });
});

describe('GET /operator/products', () => {
  it('pages through all products in order, each once', async () => {
    const made = [unique('page'), unique('page'), unique('page')];
    for (const slug of made) await call('PUT', `/products/${slug}`, input);
    const seen: string[] = [];
    let cursor = '';
    do {
      const { status, body } = await call('GET', `/products?limit=2${cursor}`);
      expect(status).toBe(200);
      expect(body.products.length).toBeLessThanOrEqual(2);
      seen.push(...body.products.map((product: any) => product.slug));
      cursor = body.nextCursor === null ? '' : `&cursor=${body.nextCursor}`;
    } while (cursor !== '');
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((slug) => made.includes(slug))).toEqual(made);
    const whole = await call('GET', '/products?limit=500');
    expect(whole.body.products.map((product: any) => product.slug)).toEqual(seen);
    expect(whole.body.nextCursor).toBeNull();
  });

  it('returns a hundred per page by default', async () => {
    const word = unique('many');
    for (let i = 0; i < 101; i++) await call('PUT', `/products/${word}.${i}`, input);
    const { body } = await call('GET', '/products');
    expect(body.products).toHaveLength(100);
    expect(body.nextCursor).toEqual(expect.any(String));
  });

  it.each([
    'limit=0',
    'limit=501',
    'limit=-1',
    'limit=1.5',
    'limit=x',
    'limit=',
    'limit=1&limit=2',
    'cursor=',
    'cursor=%01',
    'cursor=!',
    'cursor=AAAA',
    'cursor=4',
    `cursor=${'a'.repeat(401)}`,
    'cursor=a&cursor=b',
  ])('refuses ?%s, naming the parameter', async (query) => {
    const answer = await call('GET', `/products?${query}`);
    expect(answer).toMatchObject({ status: 400, body: { code: 'invalid_request' } });
    expect(answer.body.detail).toContain(`query parameter ${query.split('=')[0]}`);
  });

  it('returns 404 for an unknown product and names it', async () => {
    const answer = await call('GET', '/products/no-such-product');
    expect(answer).toMatchObject({
      status: 404,
      body: { code: 'not_found', detail: expect.stringContaining('product "no-such-product"') },
    });
    expect((await call('DELETE', '/products/no-such-product')).status).toBe(405);
  });
});
