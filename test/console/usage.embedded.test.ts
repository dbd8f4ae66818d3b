import { beforeAll, expect, it } from 'vitest';
import { usageHours, usageTotals } from '../../src/metering/ingestion/table.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { operatorToken } from '../support/operator.js';
import { signedInOperator, type TestOperator } from '../support/operators.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let operator: TestOperator;
beforeAll(async () => {
  service.clock.set('2026-03-04T00:00:00.000Z');
  operator = await signedInOperator(service);
  const { db } = database;
  const calls = await createProduct(db, { slug: 'calls', name: 'calls' });
  const pages = await createProduct(db, { slug: 'pages', name: 'pages' });
  for (const [slug, quantity] of Object.entries({ acme: 1.5, initech: 1200 })) {
    const { id } = await createOrganization(db, { slug, name: slug.toUpperCase() });
    for (const product of [calls, pages]) await grant(db, id, product.id);
    const events = [calls, pages].flatMap(({ slug: product }) =>
      ['2026-02-28T23:30:00Z', '2026-03-01T00:30:00Z'].map((occurredAt) => ({
        ...usageEvent(product, `${product} ${occurredAt}`),
        quantity,
        occurredAt,
      })),
    );
    const { secret } = await createKey(db, id);
    expect((await sendUsage(service.url, secret, events)).status).toBe(202);
  }
});

const html = { accept: 'text/html' };
const ask = (query: Record<string, string> = {}, file = '') =>
  operator.browser.get(`/console/usage${file}?${new URLSearchParams(query).toString()}`, html);

const rowsOf = (text: string) =>
  [
    ...text
      .split('<tbody')
      .at(-1)!
      .matchAll(/<tr role="row">(.*?)<\/tr>/gs),
  ].map(([, row]) =>
    [...row!.matchAll(/<t[hd] .*?>(.*?)<\/t[hd]>/gs)].map(([, cell]) =>
      cell!
        .replaceAll(/<[^>]*>/g, '')
        .replaceAll(/\s+/g, ' ')
        .trim(),
    ),
  );

it('shows the usage of every customer and product in this month', async () => {
  const { status, text } = await ask();
  expect([status, rowsOf(text)]).toEqual([
    200,
    [
      ['ACME', 'calls', 'calls', '1.5', '1'],
      ['ACME', 'pages', 'calls', '1.5', '1'],
      ['INITECH', 'calls', 'calls', '1,200', '1'],
      ['INITECH', 'pages', 'calls', '1,200', '1'],
    ],
  ]);
  expect(text).toContain('href="/console/customers/acme"');
});

it('shows a range by month, day or hour, for one customer, product and mode', async () => {
  const range = { from: '2026-02-01', to: '2026-03-31', organization: 'acme', product: 'calls' };
  const timesOf = async (query: Record<string, string>) =>
    rowsOf((await ask({ ...range, ...query })).text).map((cells) => cells[2]);
  expect(await timesOf({ granularity: 'month' })).toEqual(['February 2026', 'March 2026']);
  expect(await timesOf({ granularity: 'day' })).toEqual(['28 Feb 2026', '1 Mar 2026']);
  const hours = { granularity: 'hour', from: '2026-02-28', to: '2026-02-28' };
  expect(await timesOf(hours)).toEqual(['28 Feb 2026, 23:00 UTC']);
  expect((await ask({ ...range, mode: 'test' })).text).toContain('No usage matches');
});

/** Returns the chart's numbers: column names and rows. */
const chartOf = (text: string) => {
  const table = text.split(/<details class="numbers"[^>]*>/)[1]!.split('</details>')[0]!;
  const columns = [...table.matchAll(/<th scope="col"[^>]*>([^<]*)/g)].map(([, name]) => name);
  return [columns, ...rowsOf(table)];
};

it('draws the events of all products by day, and one product’s quantity by customer', async () => {
  const february = { from: '2026-02-01', to: '2026-02-28' };
  expect(chartOf((await ask(february)).text)).toEqual([
    ['Day (UTC)', 'calls', 'pages', 'Total'],
    ['28 Feb 2026', '2', '2', '4'],
  ]);
  expect(chartOf((await ask({ ...february, product: 'calls' })).text)).toEqual([
    ['Day (UTC)', 'ACME', 'INITECH', 'Total'],
    ['28 Feb 2026', '1.5', '1,200', '1,201.5'],
  ]);
  const one = { product: 'calls', organization: 'acme' };
  expect(chartOf((await ask({ ...one, from: '2026-03-01', to: '2026-03-01' })).text)).toEqual([
    ['Hour (UTC)', 'calls', '28 Feb 2026'],
    ['00:00', '1.5', '0'],
    ['23:00', '0', '1.5'],
  ]);
  const year = { from: '2025-04-01', to: '2026-03-31', granularity: 'month' };
  expect(chartOf((await ask({ ...one, ...year })).text).slice(1)).toEqual([
    ['February 2026', '1.5'],
    ['March 2026', '1.5'],
  ]);
});

