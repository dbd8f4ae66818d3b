import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { createKey, createOrganization } from '../../../support/fixtures.js';
import { createProduct, grant } from '../../support/products.js';
import { sendUsage, usageEvent } from '../../support/usage.js';
import { useDatabase, useServiceOn } from '../../../support/use.js';

const database = useDatabase();
const service = useServiceOn(() => database.db);

async function createTenant() {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { dimensions: ['model', 'region'], subjectsSince: new Date(0) });
  await grant(db, organization.id, product.id);
  const { secret } = await createKey(db, organization.id, { scopes: ['usage:read', 'usage:write'] });
  const { slug } = product;
  let n = 0;
  const today = new Date(service.clock.now()).toISOString().slice(0, 10);
  const tomorrow = new Date(service.clock.now() + 86_400_000).toISOString().slice(0, 10);
  return {
    organization,
    slug,
    send: (...events: object[]) =>
      sendUsage(
        service.url,
        secret,
        events.map((more) => usageEvent(slug, `e${n++}`, more)),
      ),
    read: async (query: Record<string, string> | string) => {
      const range = { from: today, to: tomorrow };
      const text =
        typeof query === 'string'
          ? `from=${today}&to=${tomorrow}&${query}`
          : String(new URLSearchParams({ ...range, ...query }));
      const response = await fetch(`${service.url}/api/usage?${text}`, {
        headers: { authorization: `Bearer ${secret}` },
      });
      const body = (await response.json()) as {
        series?: Record<string, unknown>[];
        code?: string;
        detail?: string;
      };
      return { status: response.status, ...body };
    },
  };
}

type Tenant = Awaited<ReturnType<typeof createTenant>>;
const sums = async ({ read }: Tenant, query: Record<string, string>) => {
  const { series } = await read(query);
  return series!.map(({ productSlug: _p, metric: _m, points: _points, ...rest }) => rest);
};

it('usage is divided by dimension and subject, and selected by their values', async () => {
  const tenant = await createTenant();
  const { slug: productSlug, send } = tenant;
  await send(
    { subject: 'ann', dimensions: { model: 'large', region: 'eu' }, quantity: 4 },
    { subject: 'ann', dimensions: { model: 'small', region: 'eu' }, quantity: 2 },
    { subject: 'ben', dimensions: { region: 'us' }, quantity: 1 },
    { quantity: 8 },
  );
  expect(await sums(tenant, { productSlug, groupBy: 'model' })).toEqual([
    { dimensions: { model: null }, total: 9 },
    { dimensions: { model: 'large' }, total: 4 },
    { dimensions: { model: 'small' }, total: 2 },
  ]);
  expect(await sums(tenant, { productSlug, groupBy: 'region', 'dimension.model': 'large' })).toEqual([
    { dimensions: { region: 'eu' }, total: 4 },
  ]);
  expect(await sums(tenant, { productSlug, 'dimension.region': 'eu' })).toEqual([{ total: 6 }]);
  expect(await sums(tenant, { productSlug, 'dimension.region': 'nowhere' })).toEqual([]);
  expect(await sums(tenant, { groupBy: 'subject' })).toEqual([
    { subject: 'ann', total: 6 },
    { subject: 'ben', total: 1 },
  ]);
  for (const granularity of ['hour', 'day'])
    expect(await sums(tenant, { subject: 'ann', granularity })).toEqual([{ subject: 'ann', total: 6 }]);
  expect(await sums(tenant, {})).toEqual([{ total: 15 }]);
});

it('the largest 100 subjects are shown, and the others together', async () => {
  const tenant = await createTenant();
  await tenant.send(...Array.from({ length: 120 }, (_, i) => ({ subject: `s${i}`, quantity: i + 1 })));
  const found = await sums(tenant, { groupBy: 'subject' });
  expect(found).toHaveLength(101);
  expect(found.at(-1)).toEqual({ other: true, total: 210 });
  expect(found.some(({ subject }) => subject === 's19')).toBe(false);
  expect(found.some(({ subject }) => subject === 's20')).toBe(true);
});

it('usage beyond the bound of combinations is returned as other, whatever the query selects', async () => {
  const tenant = await createTenant();
  const { slug: productSlug, send, organization } = tenant;
  await database.db.orm.execute(sql`
    insert into usage_combinations (org_id, product_id, livemode, period, number, dimensions)
    select ${organization.id}::uuid, p.id, true, date_trunc('month', ${new Date(service.clock.now()).toISOString()}::timestamptz at time zone 'UTC')::date, n, 'm' || n
    from products p cross join generate_series(1, 500) n where slug = ${productSlug}`);
  await send({ dimensions: { model: 'm1' } }, { dimensions: { model: 'new' }, quantity: 3 });
  expect(await sums(tenant, { productSlug, groupBy: 'model' })).toEqual([
    { dimensions: { model: 'm1' }, total: 1 },
    { other: true, total: 3 },
  ]);
  expect(await sums(tenant, { productSlug, 'dimension.region': 'eu' })).toEqual([{ other: true, total: 3 }]);
});

it('a query that cannot be answered is refused, naming the parameter', async () => {
  const { read, slug } = await createTenant();
  const detailOf = async (query: string) => {
    const { status, code, detail } = await read(query);
    return [status, code, detail];
  };
  const own = `productSlug=${slug}`;
  for (const [query, parameter] of [
    ['groupBy=model', 'groupBy'],
    ['dimension.model=large', 'productSlug'],
    [`${own}&groupBy=subject&dimension.model=a`, 'dimension.model'],
    [`${own}&groupBy=model&subject=ann`, 'groupBy'],
    ['groupBy=apiKey&subject=ann', 'groupBy'],
    ['subject=', 'subject'],
    [`subject=${'x'.repeat(129)}`, 'subject'],
    [`${own}&dimension.model=`, 'dimension.model'],
    [`${own}&dimension.model=a&dimension.model=b`, 'dimension.model'],
    [`${own}&dimension.model=%01`, 'dimension.model'],
    ['model=a', 'model'],
  ] as const)
    expect(await detailOf(query)).toEqual([
      400,
      'invalid_request',
      expect.stringContaining(`The query parameter ${parameter} `),
    ]);
  for (const query of ['groupBy=size', 'dimension.size=a', 'dimension.__proto__=a'])
    expect((await detailOf(`${own}&${query}`)).slice(0, 2)).toEqual([422, 'unknown_dimension']);
});
