/** `npm run bench:plans`: 10,000 Organizations are moved to a plan's new version while others report usage. */
import { availableParallelism, loadavg } from 'node:os';
import pg from 'pg';
import { pino } from 'pino';
import { openDatabase } from '../src/core/db/open.js';
import { createKey } from '../test/support/fixtures.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { machine } from './embedded.js';
import { startProduct } from './world.js';

const TARGET_SECONDS = 60;
const ORGANIZATIONS = 10_000;
const SENDERS = 8;
const BATCH = 50;
const OPERATOR_TOKEN = 'an-operator-token-for-the-benchmarks';

/** Each Organization is on version 1, with a running grant and one for tomorrow. One in ten has a webhook endpoint. */
const world = [
  `insert into organizations (id, slug, name, created_at)
   select gen_random_uuid(), 'customer-' || i, 'Customer ' || i, now() from generate_series(1, ${ORGANIZATIONS}) i`,
  `insert into entitlements (org_id, product_id, kind, starts_at, created_at, updated_at, has_own_cap, unit_cap, plan)
   select o.id, p.id, 'live', now(), now(), now(), true, 1000, 'team' from organizations o, products p where p.slug in ('a', 'b')`,
  `insert into organization_plans (org_id, plan, version, starts_at, anchor, granted_until, due_at, created_at, updated_at)
   select id, 'team', 1, t, t, now() + interval '1 hour', now() + interval '1 day', t, t from organizations, date_trunc('day', now()) t`,
  `insert into credit_grants (org_id, id, starts_at, expires_at, created_at, livemode, priority, grant_key, amount, reason, actor, request)
   select o.id, gen_random_uuid(), t, t + interval '1 day', t, true, 50, 'plan:daily:' || t, 1000000, 'daily', 'system', '{"plan": "team"}'
   from organizations o, generate_series(date_trunc('day', now()), date_trunc('day', now()) + interval '1 day', '1 day') t`,
  `insert into credit_accounts (org_id, livemode, grants, rests, starts, ends, scopes, priorities, roll_percents, roll_days)
   select org_id, true, array_agg(id order by starts_at), '{1000000,1000000}', array_agg(starts_at order by starts_at),
     array_agg(expires_at order by starts_at), '{"",""}', '{50,50}', '{0,0}', '{0,0}' from credit_grants group by 1`,
  `insert into webhook_endpoints (org_id, id, url, types, livemode, secret, created_at)
   select id, gen_random_uuid(), 'https://example.com', '{entitlement.changed}', true, '', now() from organizations where slug like '%7'`,
  'vacuum analyze',
];

const plan = (cap: number) => ({
  name: 'Team',
  entitlements: ['a', 'b'].map((productSlug) => ({ productSlug, unitCap: cap })),
  grants: [{ key: 'daily', amount: cap * 1000, every: 'day', expires: 'period' }],
});

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
try {
  const url = server.url('postgres');
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const product = await startProduct({ DATABASE_URL: url, MARKETS: 'off', OPERATOR_TOKEN });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const address = `http://127.0.0.1:${product.port}`;
    const call = async (method: string, path: string, token: string, body: object) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const answer = await fetch(address + path, { method, headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as { accepted: number; moved: number; remaining: number };
    };
    const operate = (method: string, path: string, body: object) =>
      call(method, `/operator${path}`, OPERATOR_TOKEN, body);
    for (const slug of ['a', 'b'])
      await operate('PUT', `/products/${slug}`, {
        name: slug,
        usageMetric: 'calls',
        credits: { price: 1, enforcement: 'warn' },
      });
    await operate('PUT', '/plans/team', plan(1_000));
    for (const statement of world) await client.query(statement);
    await operate('PUT', '/plans/team', plan(2_000));
    const { rows } = await client.query<{ id: string }>(
      'select id from organizations order by id limit 400 offset 100',
    );
    const keys = await Promise.all(rows.map(({ id }) => createKey(db, id)));

    let isOver = false;
    let sent = 0;
    let times: number[] = [];
    const send = async (first: number) => {
      for (let n = first; !isOver; n += SENDERS) {
        const events = Array.from({ length: BATCH }, (_, i) => ({
          idempotencyKey: `event-${n}-${i}`,
          productSlug: 'a',
          metric: 'calls',
          quantity: 1,
          occurredAt: new Date().toISOString(),
        }));
        const began = performance.now();
        const { accepted } = await call('POST', '/api/usage/events', keys[n % keys.length]!.secret, {
          events,
        });
        sent += accepted;
        times.push(performance.now() - began);
      }
    };
    const senders = Array.from({ length: SENDERS }, (_, i) => send(i));
    const readLatency = () => {
      const sorted = times.toSorted((a, b) => a - b);
      times = [];
      const at = (share: number) => `${sorted[Math.floor(sorted.length * share)]!.toFixed(0)} ms`;
      return `p50 ${at(0.5)}, p99 ${at(0.99)}, slowest ${sorted.at(-1)!.toFixed(0)} ms`;
    };
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    const alone = readLatency();

    const began = performance.now();
    let moved = 0;
    for (let remaining = 1; remaining > 0;) {
      const answer = await operate('POST', '/plans/team/move', {});
      moved += answer.moved;
      ({ remaining } = answer);
    }
    const seconds = (performance.now() - began) / 1000;
    const beside = readLatency();
    isOver = true;
    await Promise.all(senders);

    const counted = await client.query<
      Record<string, string>
    >(`select (select sum(events) from usage_totals) as events,
      (select count(*) from entitlements where unit_cap = 2000) as entitlements, (select count(*) from credit_grants where voided_at is not null) as voided,
      (select count(*) from audit_log) as log, (select count(*) from webhook_messages where type = 'entitlement.changed') as messages`);
    console.log(
      `${machine()}, ${availableParallelism()} cores, load average ${loadavg()[0]!.toFixed(0)}, Node ${process.version}\n`,
    );
    console.log(`${moved} Organizations moved in ${seconds.toFixed(1)} s (≤ ${TARGET_SECONDS} s)`);
    console.log(`batches of ${BATCH} from ${SENDERS} senders before: ${alone}; beside the move: ${beside}`);
    console.log(`events acknowledged: ${sent}; counted: ${counted.rows[0]!.events}`);
    console.log(counted.rows[0]);
  } finally {
    await client.end();
    await product.stop();
    await db.close();
  }
} finally {
  await server.remove();
}