it('compares this month with the last one, estimates its end, and stacks customers on request', async () => {
  const { text } = await ask({ by: 'organization' });
  const [columns, first, next] = chartOf(text);
  expect(columns).toEqual(['Day (UTC)', 'ACME', 'INITECH', 'Total', 'February 2026', 'Estimate']);
  expect([first, next]).toEqual([
    ['1 Mar 2026', '2', '2', '4', '0', ''],
    ['4 Mar 2026', '0', '0', '0', '0', '2'],
  ]);
  expect(text).toMatch(/By the end of the month<\/dt>\s*<dd>≈ 60<\/dd>\s*<dd[^>]*>4 in February/);
  expect(chartOf((await ask({ sum: '1' })).text)[2]).toEqual(['2 Mar 2026', '2', '2', '4', '0', '']);
});

it('links to this month, the last month and the last twelve, which keep the other fields', async () => {
  const { text } = await ask({ organization: 'acme', mode: 'live' });
  const link = (label: string) =>
    new RegExp(`href="/console/usage\\?([^"]*)"[^>]*><bdi>${label}<`)
      .exec(text)![1]!
      .replaceAll('&amp;', '&');
  expect(link('Last month')).toBe(
    'from=2026-02-01&to=2026-02-28&granularity=total&mode=live&organization=acme',
  );
  expect(link('Last 12 months')).toContain('from=2025-04-01&to=2026-03-31&granularity=month');
  expect(text).toMatch(/aria-current="true"><bdi>This month</);
  const { text: last } = await operator.browser.get(`/console/usage?${link('Last month')}`, html);
  expect(rowsOf(last)).toEqual([
    ['ACME', 'calls', 'calls', '1.5', '1'],
    ['ACME', 'pages', 'calls', '1.5', '1'],
  ]);
});

it('finds a customer by a part of the name, and names the matches if there are several', async () => {
  const { text: one } = await ask({ organization: 'Init', product: 'calls' });
  expect(rowsOf(one)).toEqual([['INITECH', 'calls', 'calls', '1,200', '1']]);
  expect(one).toMatch(/<option value="initech" selected>/);
  const { status, text } = await ask({ organization: 'e' });
  expect(status).toBe(400);
  expect(text).toMatch(/several matches. Type one of these: [^<]*initech/);
  expect(text).not.toContain('<table');
  expect((await ask({ organization: 'e' }, '.csv')).status).toBe(400);
});

it('offers a file with the same rows as the operator API', async () => {
  const range = { from: '2026-02-01', to: '2026-04-01', granularity: 'day' };
  const { text } = await ask({ ...range, to: '2026-03-31', product: 'calls' });
  const href = /href="(\/console\/usage\.csv[^"]*)"/.exec(text)![1]!.replaceAll('&amp;', '&');
  const file = await operator.browser.get(href, html);
  const query = new URLSearchParams({ ...range, product: 'calls', format: 'csv' }).toString();
  const headers = { authorization: `Bearer ${operatorToken}` };
  const same = await fetch(`${service.url}/operator/usage?${query}`, { headers });
  expect([file.status, file.text]).toEqual([200, await same.text()]);
  expect(file.text.split('\r\n')).toHaveLength(6);
  for (const name of ['content-type', 'content-disposition'])
    expect(file.headers.get(name)).toBe(same.headers.get(name));
});

it('pages through all rows, whatever a metric was called', async () => {
  const { id } = await createOrganization(database.db, { slug: 'many' });
  const { id: productId } = await createProduct(database.db, { slug: 'named' });
  const metrics = Array.from({ length: 120 }, (_, n) => `${100 + n} <b>"é' ${'x'.repeat(200)}`);
  const total = { orgId: id, period: '2026-03-01', livemode: true, productId, quantity: '1', events: 1 };
  await database.db.orm.insert(usageTotals).values(metrics.map((metric) => ({ ...total, metric })));
  const seen: string[] = [];
  for (let href: string | undefined = '/console/usage?organization=many'; href;) {
    const { text } = await operator.browser.get(href, html);
    expect(text).not.toContain('<b>');
    seen.push(...rowsOf(text).map((cells) => cells[2]!.slice(0, 3)));
    href = /rel="next" href="([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&');
  }
  expect(seen).toEqual(metrics.map((metric) => metric.slice(0, 3)));
});

