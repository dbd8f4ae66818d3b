import { parse } from 'csv-parse/sync';
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { addDecimals } from '../../../../src/core/decimal.js';
import { selectRows } from '../../../../src/core/db/sql.js';
import type { Granularity } from '../../../../src/metering/reports/operator/queries.js';
import { ANY_QUANTITY, createProduct, grant } from '../../support/products.js';
import { createKey, createOrganization, type TestKey } from '../../../support/fixtures.js';
import { hostileSlugs, operatorClient, operatorToken } from '../../../support/operator.js';
import { sendUsage, usageEvent } from '../../support/usage.js';
import { useService } from '../../../support/use.js';

const { database, service } = useService();

const customers: { slug: string; keys: TestKey[] }[] = [];
const productSlugs: string[] = [];
beforeAll(async () => {
  // The turn of the month lies within the last seven days, for which events may still be reported.
  service.clock.set('2026-03-04T00:00:00.000Z');
  const { db } = database;
  const products = await Promise.all(
    ['a', 'b'].map((slug) => createProduct(db, { slug, maxQuantity: ANY_QUANTITY })),
  );
  productSlugs.push(...products.map(({ slug }) => slug));
  for (const slug of ['alpha', 'beta', 'gamma']) {
    const { id } = await createOrganization(db, { slug });
    for (const product of products) await grant(db, id, product.id);
    const keys = [
      await createKey(db, id),
      await createKey(db, id),
      await createKey(db, id, { livemode: false }),
    ];
    customers.push({ slug, keys });
  }
});

const call = operatorClient(() => service);

interface Row {
  organization: string;
  product: string;
  metric: string;
  livemode: boolean;
  start: string;
  end: string;
  quantity: string;
  events: number;
  credits: string;
}

const toQuery = (query: Record<string, string>) => `/usage?${new URLSearchParams(query).toString()}`;

async function readPages(query: Record<string, string>, limit: number): Promise<Row[]> {
  const rows: Row[] = [];
  for (let cursor: string | null = null; ;) {
    const page = { ...query, limit: String(limit), ...(cursor === null ? {} : { cursor }) };
    const { status, body } = await call('GET', toQuery(page));
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.usage.length).toBeLessThanOrEqual(limit);
    rows.push(...body.usage);
    cursor = body.nextCursor;
    if (cursor === null) return rows;
    expect(body.usage).toHaveLength(limit);
  }
}

const fetchCsv = (query: Record<string, string>, headers: Record<string, string> = {}) =>
  fetch(`${service.url}/operator${toQuery(query)}`, {
    headers: { authorization: `Bearer ${operatorToken}`, ...headers },
  });

async function readCsv(query: Record<string, string>): Promise<Row[]> {
  const response = await fetchCsv({ ...query, format: 'csv' });
  expect(response.status).toBe(200);
  const records = parse<Record<string, string>>(await response.text(), { columns: true });
  return records.map(
    (record) =>
      ({ ...record, livemode: record.livemode === 'true', events: Number(record.events) }) as unknown as Row,
  );
}

/** Computes the expected sums from the individual events. */
async function sumEvents(
  from: string,
  to: string,
  granularity: Granularity,
  livemode: boolean,
): Promise<Row[]> {
  const events = await selectRows<{
    organization: string;
    product: string;
    metric: string;
    at: string;
    quantity: string;
  }>(
    database.db.orm,
    sql`select o.slug as organization, p.slug as product, e.metric, trim_scale(e.quantity)::text as quantity,
        (extract(epoch from e.occurred_at) * 1000)::bigint::text as at
      from usage_events e join organizations o on o.id = e.org_id join products p on p.id = e.product_id
      where e.livemode = ${livemode} and e.occurred_at >= ${from}::timestamptz and e.occurred_at < ${to}::timestamptz`,
  );
  const sums = new Map<string, Row>();
  for (const { organization, product, metric, at, quantity } of events) {
    const [start, end] = stepOf(new Date(Number(at)), granularity) ?? [from, to];
    const key = [organization, product, start, metric].join(' ');
    const sum = sums.get(key) ?? {
      organization,
      product,
      metric,
      livemode,
      start,
      end,
      quantity: '0',
      events: 0,
      // No product here has a price.
      credits: '0',
    };
    sums.set(key, { ...sum, quantity: addDecimals(sum.quantity, quantity), events: sum.events + 1 });
  }
  return [...sums.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}

function stepOf(at: Date, granularity: Granularity): [string, string] | undefined {
  const [y, m, d, h] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate(), at.getUTCHours()];
  const bounds = {
    hour: [Date.UTC(y, m, d, h), Date.UTC(y, m, d, h + 1)],
    day: [Date.UTC(y, m, d), Date.UTC(y, m, d + 1)],
    month: [Date.UTC(y, m), Date.UTC(y, m + 1)],
    total: undefined,
  }[granularity];
  return bounds && [new Date(bounds[0]!).toISOString(), new Date(bounds[1]!).toISOString()];
}

