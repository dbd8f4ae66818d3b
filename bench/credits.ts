/** The measures for credits: reading a large account, and the CPU time that credits add to a check. */
import pg from 'pg';
import { atLeast, atMost, measureLoad, ratio, type Measure, type World } from './measures.js';
import { compare, cpuNote, createTenantsIn } from './reservations.js';
import { checkRequest, cpuMsOf, getRequest, type Tenant } from './world.js';

const GRANTS = 64;
const ENTRIES = 1_000_000;
const READS = 50;

/** Each open grant is partly used up by the same number of entries. */
const LARGE = `
update api_keys set scopes = '{usage:read}' where org_id = $1;
insert into credit_grants (org_id, id, starts_at, created_at, livemode, priority, grant_key, amount, reason, actor, request)
  select $1, md5(n::text)::uuid, '2020-01-01', '2020-01-01', true, 50, 'grant-' || n, 1000000, 'Benchmark', 'operator', '{}'
  from generate_series(1, ${GRANTS}) n;
insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
  select $1, true, array_agg(id order by id), array_agg(1000000 - ${ENTRIES / GRANTS}), array_agg(starts_at), array_agg(timestamptz 'infinity'),
    array_agg(''::text), array_agg(50), array_agg(0), array_agg(0) from credit_grants where org_id = $1;
insert into credit_entries (org_id, product_id, grant_id, at, hour, livemode, kind, amount)
  select $1, p.id, md5((n % ${GRANTS} + 1)::text)::uuid, t, date_trunc('hour', t), true, 'burn', 1
  from generate_series(1, ${ENTRIES}) n, lateral (select now() - n * interval '1 second' as t) at, products p where p.slug = $2;
vacuum analyze credit_grants;
vacuum analyze credit_accounts;
vacuum analyze credit_entries`;

/** Each product costs credits, and each Organization has one grant. */
const PRICED = `
update products set credit_price = 0.001, credit_enforcement = 'block' where id in (select product_id from entitlements where org_id = any ($1));
insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
  select id, true, array[gen_random_uuid()], '{1000000000}', '{2020-01-01}', '{infinity}', '{""}', '{50}', '{0}', '{0}' from unnest($1::uuid[]) id;
analyze products, credit_accounts`;

/** With only the parameters that a statement uses. */
async function runAll(url: string, statements: string, values: unknown[]): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const text of statements.split(';'))
    await client.query(
      text,
      values.filter((_, i) => text.includes(`$${i + 1}`)),
    );
  await client.end();
}

let large: Promise<Tenant> | undefined;

async function createLarge(url: string): Promise<Tenant> {
  const [tenant] = await createTenantsIn(url, 1, {});
  await runAll(url, LARGE, [tenant!.orgId, tenant!.slugs[0]]);
  return tenant!;
}

let priced: Promise<Tenant[]> | undefined;

async function createPriced(url: string): Promise<Tenant[]> {
  const tenants = await createTenantsIn(url, 16, {});
  await runAll(url, PRICED, [tenants.map(({ orgId }) => orgId)]);
  return tenants;
}

const readMeasure = (key: string, path: string): Measure => ({
  key,
  name: `p99 of \`GET ${path}\`, ${GRANTS} open grants, ${ENTRIES.toLocaleString('en')} entries, ${READS} requests/s`,
  ...atMost(20, 'ms'),
  async run({ product, productUrl, databasePid, seconds }: World) {
    const { secret } = await (large ??= createLarge(productUrl));
    const cpu = () => cpuMsOf(product.pid) + cpuMsOf(databasePid, true);
    const before = cpu();
    const { requests, p50Ms, p99Ms } = await measureLoad(
      product.port,
      Math.max(3, seconds),
      [getRequest(path, secret)],
      { connections: 16, rate: READS },
    );
    const cpuMs = (cpu() - before) / requests;
    return {
      value: p99Ms,
      note: `p50 ${p50Ms.toFixed(1)} ms, ${cpuMs.toFixed(1)} ms of processor time a request`,
    };
  },
});

const check = ({ product }: World, tenants: Tenant[]) => {
  const requests = tenants.map((tenant) => checkRequest(tenant, 50));
  return (seconds: number) => measureLoad(product.port, seconds, requests, { connections: 64 });
};

export const creditMeasures: Measure[] = [
  readMeasure('credits-read', '/api/credits'),
  readMeasure('credits-entries', '/api/credits/entries'),
  {
    key: 'check-credits',
    name: 'check of 50 slugs that cost credits ÷ of 50 that do not, by processor time',
    // 1 ÷ 1.1: a check may use up to 10% more CPU time with credits than without.
    ...atLeast(0.91),
    async run(world) {
      const tenants = await (priced ??= createPriced(world.productUrl));
      const both = await compare(world, [check(world, tenants), check(world, world.tenants)]);
      const { note } = ratio(both[0]!.perSecond, both[1]!.perSecond, 'requests/s');
      return { value: both[1]!.cpuUs / both[0]!.cpuUs, note: `${note}; ${cpuNote(both)}` };
    },
  },
];
