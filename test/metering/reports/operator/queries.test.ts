import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import {
  granularities,
  listCustomerUsage,
  selectCustomerUsage,
} from '../../../../src/metering/reports/operator/queries.js';
import { createProduct } from '../../support/products.js';
import { useDatabase } from '../../../support/use.js';

const CUSTOMERS = 5_000;
const LIMIT = 51;

const database = useDatabase();
beforeAll(async () => {
  const { orm } = database.db;
  const product = await createProduct(database.db, { slug: 'many' });
  const n = sql.raw(`generate_series(1, ${CUSTOMERS}) as n`);
  const id = sql.raw(`md5(n::text)::uuid`);
  const slug = sql.raw(`'customer-' || lpad(n::text, 6, '0')`);
  await orm.execute(
    sql`insert into organizations (id, slug, name, created_at) select ${id}, ${slug}, 'Other', now() from ${n}`,
  );
  await orm.execute(sql`insert into usage_totals
    select ${id}, m::date, l, ${product.id}::uuid, 'calls', 3, 3 from ${n}
    cross join generate_series(timestamp '2031-01-01', '2031-04-01', '1 month') m cross join (values (true), (false)) v (l)`);
  await orm.execute(sql`insert into usage_hours
    select ${id}, ${product.id}::uuid, true, h, 'calls', ${id}, 1, 1 from ${n}
    cross join generate_series(timestamptz '2031-03-02 00:00Z', '2031-03-02 02:00Z', '1 hour') h`);
  await orm.execute(sql`insert into credit_entries (org_id, product_id, grant_id, at, hour, livemode, kind, amount)
    select ${id}, ${product.id}::uuid, ${id}, '2031-03-02 00:00Z', '2031-03-02 00:00Z', true, 'burn', 1 from ${n}`);
  await orm.execute(sql`analyze`);
});

interface PlanNode {
  'Node Type': string;
  'Relation Name'?: string;
  'Actual Rows': number;
  'Actual Loops': number;
  'Rows Removed by Filter'?: number;
  Plans?: PlanNode[];
}

const scansOf = (node: PlanNode): PlanNode[] => [
  ...(node['Relation Name'] === undefined ? [] : [node]),
  ...(node.Plans ?? []).flatMap(scansOf),
];

const after = {
  organization: 'customer-002500',
  product: 'many',
  start: '2031-03-01T00:00:00.000Z',
  metric: 'calls',
};
const range = {
  from: new Date('2031-03-01T00:00:00Z'),
  to: new Date('2031-04-01T00:00:00Z'),
  livemode: true,
  orgId: undefined,
  productId: undefined,
  limit: LIMIT,
};

it.each(
  granularities.flatMap((granularity) => [undefined, after].map((from) => [granularity, from] as const)),
)(
  'a page of granularity %s after %o reads by index no more customers than it shows',
  async (granularity, from) => {
    const query = { ...range, granularity, after: from };
    expect(await listCustomerUsage(database.db, query)).toHaveLength(LIMIT);
    const { groups } = database.db.shards;
    const plans = await Promise.all(
      groups.map((group) =>
        group.select<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
          (t) => sql`explain (analyze, format json) ${selectCustomerUsage(query, t)}`,
        ),
      ),
    );
    const scans = plans.flat().flatMap((row) => scansOf(row['QUERY PLAN'][0].Plan));
    for (const scan of scans) {
      if (!scan['Relation Name']!.startsWith('products'))
        expect(scan['Node Type'], JSON.stringify(scan)).toMatch(/^(Index|Bitmap Heap)/);
      const read = (scan['Actual Rows'] + (scan['Rows Removed by Filter'] ?? 0)) * scan['Actual Loops'];
      // Each shard group skips the customers of other groups, so the bound grows with the number of groups.
      expect(read, JSON.stringify(scan)).toBeLessThan(5 * LIMIT * groups.length);
    }
  },
);

it('hours that are not whole months are summed to the hour across the turn of a month', async () => {
  const query = { ...range, granularity: 'total' as const, after: undefined, limit: 1 };
  const from = new Date('2031-03-02T01:00:00Z');
  expect(await listCustomerUsage(database.db, { ...query, from })).toMatchObject([
    { organization: 'customer-000001', start: from.toISOString(), quantity: '2', events: '2' },
  ]);
  const to = new Date('2031-03-02T01:00:00Z');
  const early = new Date('2031-02-27T00:00:00Z');
  expect(await listCustomerUsage(database.db, { ...query, from: early, to })).toMatchObject([
    { quantity: '1' },
  ]);
});
