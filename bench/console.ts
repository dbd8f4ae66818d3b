/** `npm run bench:console`: many customers, sequential requests over one connection. */
import { readFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import pg from 'pg';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { operators, secondFactors } from '../src/accounts/identity/table.js';
import { Browser, createUser } from '../test/support/accounts.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { machine } from './embedded.js';
import { cpuMsOf, startProduct } from './world.js';

const TARGET_MS = 100;
const CUSTOMERS = 10_000;
const PRODUCTS = 100;
/** Of each customer and product. */
const EVENTS = 5;
/** Of each customer and product, over ten days. */
const ENTRIES = 10;
const REQUESTS = 100;
const WARM_UP = 10;

const pages: [name: string, path: string][] = [
  ['customers, with what needs attention', '/console'],
  ['customers, a page in the middle', '/console?page=200'],
  ['customers by a slug', '/console?search=customer-0777'],
  ['customers by a member’s address', '/console?search=person-7777'],
  ['customers near a cap, 1 of 100', '/console?signal=near'],
  ['customers over a cap, none', '/console?signal=over'],
  ['customers over a cap, archived', '/console?signal=over&state=archived'],
  ['customers out of credits, none', '/console?signal=credits'],
  ['customers without an owner, none', '/console?signal=ownerless'],
  ['customers with failing webhooks, none', '/console?signal=webhooks'],
  ['customers with expiring keys, 1 of 1,000', '/console?signal=expiring'],
  ['customers with failed sign-ins, 1 of 50', '/console?signal=sign-ins'],
  ['people', '/console/people'],
  ['people by an address', '/console/people?search=person-77'],
  ['people with failed sign-ins, 1 of 50', '/console/people?signal=sign-ins'],
  ['products', '/console/products'],
  ['usage of all, this month', '/console/usage'],
  ['usage of all, by day', '/console/usage?granularity=day'],
  ['usage of a product, 1 of 10', '/console/usage?product=product-007'],
  ['a customer', '/console/customers/customer-05000'],
  ['people of a customer', '/console/customers/customer-05000/people'],
];

/** One customer in ten has its own caps. */
const world = [
  `insert into organizations (id, slug, name, created_at)
   select gen_random_uuid(), 'customer-' || lpad(i::text, 5, '0'), 'Customer ' || i, now() from generate_series(1, ${CUSTOMERS}) i`,
  `insert into users (id, email, name, password_hash, created_at)
   select gen_random_uuid(), 'person-' || lpad(i::text, 5, '0') || '@example.com', 'Person ' || i, 'none', now() from generate_series(1, ${CUSTOMERS}) i`,
  `insert into memberships (org_id, user_id, role, created_at)
   select o.id, u.id, 'owner', now() from organizations o join users u on substr(u.email, 8, 5) = right(o.slug, 5)`,
  `insert into products (id, slug, name, usage_metric, unit_cap, created_at, updated_at)
   select gen_random_uuid(), 'product-' || lpad(i::text, 3, '0'), 'Product ' || i, 'calls', 1000, now(), now() from generate_series(1, ${PRODUCTS}) i`,
  `insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at, has_own_cap, unit_cap)
   select o.id, p.id, 'live', now(), now(), now(), o.slug like '%1', case when o.slug like '%1' then 2000 end from organizations o join products p on right(p.slug, 3)::int % 10 = right(o.slug, 5)::int % 10`,
  `insert into usage_totals (org_id, period, livemode, product_id, metric, quantity, events)
   select e.org_id, date_trunc('month', now() at time zone 'UTC' - make_interval(months => m))::date, true, e.product_id, 'calls',
     case when o.slug like '%00' then 900 else 100 end, 100
   from entitlements e join organizations o on o.id = e.org_id cross join generate_series(0, 2) m`,
  `insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
   select t.org_id, t.product_id, true, t.period::timestamp at time zone 'UTC', t.metric, t.org_id, t.quantity, t.events from usage_totals t`,
  `insert into api_keys (org_id, id, name, prefix, hashed_secret, scopes, livemode, created_at, expires_at)
   select id, gen_random_uuid(), 'runtime', 'gk_live_0000', slug, '{usage:write}', true, now(),
     now() + make_interval(days => case when slug like '%000' then 3 else 300 end) from organizations`,
  `insert into failed_sign_ins (user_id, hour, passwords, codes)
   select id, date_trunc('hour', now()) - make_interval(hours => h), 2, 0 from users cross join generate_series(0, 100) h
   where email like 'person-%' and substr(email, 8, 5)::int % 50 = 0`,
  `insert into plans (slug, name, version, created_at, updated_at) values ('team', 'Team', 1, now(), now())`,
  `insert into plan_versions (plan, version, definition, created_at) values ('team', 1, '{"entitlements": [], "grants": []}', now())`,
  `insert into organization_plans (org_id, plan, version, starts_at, anchor, granted_until, created_at, updated_at)
   select id, 'team', 1, now(), now(), now(), now(), now() from organizations where slug like '%_' and right(slug, 1)::int % 2 = 0`,
  `insert into usage_events (org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key, metric, quantity)
   select e.org_id, e.product_id, e.org_id, t, t, true, p.slug || n, 'calls', 1
   from entitlements e join products p on p.id = e.product_id cross join generate_series(1, ${EVENTS}) n, lateral (select now() - n * interval '1 hour' as t) at`,
  `insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
   select id, true, array[gen_random_uuid()], '{1000000}', '{2020-01-01}', '{infinity}', '{""}', '{50}', '{0}', '{0}' from organizations`,
  `insert into credit_entries (org_id, product_id, grant_id, at, hour, livemode, kind, amount)
   select a.org_id, e.product_id, a.grants[1], t, date_trunc('hour', t), true, 'burn', 1
   from credit_accounts a join entitlements e on e.org_id = a.org_id cross join generate_series(1, ${ENTRIES}) n, lateral (select now() - n * interval '1 day' as t) at`,
  'vacuum analyze',
];

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
try {
  const url = server.url('postgres');
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  for (const statement of world) await client.query(statement);
  await client.end();
  const operator = await createUser(db);
  await db.orm.insert(operators).values({ userId: operator.id, createdAt: new Date() });
  // Other benchmarks measure the markets' background work.
  const env = { MARKETS: 'off', LIMIT_DASHBOARD_PER_MINUTE: '1000000000' };
  const product = await startProduct({ DATABASE_URL: url, ...env });
  try {
    const browser = new Browser(`http://127.0.0.1:${product.port}`);
    await browser.signIn(operator.email);
    const at = new Date();
    const factor = { userId: operator.id, secret: '', setupSession: '', confirmedAt: at, createdAt: at };
    await db.orm.insert(secondFactors).values(factor);
    await measureFirst(browser);
    const postgresPid = Number(readFileSync(join(server.dataDir, 'postmaster.pid'), 'utf8').split('\n')[0]);
    await measure(browser, () => [cpuMsOf(product.pid), cpuMsOf(postgresPid, true)]);
  } finally {
    await product.stop();
    await db.close();
  }
} finally {
  await server.remove();
}

/** The facts of all customers are kept for a minute. */
async function measureFirst(browser: Browser): Promise<void> {
  const [first] = await ask(browser, '/console', 1);
  await setTimeout(61_000);
  const [later] = await ask(browser, '/console', 1);
  console.log(
    `customers, first view after the start: ${first!.toFixed(0)} ms; a minute later: ${later!.toFixed(0)} ms\n`,
  );
}

/** @param readCpuMs total of the server and of Postgres */
async function measure(browser: Browser, readCpuMs: () => [number, number]): Promise<void> {
  console.log(
    `${machine()}, ${availableParallelism()} cores, load average ${loadavg()[0]!.toFixed(0)}, Node ${process.version}; ${CUSTOMERS.toLocaleString('en')} customers, ${PRODUCTS} products, ${REQUESTS} requests of each page\n`,
  );
  console.log(
    `| page | p50 | p95 (≤ ${TARGET_MS} ms) | processor time of the server | of Postgres |\n|---|---|---|---|---|`,
  );
  for (const [, path] of pages) await ask(browser, path, WARM_UP);
  for (const [name, path] of pages) {
    await ask(browser, path, WARM_UP);
    const before = readCpuMs();
    const times = (await ask(browser, path, REQUESTS)).sort((a, b) => a - b);
    const [own, postgres] = readCpuMs().map((ms, i) => `${((ms - before[i]!) / REQUESTS).toFixed(1)} ms`);
    const at = (share: number) => times[Math.floor(times.length * share)]!;
    const miss = at(0.95) > TARGET_MS ? ' ✗' : '';
    console.log(
      `| ${name}${miss} | ${at(0.5).toFixed(1)} ms | ${at(0.95).toFixed(1)} ms | ${own} | ${postgres} |`,
    );
  }
}

/** In ms. */
async function ask(browser: Browser, path: string, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let i = 0; i < count; i++) {
    const startedAt = performance.now();
    const { status } = await browser.get(path, { accept: 'text/html' });
    if (status !== 200) throw new Error(`${path} answered ${status}`);
    times.push(performance.now() - startedAt);
  }
  return times;
}