const spans: [Granularity, string, string][] = [
  ['hour', '2026-02-24T00:00:00.000Z', '2026-03-05T00:00:00.000Z'],
  ['hour', '2026-02-28T22:00:00.000Z', '2026-03-01T02:00:00.000Z'],
  ['day', '2026-02-26T00:00:00.000Z', '2026-03-03T00:00:00.000Z'],
  ['month', '2026-02-01T00:00:00.000Z', '2026-04-01T00:00:00.000Z'],
  ['month', '2026-03-01T00:00:00.000Z', '2026-04-01T00:00:00.000Z'],
  ['total', '2026-02-01T00:00:00.000Z', '2026-04-01T00:00:00.000Z'],
  ['total', '2026-02-27T05:00:00.000Z', '2026-03-01T01:00:00.000Z'],
];

describe('GET /operator/usage', () => {
  it('is empty if there is no usage, as JSON and as CSV', async () => {
    const query = { from: '2020-01-01', to: '2020-02-01', granularity: 'month' };
    expect((await call('GET', toQuery(query))).body).toEqual({ usage: [], nextCursor: null });
    const csv = await fetchCsv(query, { accept: 'text/csv' });
    expect(csv.headers.get('content-type')).toContain('text/csv');
    expect(csv.headers.get('vary')).toContain('Accept');
    expect(csv.headers.get('content-disposition')).toContain('usage-month-20200101T00Z-to-20200201T00Z.csv');
    expect(await csv.text()).toBe(
      'organization,product,metric,livemode,start,end,quantity,events,credits\r\n',
    );
  });

  it(
    'is the sum of the events, including late and repeated ones, on every page and in the file',
    { timeout: 300_000 },
    async () => {
      const event = fc.record({
        customer: fc.nat(2),
        key: fc.nat(2),
        product: fc.nat(1),
        // Few names, so that keys repeat, sometimes for another customer.
        name: fc.nat(60).map((n) => `key ${n}`),
        thousandths: fc.nat(20_000),
        minutesAgo: fc.oneof(
          fc.integer({ min: 0, max: 7 * 1440 }),
          // Near the turn of the month.
          fc.integer({ min: 3 * 1440 - 90, max: 3 * 1440 + 90 }),
          fc.constantFrom(3 * 1440, 2 * 1440, 60, 120),
        ),
      });
      await fc.assert(
        fc.asyncProperty(
          fc.array(event, { minLength: 5, maxLength: 40 }),
          fc.integer({ min: 1, max: 9 }),
          async (events, limit) => {
            for (const [c, { keys }] of customers.entries())
              for (const [k, { secret }] of keys.entries()) {
                const own = events.filter(({ customer, key }) => customer === c && key === k);
                if (own.length === 0) continue;
                const batch = own.map(({ product, name, thousandths, minutesAgo }) =>
                  usageEvent(productSlugs[product]!, name, {
                    quantity: thousandths / 1000,
                    occurredAt: new Date(service.clock.now() - minutesAgo * 60_000).toISOString(),
                  }),
                );
                expect((await sendUsage(service.url, secret, batch)).status).toBe(202);
              }
            for (const [granularity, from, to] of spans)
              for (const livemode of [true, false]) {
                const query = { from, to, granularity, livemode: String(livemode) };
                const expected = await sumEvents(from, to, granularity, livemode);
                expect(await readPages(query, 500)).toEqual(expected);
                if (expected.length < 60) expect(await readPages(query, limit)).toEqual(expected);
                expect(await readCsv(query)).toEqual(expected);
              }
          },
        ),
        { numRuns: 6 },
      );
    },
  );

  it('keeps every digit, and separates the metrics that a product has counted', async () => {
    const { db } = database;
    const { id, slug } = await createOrganization(db, { slug: 'digits' });
    const metric = `=1+"x" ${'𝄞'.repeat(248)}`;
    const product = await createProduct(db, {
      slug: 'digits',
      usageMetric: metric,
      maxQuantity: ANY_QUANTITY,
    });
    await grant(db, id, product.id);
    const key = await createKey(db, id);
    const quantities = ['12345678901234567890.25', '0.000000000000000000001'];
    for (const [i, quantity] of quantities.entries()) {
      const fields = JSON.stringify({ ...usageEvent(slug, `e${i}`), metric });
      const response = await fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        body: `{"events":[${fields.slice(0, -1)},"quantity":${quantity}}]}`,
      });
      expect(response.status).toBe(202);
    }
    await db.orm.execute(sql`update products set usage_metric = 'calls' where id = ${product.id}`);
    await sendUsage(service.url, key.secret, [usageEvent(slug, 'later')]);
    const query = { from: '2026-03-01', to: '2026-04-01', granularity: 'month', organization: slug };
    // The cursor must be able to hold the longest metric.
    const rows = await readPages(query, 1);
    expect(rows.map((row) => [row.metric, row.quantity, row.events])).toEqual([
      [metric, '12345678901234567890.250000000000000000001', 2],
      ['calls', '1', 1],
    ]);
    const file = await (await fetchCsv({ ...query, format: 'csv' })).text();
    expect(file).toContain(`"'=1+""x"" `);
    expect(file).toContain(',12345678901234567890.250000000000000000001,2,0\r\n');
    expect(await readPages({ ...query, product: 'a' }, 5)).toEqual([]);
    expect(await readPages({ ...query, product: slug }, 5)).toEqual(rows);
  });

  it('has the credits that usage burned, on the first row of a product', async () => {
    const { db } = service.context;
    const { id, slug: organization } = await createOrganization(db);
    const product = await createProduct(db);
    const priced = sql`credit_price = 0.000000000001, credit_enforcement = 'warn'`;
    await db.orm.execute(sql`update products set ${priced} where id = ${product.id}`);
    await grant(db, id, product.id);
    const key = await createKey(db, id);
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'b', { quantity: 3 })]);
    await db.orm.execute(
      sql`update products set usage_metric = 'bytes', credit_price = 2 where id = ${product.id}`,
    );
    // The service caches the product for up to a minute.
    service.clock.advance(61_000);
    const bytes = { ...usageEvent(product.slug, 'a', { quantity: 0.5 }), metric: 'bytes' };
    expect((await sendUsage(service.url, key.secret, [bytes])).status).toBe(202);
    for (const granularity of ['hour', 'day', 'month', 'total']) {
      const query = { from: '2026-03-01', to: '2026-04-01', granularity, organization };
      for (const limit of [1, 5])
        expect((await readPages(query, limit)).map((row) => [row.metric, row.credits])).toEqual([
          ['bytes', '1.000000000003'],
          ['calls', '0'],
        ]);
    }
    const file = await (
      await fetchCsv({
        from: '2026-03-01',
        to: '2026-04-01',
        granularity: 'month',
        organization,
        format: 'csv',
      })
    ).text();
    expect(file).toContain(',0.5,1,1.000000000003\r\n');
    expect(file).toContain(',3,1,0\r\n');
  });

  it('accepts a time with an offset, and reads a date as its start in UTC', async () => {
    const query = { granularity: 'hour', organization: 'digits' };
    const plain = await readPages({ ...query, from: '2026-03-04', to: '2026-03-05' }, 10);
    expect(plain).toHaveLength(2);
    const offset = { from: '2026-03-04T05:30:00+05:30', to: '2026-03-04T19:00:00-05:00' };
    expect(await readPages({ ...query, ...offset }, 10)).toEqual(plain);
  });

  it('refuses an unknown Organization and product', async () => {
    const query = { from: '2026-03-01', to: '2026-04-01', granularity: 'month' };
    for (const format of ['json', 'csv']) {
      const organization = await call('GET', toQuery({ ...query, format, organization: 'nobody' }));
      expect(organization).toMatchObject({ status: 404, body: { code: 'not_found' } });
      expect(organization.body.detail).toContain('Organization "nobody"');
      const product = await call('GET', toQuery({ ...query, format, product: 'nothing' }));
      expect(product.status).toBe(404);
      expect(product.body.detail).toContain('product "nothing"');
    }
  });

  const good = { from: '2026-03-01', to: '2026-03-02', granularity: 'day' };
  const cursor = (key: string) => ({ cursor: Buffer.from(key).toString('base64url') });
  const hostile: [name: string, query: Record<string, string>][] = [
    ...[
      '',
      'x',
      '2026-02-30',
      '2026-03-01T00:00:00',
      '0000-01-01',
      '1969-12-31',
      '9999-12-31T23:59:59-23:59',
      "2026-03-01'",
    ].flatMap((time): [string, Record<string, string>][] => [
      ['from', { ...good, from: time }],
      ['to', { ...good, to: time }],
    ]),
    ['from', { ...good, from: '2026-03-01T01:00:00Z' }],
    ['to', { ...good, to: '2026-03-02T00:00:00.001Z' }],
    ['from', { ...good, granularity: 'hour', from: '2026-03-01T00:30:00Z' }],
    ['from', { ...good, granularity: 'total', from: '2026-03-01T00:30:00Z' }],
    ['from', { ...good, granularity: 'month', from: '2026-03-02', to: '2026-05-01' }],
    ['to', { ...good, granularity: 'month', to: '2026-04-02' }],
    ['to', { ...good, to: '2026-03-01' }],
    ['to', { ...good, to: '2026-02-28' }],
    ['to', { ...good, granularity: 'hour', to: '2026-04-02' }],
    ...['day', 'total'].map((granularity): [string, Record<string, string>] => [
      'to',
      { ...good, granularity, to: '2027-03-03' },
    ]),
    ['to', { ...good, granularity: 'month', to: '2027-04-01' }],
    ['granularity', { from: good.from, to: good.to }],
    ...['', 'Day', 'week', '__proto__'].map((granularity): [string, Record<string, string>] => [
      'granularity',
      { ...good, granularity },
    ]),
    ...['', 'yes', 'TRUE', '1'].map((livemode): [string, Record<string, string>] => [
      'livemode',
      { ...good, livemode },
    ]),
    ['format', { ...good, format: 'xml' }],
    ['limit', { ...good, limit: '0' }],
    ['limit', { ...good, limit: '501' }],
    ['limit', { ...good, format: 'csv', limit: '5' }],
    ['cursor', { ...good, format: 'csv', ...cursor('a b 2026-03-01T00:00:00.000Z calls') }],
    ['cursor', { ...good, cursor: '%' }],
    ['cursor', { ...good, cursor: 'x'.repeat(2_001) }],
    ['cursor', { ...good, ...cursor('a b 2026-13-01T00:00:00.000Z calls') }],
    ['cursor', { ...good, ...cursor('a b 0000-01-01T00:00:00.000Z calls') }],
    ['cursor', { ...good, ...cursor('a b 2026-03-01T00:00:00.000Z ') }],
    ['cursor', { ...good, ...cursor('a b 2026-03-01T00:00:00.000Z nul\u0000') }],
    ['org', { ...good, org: 'alpha' }],
    ['__proto__', Object.fromEntries([...Object.entries(good), ['__proto__', 'x']])],
    ...hostileSlugs.flatMap((slug): [string, Record<string, string>][] => [
      ['organization', { ...good, organization: slug }],
      ['product', { ...good, product: slug }],
    ]),
  ];
  it('names the invalid parameter', async () => {
    for (const [name, query] of hostile) {
      const { status, body } = await call('GET', toQuery(query));
      expect(status, JSON.stringify(query)).toBe(400);
      expect(body.detail, JSON.stringify(query)).toMatch(`The query parameter ${name}`);
    }
    const twice = await call('GET', `${toQuery(good)}&organization=alpha&organization=beta`);
    expect(twice.body.detail).toBe('The query parameter organization must appear only once.');
    expect((await call('GET', toQuery({ ...good, to: '2027-03-02' }))).status).toBe(200);
  });
});
