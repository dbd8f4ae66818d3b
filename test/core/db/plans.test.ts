import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { textArray } from '../../../src/core/db/sql.js';
import type { Statement, TextRow } from '../../../src/core/db/client.js';
import { entitlements } from '../../../src/metering/entitlements/table.js';
import { isEmbedded } from '../../support/database.js';
import { makeFaulty } from '../../support/faulty-database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { grant } from '../../metering/support/products.js';
import { startTestService } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../../metering/support/usage.js';
import { createListener } from '../../support/webhook-messages.js';
import { useDatabase } from '../../support/use.js';

/**
 * Tables that requests must read through an index, so that a request's cost does not grow with other Organizations'
 * rows.
 */
const bigTables = [
  'usage_events',
  'usage_totals',
  'usage_hours',
  'api_keys',
  'api_key_calls',
  'api_key_scope_use',
  'entitlements',
  'webhook_endpoints',
  'webhook_messages',
  'webhook_deliveries',
];
const ROWS = 4_000;

const database = useDatabase();
let tenant: Awaited<ReturnType<typeof createTenant>>;
beforeAll(async () => {
  tenant = await createTenant(database.db, '1');
  const limits = ['calendar_day', 'PT5H'].map((window) => ({
    quantity: '1',
    window,
    enforcement: 'warn' as const,
  }));
  await database.db.orm.update(entitlements).set({ limits });
  await createListener(database.db, tenant.organization.id, { types: ['usage.threshold_reached'] });
  await fillWithOthers();
});

/** Inserts rows for other Organizations and updates statistics, so that the planner has alternatives. */
async function fillWithOthers() {
  const { orm } = database.db;
  const n = sql.raw(`generate_series(1, ${ROWS}) as n`);
  const id = sql.raw(`md5(n::text)::uuid`);
  await orm.execute(
    sql`insert into organizations (id, slug, name, created_at) select ${id}, 'other-' || n, 'Other', now() from ${n}`,
  );
  await orm.execute(sql`insert into api_keys (org_id, id, name, prefix, hashed_secret, scopes, livemode, created_at)
    select ${id}, ${id}, 'key', 'org_live_000', md5(n::text), '{usage:write}', true, now() from ${n}`);
  await orm.execute(sql`insert into entitlements
    select ${id}, ${tenant.product.id}::uuid, 'live', now(), null, now(), now() from ${n}`);
  await orm.execute(sql`insert into usage_events
    select ${id}, ${tenant.product.id}::uuid, ${id}, now(), now(), true, 'key ' || n, 'calls', 1 from ${n}`);
  await orm.execute(sql`insert into usage_totals
    select ${id}, '2031-01-01', true, ${tenant.product.id}::uuid, 'calls', 1, 1 from ${n}`);
  await orm.execute(sql`insert into usage_hours
    select ${id}, ${tenant.product.id}::uuid, true, '2031-01-01', 'calls', ${id}, 1, 1 from ${n}`);
  await orm.execute(sql`insert into api_key_calls select ${id}, ${id}, '2031-01-01', 1 from ${n}`);
  await orm.execute(
    sql`insert into api_key_scope_use select ${id}, ${id}, 'usage:write', 1, now() from ${n}`,
  );
  await orm.execute(sql`insert into webhook_endpoints (org_id, id, url, types, livemode, secret, created_at)
    select ${id}, ${id}, 'https://example.com/', '{usage.threshold_reached}', true, '', now() from ${n}`);
  await orm.execute(
    sql`insert into webhook_messages select ${id}, ${id}, 'usage.threshold_reached', true, '{}', now(), 'once' from ${n}`,
  );
  await orm.execute(sql`insert into webhook_deliveries (org_id, endpoint_id, message_id, status, next_attempt_at)
    select ${id}, ${id}, ${id}, 'delivered', now() from ${n}`);
  await orm.execute(sql`analyze`);
}

let explained = 0;

/**
 * Returns the plan that a request's statement gets: with the hot pool's settings and, on Postgres, as a prepared
 * statement.
 */
async function explain(statement: Statement, values: unknown[]): Promise<string> {
  const rows = await database.db.dryRun(async (run): Promise<TextRow[]> => {
    if (isEmbedded) return run({ name: 'explain', text: `explain ${statement.text}` }, values);
    await run(statement, values);
    const literals = values.map(toLiteral).join(', ');
    return run(
      { name: `explain_${explained++}`, text: `explain execute ${statement.name} (${literals})` },
      [],
    );
  });
  return rows.map((row) => row['QUERY PLAN']).join('\n');
}

/** Returns a parameter as an SQL literal; arrays are encoded as the driver encodes them. */
function toLiteral(value: unknown): string {
  const text = Array.isArray(value) ? textArray(value as string[]) : String(value);
  return `'${text.replaceAll("'", "''")}'`;
}

/**
 * Sends every kind of request and records the hot statements, with their parameters for a flush of `count` requests.
 */