it.each([
  [{ from: 'tomorrow' }, 'must be a date'],
  [{ from: '2026-02-30' }, 'February has only 28 days'],
  [{ from: '1969-01-01' }, 'in the years 2000 to 2099'],
  [{ from: '2026-04-02', to: '2026-04-01' }, 'must not be before the first day'],
  [{ from: '2020-01-01', to: '2026-01-01' }, 'at most 366 days'],
  [{ from: '2026-01-01', to: '2026-03-01', granularity: 'hour' }, 'at most 31 days'],
  [{ from: '2026-01-02', granularity: 'month' }, 'the start of a month'],
  [{ to: '2026-03-30', granularity: 'month' }, 'must be the last day of a month'],
  [{ granularity: 'year' }, 'must be one of the options'],
  [{ mode: 'x' }, 'must be live or test'],
  [{ organization: 'nobody' }, 'has no match'],
  [{ organization: '%' }, 'has no match'],
  [{ product: 'nothing' }, 'has no match'],
  [{ product: "a' or 1=1 --" }, 'id="field-product-error"'],
])('reports an error in %j on the page and instead of a file', async (query, problem) => {
  const { status, text } = await ask(query);
  // Skips the first letter, which is capitalized when the message is shown beside a field.
  expect([status, text.includes(problem.slice(1))]).toEqual([400, true]);
  expect((await ask(query, '.csv')).status).toBe(400);
});

it('refuses a repeated field and a cursor that it did not issue', async () => {
  const { status } = await operator.browser.get('/console/usage?from=2026-01-01&from=2026-01-02', html);
  expect(status).toBe(400);
  for (const cursor of ['x', '%00', Buffer.from('a b c d').toString('base64url')])
    expect([cursor, (await ask({ cursor })).status]).toEqual([cursor, 404]);
});

it('draws no chart of more than 5,000 sums', async () => {
  const { id: orgId } = await createOrganization(database.db, { slug: 'crowded' });
  const { id: productId } = await createProduct(database.db, { slug: 'crowd' });
  const common = { orgId, productId, livemode: true, quantity: '1', events: 1 };
  await database.db.orm.insert(usageTotals).values({ ...common, period: '2026-03-01', metric: 'm-0' });
  for (let day = 1; day <= 31; day++) {
    const hour = new Date(Date.UTC(2026, 2, day));
    const rows = Array.from({ length: 162 }, (_, n) => ({
      ...common,
      metric: `m-${n}`,
      apiKeyId: orgId,
      hour,
    }));
    await database.db.orm.insert(usageHours).values(rows);
  }
  const crowded = { organization: 'crowded', granularity: 'day' };
  const { text } = await ask(crowded);
  expect(text).toContain('too large for one chart');
  expect(rowsOf(text)).toHaveLength(50);
  expect(chartOf((await ask({ ...crowded, to: '2026-03-30' })).text)).toHaveLength(31);
});

it('searches for a customer instead of listing them if there are many', async () => {
  expect((await ask()).text).toMatch(/<select[^>]*name="organization"/);
  for (let n = 0; n < 200; n++)
    await createOrganization(database.db, { slug: `z-${n}`, name: n === 7 ? '<b>"é' : `Zed ${n}` });
  const { text } = await ask({ organization: '<b>' });
  expect(text).toMatch(/<input[^>]*name="organization"[^>]*value="z-7"/);
  expect(text).not.toContain('<b>');
  const { status, text: zeds } = await ask({ organization: 'zed' });
  expect([status, zeds.match(/z-\d+/g)!.length >= 20]).toEqual([400, true]);
});

it('draws the credits of all products by day if they burned any', async () => {
  const { id } = await createOrganization(database.db, { slug: 'payer' });
  const price = { creditPrice: '2', creditEnforcement: 'warn' } as const;
  const cheap = { ...price, creditPrice: '0.5' };
  for (const [slug, terms] of Object.entries({ dear: price, cheap, free: {} })) {
    await grant(database.db, id, (await createProduct(database.db, { slug, ...terms })).id);
    const { secret } = await createKey(database.db, id);
    const events = [{ ...usageEvent(slug, slug), quantity: 3, occurredAt: '2026-03-01T00:30:00Z' }];
    expect((await sendUsage(service.url, secret, events)).status).toBe(202);
  }
  const { text } = await ask({ organization: 'payer' });
  expect(text).toMatch(/<bdi>credits<\/bdi> by day and product/);
  expect(chartOf(text)[1]!.slice(1, 4)).toEqual(['1.5', '6', '7.5']);
  expect(rowsOf(text).map((cells) => cells.slice(-2))).toEqual([
    ['6.00', '80.0%'],
    ['1.50', '20.0%'],
    ['0', '0%'],
  ]);
  const productsOf = async (sort: string) =>
    rowsOf((await ask({ organization: 'payer', sort })).text).map((cells) => cells[1]);
  expect(await productsOf('credits')).toEqual(['Product free', 'Product cheap', 'Product dear']);
  expect(await productsOf('product')).toEqual(['Product cheap', 'Product dear', 'Product free']);
  expect(text).toContain('aria-sort="descending"><a href="/console/usage?');
});
