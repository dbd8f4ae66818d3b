import { beforeAll, describe, expect, it } from 'vitest';
import { addDecimals } from '../../../../src/core/decimal.js';
import { createKey } from '../../../support/fixtures.js';
import { itWithApiKey } from '../../../support/service-calls.js';
import { createProduct, grant } from '../../support/products.js';
import { createTenant, sendUsage, usageEvent } from '../../support/usage.js';
import { fillUsage } from '../../support/usage-events.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();
beforeAll(async () => {
  service.clock.set('2031-03-20T12:00:00Z');
});

interface Series {
  productSlug: string;
  apiKeyId?: string;
  points: { start: string; quantity: number; events: number }[];
  total: number;
}

async function call(secret: string | undefined, path: string, body?: unknown) {
  const response = await fetch(`${service.url}/api/usage${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read many different fields of a response
  const answer: any = JSON.parse(text);
  return { status: response.status, text, body: answer };
}

/** Creates a tenant with a key that may send and read, and a key of the other mode. */
async function readingTenant() {
  const tenant = await createTenant(database.db);
  const scopes = ['usage:write', 'usage:read'];
  const live = await createKey(database.db, tenant.organization.id, { scopes });
  const test = await createKey(database.db, tenant.organization.id, { scopes, livemode: false });
  const event = (key: string, more: object = {}) => usageEvent(tenant.product.slug, key, more);
  return { ...tenant, live, test, event };
}

const march = 'from=2031-03-01&to=2031-04-01';

describe('GET /api/usage', () => {
  it('returns exact sums by hour, day and month, which include what was just sent', async () => {
    const { live, event, product } = await readingTenant();
    const events = [
      event('a', { quantity: 0.1, occurredAt: '2031-03-18T23:59:59.999999Z' }),
      event('b', { quantity: 0.2, occurredAt: '2031-03-19T00:00:00Z' }),
      event('c', { quantity: 3, occurredAt: '2031-03-19T00:59:59Z' }),
      event('d', { quantity: 5, occurredAt: '2031-03-20T11:00:00+02:00' }),
    ];
    expect((await sendUsage(service.url, live.secret, events)).status).toBe(202);
    const read = async (query: string) => {
      const { body } = await call(live.secret, `?${query}`);
      const [series] = body.series as Series[];
      expect(series).toMatchObject({ productSlug: product.slug, metric: 'calls', total: 8.3 });
      return series!.points.map(({ start, quantity, events: count }) => [
        start.slice(0, 13),
        quantity,
        count,
      ]);
    };
    const days = [
      ['2031-03-18T00', 0.1, 1],
      ['2031-03-19T00', 3.2, 2],
      ['2031-03-20T00', 5, 1],
    ];
    expect(await read(march)).toEqual(days);
    expect(await read(`${march}&granularity=month&productSlug=${product.slug}`)).toEqual([
      ['2031-03-01T00', 8.3, 4],
    ]);
    expect(await read('from=2031-03-18T10:00:00Z&to=2031-03-20T12:00:00Z&granularity=hour')).toEqual([
      ['2031-03-18T23', 0.1, 1],
      ['2031-03-19T00', 3.2, 2],
      ['2031-03-20T09', 5, 1],
    ]);
  });

  it.each(['hour', 'day', 'month'])(
    'adds up to the events, over products, metrics and API keys: %s',
    async (granularity) => {
      const { organization, product, live, key, test } = await readingTenant();
      const other = await createProduct(database.db);
      await grant(database.db, organization.id, other.id);
      const base = { orgId: organization.id, from: '2031-03-02T00:30:00Z', everyMs: 1_234_567 };
      const fill = [
        {
          productId: product.id,
          apiKeyId: live.id,
          prefix: 'a',
          metric: 'calls',
          livemode: true,
          quantity: 'i * 0.37',
        },
        {
          productId: product.id,
          apiKeyId: key.id,
          prefix: 'b',
          metric: 'calls',
          livemode: true,
          quantity: '1e-9',
        },
        {
          productId: product.id,
          apiKeyId: key.id,
          prefix: 'c',
          metric: 'old',
          livemode: true,
          quantity: '3',
        },
        {
          productId: other.id,
          apiKeyId: key.id,
          prefix: 'd',
          metric: 'calls',
          livemode: true,
          quantity: '7',
        },
        {
          productId: other.id,
          apiKeyId: test.id,
          prefix: 'e',
          metric: 'calls',
          livemode: false,
          quantity: '11',
        },
      ];
      for (const events of fill) await fillUsage(database.db, { ...base, ...events, count: 700 });
      const range = granularity === 'hour' ? 'from=2031-03-02&to=2031-03-18' : march;
      const recorded = await database.db.run(
        {
          name: 'test_recorded_sums',
          text: `select p.slug, u.metric, u.api_key_id::text as "keyId", trim_scale(sum(u.quantity))::text as quantity, count(*)::text as events
from usage_events u join products p on p.id = u.product_id where u.org_id = $1 and u.livemode group by 1, 2, 3`,
        },
        [organization.id],
      );
      const { body, text } = await call(live.secret, `?${range}&granularity=${granularity}&groupBy=apiKey`);
      expect(text).not.toContain(test.id);
      const series = body.series as (Series & { metric: string })[];
      expect(series.map((s) => [s.productSlug, s.metric, s.apiKeyId].join(' ')).toSorted()).toEqual(
        recorded.map(({ slug, metric, keyId }) => `${slug} ${metric} ${keyId}`).toSorted(),
      );
      for (const { slug, metric, keyId, quantity, events } of recorded) {
        const own = series.find(
          (s) => s.productSlug === slug && s.metric === metric && s.apiKeyId === keyId,
        )!;
        expect(own.total).toBe(Number(quantity));
        expect(own.points.reduce((sum, point) => sum + point.events, 0)).toBe(Number(events));
      }
      const all = (await call(live.secret, `?${range}&granularity=${granularity}`)).body
        .series as typeof series;
      expect(all.map(({ productSlug, metric, total }) => `${productSlug} ${metric} ${total}`)).toEqual(
        [
          `${product.slug} calls ${addDecimals('90520.5', '0.0000007')}`,
          `${product.slug} old 2100`,
          `${other.slug} calls 4900`,
        ].toSorted(),
      );
    },
  );

  it('keeps live and test separate', async () => {
    const { live, test, event } = await readingTenant();
    await sendUsage(service.url, live.secret, [event('live')]);
    await sendUsage(service.url, test.secret, [event('test', { quantity: 7 })]);
    const totals = async (secret: string) =>
      ((await call(secret, `?${march}`)).body.series as Series[]).map(({ total }) => total);
    expect([await totals(live.secret), await totals(test.secret)]).toEqual([[1], [7]]);
  });

  it("does not reveal another Organization's usage", async () => {
    const one = await readingTenant();
    const two = await readingTenant();
    await sendUsage(service.url, two.live.secret, [two.event('x')]);
    expect((await call(one.live.secret, `?${march}`)).body.series).toEqual([]);
    const { status, body } = await call(one.live.secret, `?${march}&productSlug=${two.product.slug}`);
    expect([status, body.code]).toEqual([404, 'not_found']);
  });

  it.each([
    ['from', 'to=2031-04-01'],
    ['from', 'from=2031-03-01T10:30:00Z&to=2031-04-01'],
    ['from', 'from=2031-03-02&to=2031-04-01&granularity=month'],
    ['from', "from='; drop table usage_hours --&to=2031-04-01"],
    ['from', 'from=2031-03-01&from=2031-03-02&to=2031-04-01'],
    ['to', 'from=2031-03-02&to=2031-03-02'],
    ['to', 'from=2031-03-01&to=2031-03-18&granularity=hour'],
    ['to', 'from=2030-01-01&to=2031-03-01'],
    ['to', 'from=1990-01-01&to=2031-03-01&granularity=month'],
    ['to', 'from=2030-01-01&to=2031-03-01&granularity=month&groupBy=apiKey'],
    ['granularity', `${march}&granularity=total`],
    ['groupBy', `${march}&groupBy=metric`],
    ['productSlug', `${march}&productSlug=${'x'.repeat(256)}`],
    ['productSlug', `${march}&productSlug=%01`],
    ['livemode', `${march}&livemode=false`],
  ])('names %s in a query that it cannot answer: %s', async (name, query) => {
    const { live } = await readingTenant();
    const { status, body } = await call(live.secret, `?${query}`);
    expect([status, body.code]).toEqual([400, 'invalid_request']);
    expect(body.detail).toContain(`The query parameter ${name} `);
  });

  it.each(['1969-12-31', '1969-12-31T23:00:00Z'])('says which years %s is not in', async (from) => {
    const { live } = await readingTenant();
    const { status, body } = await call(live.secret, `?from=${from}&to=2031-04-01`);
    expect(status).toBe(400);
    expect(body.detail).toMatch(/^The query parameter from must be .*in the years 1970 to 9999/);
  });

  it('refuses more points than an answer can hold, and suggests a smaller request', async () => {
    const { organization, product, live } = await readingTenant();
    await database.db.run(
      {
        name: 'test_many_keys',
        text: `insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
select $1, $2, true, timestamptz '2031-03-01 00:00Z' + h * interval '1 hour', 'calls', md5(k::text)::uuid, 1, 1
from generate_series(0, 399) h, generate_series(1, 51) k`,
      },
      [organization.id, product.id],
    );
    await database.db.run(
      {
        name: 'test_many_keys_total',
        text: `insert into usage_totals (org_id, period, livemode, product_id, metric, quantity, events) values ($1, '2031-03-01', true, $2, 'calls', 1, 1)`,
      },
      [organization.id, product.id],
    );
    const hours = 'from=2031-03-01&to=2031-03-17T16:00:00Z&granularity=hour';
    const all = await call(live.secret, `?${hours}&groupBy=apiKey`);
    expect([all.status, all.body.detail]).toEqual([
      400,
      expect.stringMatching(/parameter productSlug is required/),
    ]);
    const one = await call(live.secret, `?${hours}&groupBy=apiKey&productSlug=${product.slug}`);
    expect([one.status, one.body.detail]).toEqual([400, expect.stringMatching(/parameter to must/)]);
    expect((await call(live.secret, `?${hours}`)).body.series[0].points).toHaveLength(400);
  });
});

describe('events by idempotency key', () => {
  itWithApiKey('are returned as recorded, whatever characters their key has', async () => {
    const { live, event, product } = await readingTenant();
    const key = 'https://example.com/a b?c=d&é=%2F#🎈';
    const quantity = 0.1234567890123;
    await sendUsage(service.url, live.secret, [
      event(key, { quantity, occurredAt: '2031-03-19T12:00:00.123456+02:00' }),
    ]);
    const { status, body } = await call(live.secret, `/events/${encodeURIComponent(key)}`);
    expect([status, body]).toEqual([
      200,
      {
        idempotencyKey: key,
        productSlug: product.slug,
        metric: 'calls',
        quantity,
        occurredAt: '2031-03-19T10:00:00.123456Z',
        receivedAt: '2031-03-20T12:00:00.000000Z',
        livemode: true,
        apiKeyId: live.id,
        corrections: [],
      },
    ]);
  });

  it('are found even if their key starts like an API key, but not if it is an API key', async () => {
    const { live, event } = await readingTenant();
    await sendUsage(service.url, live.secret, [event('org_test_42'), event('a&key=1')]);
    for (const key of ['org_test_42', 'a&key=1'])
      expect((await call(live.secret, `/events/${key}`)).body).toMatchObject({ idempotencyKey: key });
    for (const path of [`/events/${live.secret}`, '/events/a?x=org_live_1', '/events/a?x=1&key=2']) {
      const { status, body } = await call(live.secret, path);
      expect([status, body.code]).toEqual([400, 'key_in_query_string']);
    }
  });

  it('are returned in the order of the keys, each as often as requested', async () => {
    const { live, event } = await readingTenant();
    const keys = Array.from({ length: 500 }, (_, i) => `k/${i % 250}`);
    await sendUsage(
      service.url,
      live.secret,
      keys
        .slice(0, 250)
        .filter((_key, i) => i % 2 === 0)
        .map((key) => event(key)),
    );
    const { status, body } = await call(live.secret, '/events/lookup', { idempotencyKeys: keys });
    expect(status).toBe(200);
    const results = body.results as {
      idempotencyKey: string;
      recorded: boolean;
      event?: { idempotencyKey: string };
    }[];
    expect(results.map(({ idempotencyKey }) => idempotencyKey)).toEqual(keys);
    expect(results.map(({ recorded }) => recorded)).toEqual(keys.map((_key, i) => (i % 250) % 2 === 0));
    for (const { idempotencyKey, recorded, event: found } of results)
      expect(found?.idempotencyKey).toBe(recorded ? idempotencyKey : undefined);
  });

  it('keep all digits of a quantity', async () => {
    const { live, product } = await readingTenant();
    const digits = '12345678901234567890.123456789';
    await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: { authorization: `Bearer ${live.secret}`, 'content-type': 'application/json' },
      body: `{"events":[{"productSlug":"${product.slug}","metric":"calls","idempotencyKey":"long","quantity":${digits}}]}`,
    });
    expect((await call(live.secret, '/events/long')).text).toContain(`"quantity":${digits},`);
    expect((await call(live.secret, `?${march}`)).text).toContain(`"total":${digits}`);
  });

  it('are not found for the other mode or another Organization', async () => {
    const one = await readingTenant();
    const two = await readingTenant();
    await sendUsage(service.url, one.live.secret, [one.event('mine')]);
    for (const { secret } of [one.test, two.live]) {
      const { status, body } = await call(secret, '/events/mine');
      expect([status, body.code]).toEqual([404, 'event_not_found']);
      const { results } = (await call(secret, '/events/lookup', { idempotencyKeys: ['mine'] })).body;
      expect(results).toEqual([{ idempotencyKey: 'mine', recorded: false }]);
    }
  });

  it.each([
    ['', { idempotencyKeys: [] }, '/idempotencyKeys'],
    ['', {}, '/idempotencyKeys'],
    ['', { idempotencyKeys: 'a' }, '/idempotencyKeys'],
    ['', { idempotencyKeys: ['a', 1] }, '/idempotencyKeys/1'],
    ['', { idempotencyKeys: ['a\u0000'] }, '/idempotencyKeys/0'],
    ['', { idempotencyKeys: ['x'.repeat(256)] }, '/idempotencyKeys/0'],
    ['', { idempotencyKeys: ['a'], livemode: false }, '/livemode'],
  ])('%s%j names %s', async (_empty, sent, pointer) => {
    const { live } = await readingTenant();
    const { status, body } = await call(live.secret, '/events/lookup', sent);
    expect([status, body.code, body.errors[0].pointer]).toEqual([400, 'invalid_request', pointer]);
  });

  it('are refused for impossible keys, and for too many of them', async () => {
    const { live } = await readingTenant();
    for (const key of ['%00', '%0a', 'x'.repeat(256)])
      expect((await call(live.secret, `/events/${key}`)).status).toBe(400);
    expect((await call(live.secret, '/events/%ff')).status).toBe(400);
    const many = { idempotencyKeys: Array.from({ length: 501 }, (_, i) => `k${i}`) };
    expect((await call(live.secret, '/events/lookup', many)).body.code).toBe('batch_too_large');
    const wide = {
      idempotencyKeys: Array.from({ length: 500 }, (_, i) => `${i}`.padEnd(255, '\u{1f388}').slice(0, 255)),
    };
    expect((await call(live.secret, '/events/lookup', wide)).status).toBe(400);
  });
});
