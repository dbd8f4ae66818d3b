import { beforeAll, expect, it } from 'vitest';
import { usageTotals } from '../../src/metering/ingestion/table.js';
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
  const calls = await createProduct(db, { slug: 'calls' });
  const pages = await createProduct(db, { slug: 'pages' });
  for (const [slug, quantity] of Object.entries({ acme: 1.5, initech: 1200 })) {
    const { id } = await createOrganization(db, { slug });
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
  [...text.split('<tbody')[1]!.matchAll(/<tr role="row">(.*?)<\/tr>/gs)].map(([, row]) =>
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
      ['acme', 'calls', 'calls', '1.5', '1'],
      ['acme', 'pages', 'calls', '1.5', '1'],
      ['initech', 'calls', 'calls', '1,200', '1'],
      ['initech', 'pages', 'calls', '1,200', '1'],
    ],
  ]);
  expect(text).toContain('href="/console/customers/acme"');
});

it('shows a range by month, day or hour, for one customer, product and mode', async () => {
  const range = { from: '2026-02-01', to: '2026-04-01', organization: 'acme', product: 'calls' };
  const timesOf = async (query: Record<string, string>) =>
    rowsOf((await ask({ ...range, ...query })).text).map((cells) => cells[2]);
  expect(await timesOf({ granularity: 'month' })).toEqual(['February 2026', 'March 2026']);
  expect(await timesOf({ granularity: 'day' })).toEqual(['28 Feb 2026', '1 Mar 2026']);
  const hours = { granularity: 'hour', from: '2026-02-28', to: '2026-03-01' };
  expect(await timesOf(hours)).toEqual(['28 Feb 2026, 23:00 UTC']);
  expect((await ask({ ...range, mode: 'test' })).text).toContain('No usage matches');
});

it('offers a file with the same rows as the operator API', async () => {
  const range = { from: '2026-02-01', to: '2026-04-01', granularity: 'day' };
  const { text } = await ask({ ...range, product: 'calls' });
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
  [{ from: 'today' }, 'must be a date'],
  [{ from: '2026-02-30' }, 'must be a date'],
  [{ from: '1969-01-01' }, 'between the years 1970 and 9999'],
  [{ from: '2026-04-01', to: '2026-04-01' }, 'must be later than from'],
  [{ from: '2020-01-01', to: '2026-01-01' }, 'at most 366 days'],
  [{ from: '2026-01-01', to: '2026-03-01', granularity: 'hour' }, 'at most 31 days'],
  [{ from: '2026-01-02', granularity: 'month' }, 'the start of a month'],
  [{ granularity: 'year' }, 'must be one of the options'],
  [{ mode: 'x' }, 'must be live or test'],
  [{ organization: 'nobody' }, 'does not belong to a customer'],
  [{ product: 'nothing' }, 'does not belong to a product'],
  [{ product: "a' or 1=1 --" }, 'id="field-product-error"'],
])('reports an error in %j on the page and instead of a file', async (query, problem) => {
  const { status, text } = await ask(query);
  // Beside a field, the message begins with a capital.
  expect([status, text.includes(problem.slice(1))]).toEqual([400, true]);
  expect((await ask(query, '.csv')).status).toBe(400);
});

it('refuses a repeated field and a cursor that it did not issue', async () => {
  const { status } = await operator.browser.get('/console/usage?from=2026-01-01&from=2026-01-02', html);
  expect(status).toBe(400);
  for (const cursor of ['x', '%00', Buffer.from('a b c d').toString('base64url')])
    expect([cursor, (await ask({ cursor })).status]).toEqual([cursor, 404]);
});
