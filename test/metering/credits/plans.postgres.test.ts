import { sql, type SQL } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import type { Run } from '../../../src/core/db/client.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { MAX_CLOSED, readCredits } from '../../../src/metering/credit-grants/credits.js';
import { selectAccount, selectEntries, selectHeld } from '../../../src/metering/credit-grants/queries.js';
import { createCreditWatch } from '../../../src/metering/credit-grants/watch.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createOrganization } from '../../support/fixtures.js';
import { useDatabase } from '../../support/use.js';
import { createProduct } from '../support/products.js';

/**
 * Tables that reading credits must not scan in full, so that the cost does not grow with the ledger or with other
 * Organizations.
 */
const bigTables = new Set([
  'credit_accounts',
  'credit_entries',
  'credit_grants',
  'organizations',
  'products',
  'usage_reservations',
]);
const ENTRIES = 100_000;
const OTHERS = 5_000;
const AT = new Date('2031-03-20T12:00:00Z');

const database = useDatabase();
let orgId: string;
let slug: string;
beforeAll(async () => {
  const { orm } = database.db;
  ({ id: orgId } = await createOrganization(database.db));
  const product = await createProduct(database.db);
  ({ slug } = product);
  const id = sql.raw(`md5(n::text)::uuid`);
  const org = sql`${orgId}::uuid`;
  const grants = (owner: SQL, n: SQL) => sql`insert into credit_grants
    (org_id, id, starts_at, created_at, livemode, priority, grant_key, amount, reason, actor, request)
    select ${owner}, ${id}, '2031-01-01', '2031-01-01', true, 50, n::text, 1000000, 'test', 'operator', '{}' from ${n}`;
  const n = (count: number) => sql.raw(`generate_series(1, ${count}) as n`);
  await orm.execute(
    sql`insert into organizations (id, slug, name, created_at) select ${id}, 'other-' || n, 'Other', now() from ${n(OTHERS)}`,
  );
  await orm.execute(
    sql`insert into products (id, slug, name, usage_metric, unit_cap, created_at, updated_at) select ${id}, 'other-' || n, 'Other', 'calls', null, now(), now() from ${n(OTHERS)}`,
  );
  await orm.execute(grants(id, n(OTHERS)));
  await orm.execute(grants(org, n(1_000)));
  await orm.execute(sql`insert into credit_accounts (org_id, livemode) select ${id}, true from ${n(OTHERS)}`);
  await orm.execute(sql`insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
    select ${org}, true, array_agg(${id} order by ${id}), array_agg(1000000), array_agg(timestamptz '2031-01-01'), array_agg(timestamptz 'infinity'),
      array_agg(''::text), array_agg(50), array_agg(0), array_agg(0) from ${n(64)}`);
  const entries = (owner: SQL, count: number, grantId: SQL) => sql`insert into credit_entries
    select ${owner}, ${product.id}::uuid, ${grantId}, timestamptz '2031-01-01' + n * interval '1 minute', '2031-01-01', true, 'burn', 1 from ${n(count)}`;
  await orm.execute(entries(org, ENTRIES, sql.raw(`md5((n % 64 + 1)::text)::uuid`)));
  await orm.execute(entries(id, OTHERS, id));
  await orm.execute(sql`insert into usage_reservations
      (org_id, id, product_id, api_key_id, created_at, expires_at, livemode, idempotency_key, metric, quantity, credit_price)
    select ${id}, ${id}, ${product.id}::uuid, ${id}, now(), '2031-04-01', true, 'key', 'calls', 1, 1 from ${n(OTHERS)}`);
  await orm.execute(sql`analyze`);
});

const statements = (): Record<string, SQL> => {
  const id = { orgId, livemode: true };
  const first = { after: undefined, limit: 100 };
  const at = '2031-02-01T00:00:00.000000Z';
  const after = { at, productId: orgId, hour: at, grantId: orgId, kind: 'burn' as const };
  return {
    account: selectAccount(id, AT, MAX_CLOSED),
    held: selectHeld(id, AT),
    'newest entries': selectEntries(id, {}, first),
    'a later page': selectEntries(id, {}, { after, limit: 100 }),
    'entries of a product': selectEntries(id, { productSlug: slug }, { after, limit: 100 }),
    'entries of a grant': selectEntries(id, { grantKey: '7', kind: 'burn' }, first),
    'entries of a time': selectEntries(id, { from: at, to: '2031-02-02T00:00:00Z' }, first),
  };
};

it('reads the account and its ledger by index, and never all entries', async () => {
  for (const [name, statement] of Object.entries(statements())) {
    const plan = await selectRows<{ 'QUERY PLAN': string }>(
      database.db.orm,
      sql`explain (analyze, costs off, timing off, summary off) ${statement}`,
    );
    const lines = plan.map((row) => row['QUERY PLAN']);
    const scans = lines.filter((line) => bigTables.has(/Seq Scan on (\w+)/.exec(line)?.[1] ?? ''));
    expect(scans, `${name}\n${lines.join('\n')}`).toEqual([]);
    const rows = lines.map((line) => Number(/actual rows=([\d.]+)/.exec(line)?.[1] ?? 0));
    expect(Math.max(...rows), `${name}\n${lines.join('\n')}`).toBeLessThanOrEqual(6_000);
  }
});

it('returns all open grants and the newest closed ones', async () => {
  const { grants, balance } = await readCredits(database.db.orm, { orgId, livemode: true }, AT);
  expect(balance).toBe('64000000');
  expect(grants.slice(0, 64).every(({ status }) => status === 'open')).toBe(true);
  expect(grants.slice(64).map(({ status }) => status)).toEqual(Array(100).fill('spent'));
});

it('sums up new entries by index', async () => {
  const plans: string[] = [];
  const { groups } = database.db.shards;
  const explain: Run = async (template, values) => {
    const plan = await groups[0]!.run(
      { name: `${template.name}_plan`, text: (names) => `explain (costs off) ${template.text(names)}` },
      values,
    );
    plans.push(plan.map((line) => line['QUERY PLAN']).join('\n'));
    return groups[0]!.run(template, values);
  };
  const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
  const db = { shards: { ...database.db.shards, groups: [{ ...groups[0]!, run: explain }] } };
  await createCreditWatch({ db, clock: { now: () => AT.getTime() }, metrics })();
  const reading = plans.filter((plan) => plan.includes('credit_entries'));
  expect(reading).toHaveLength(1);
  expect(reading[0]).toContain('using credit_entries_at');
});