async function recordStatements(count: number): Promise<[Statement, unknown[]][]> {
  const faulty = makeFaulty(database.db);
  const recorded = new Map<string, [Statement, unknown[]]>();
  faulty.before = (statement, values) => void recorded.set(statement.name, [statement, values]);
  const service = await startTestService(faulty.db);
  const { key, product } = tenant;
  const events = Array.from({ length: count }, (_, i) => usageEvent(product.slug, `${count} ${i}`));
  const headers = { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' };
  const body = JSON.stringify({
    productSlugs: Array.from({ length: Math.min(count, 50) }, () => product.slug),
  });
  const statuses = [
    (await sendUsage(service.url, key.secret, events)).status,
    (await sendUsage(service.url, key.secret, events)).status,
    (await sendUsage(service.url, key.secret, events, { dryRun: true })).status,
    (await fetch(`${service.url}/api/entitlements`, { headers })).status,
    (await fetch(`${service.url}/api/entitlements/${product.slug}`, { headers })).status,
    (await fetch(`${service.url}/api/entitlements/check`, { method: 'POST', headers, body })).status,
    (await fetch(`${service.url}/api/key`, { headers })).status,
  ];
  expect(statuses).toEqual([202, 202, 202, 200, 200, 200, 200]);
  await service.services.keyUse.flush();
  await service.stop();
  return [...recorded.values()];
}

it.each([1, 500])('statements for %i events read the big tables only by index', async (count) => {
  const statements = await recordStatements(count);
  expect(statements.map(([{ name }]) => name)).toEqual(
    expect.arrayContaining([
      'api_keys_read',
      'api_keys_record_use',
      'usage_ingest_new',
      'usage_ingest',
      'usage_ingest_extended',
      'usage_find_mismatches',
      'usage_find_over_cap',
      'usage_thresholds_evaluate',
    ]),
  );
  for (const [statement, values] of statements) {
    const plan = await explain(statement, values);
    expect(plan, statement.name).toMatch(/Index (Only )?Scan|Conflict Arbiter Indexes/);
    for (const table of bigTables)
      expect(plan, statement.name).not.toMatch(new RegExp(`Seq Scan on ${table}\\b`));
    expect(indexScansWithoutCondition(plan), statement.name).toEqual([]);
  }
});

/** Finds index scans without a condition, which read the whole index and are no better than a table scan. */
function indexScansWithoutCondition(plan: string): string[] {
  const lines = plan.split('\n');
  return lines.filter(
    (line, i) =>
      /Index (Only )?Scan/.test(line) &&
      bigTables.some((table) => new RegExp(` on ${table}\\b`).test(line)) &&
      !/Index Cond|Order By/.test(lines[i + 1] ?? ''),
  );
}

it('reservations are read only by index, and held quantities by the index that covers their sum, whatever the statistics', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const limits = [{ quantity: '9', window: 'PT5H', enforcement: 'block' as const }];
  await grant(db, orgId, tenant.product.id, { limits });
  const { secret } = await createKey(db, orgId);
  const faulty = makeFaulty(db);
  const recorded = new Map<string, [Statement, unknown[]]>();
  faulty.before = (statement, values) => void recorded.set(statement.name, [statement, values]);
  const service = await startTestService(faulty.db);
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
  const path = `${service.url}/api/usage/reservations`;
  const body = JSON.stringify({
    productSlug: tenant.product.slug,
    metric: 'calls',
    quantity: 1,
    idempotencyKey: 'r',
  });
  const made = await fetch(path, { method: 'POST', headers, body });
  const { reservation } = (await made.json()) as { reservation: { id: string } };
  const settled = await fetch(`${path}/${reservation.id}/settle`, { method: 'POST', headers, body: '{}' });
  const released = await fetch(`${path}/${reservation.id}`, { method: 'DELETE', headers });
  const listed = await fetch(`${path}?status=expired`, { headers });
  expect([made, settled, released, listed].map(({ status }) => status)).toEqual([201, 200, 200, 200]);
  await service.stop();
  const names = ['usage_reserve', 'usage_settle', 'usage_release', 'usage_reservations_list_expired'];
  // Postgres keeps using a plan made while the tables were only one page long, so even that plan must use the index.
  if (!isEmbedded) {
    await db.orm.execute(sql`insert into usage_reservations
        (org_id, id, product_id, api_key_id, created_at, expires_at, livemode, idempotency_key, metric, quantity, settled_at, settled_quantity, settle_occurred_at, is_counted)
      select case when n % 16 = 0 then ${orgId}::uuid else md5((n % 16)::text)::uuid end, gen_random_uuid(), ${tenant.product.id}::uuid, gen_random_uuid(), now(),
        now() + interval '5 minutes', true, 'key ' || n, 'calls', 1, now(), 1, now(), true from generate_series(1, 50) n`);
    await db.orm.execute(sql`analyze usage_reservations`);
    const plan = await explain(...recorded.get('usage_reserve')!);
    expect(plan).toMatch(/Index Only Scan using usage_reservations_held/);
    expect(plan).toMatch(/Index Scan using usage_reservations_key/);
  }
  const others = sql.raw(`generate_series(1, ${ROWS}) as n`);
  await db.orm.execute(sql`insert into usage_reservations
      (org_id, id, product_id, api_key_id, created_at, expires_at, livemode, idempotency_key, metric, quantity)
    select md5(n::text)::uuid, md5(n::text)::uuid, ${tenant.product.id}::uuid, md5(n::text)::uuid, now(), now(), true, 'key', 'calls', 1 from ${others}`);
  for (const isAnalyzed of [false, true]) {
    if (isAnalyzed) await db.orm.execute(sql`analyze usage_reservations`);
    for (const name of names) {
      const plan = await explain(...recorded.get(name)!);
      expect(plan, name).not.toContain('Seq Scan on usage_reservations');
      if (name === 'usage_reserve') expect(plan).toMatch(/Index Only Scan using usage_reservations_held/);
      if (name === 'usage_reserve') expect(plan).not.toContain('usage_reservations_open');
    }
  }
});

it('the check detects a sequential scan', async () => {
  const statement = { name: 'test_scan', text: 'select metric from usage_events where metric = $1' };
  expect(await explain(statement, ['calls'])).toMatch(/Seq Scan on usage_events/);
});
