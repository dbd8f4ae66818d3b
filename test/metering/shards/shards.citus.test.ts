import { setTimeout } from 'node:timers/promises';
import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import pg from 'pg';
import { pino } from 'pino';
import { beforeAll, expect, inject, it, vi } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { systemClock } from '../../../src/core/time.js';
import { SEQUENTIAL, type Database } from '../../../src/core/db/client.js';
import { distributeTables, findMisplaced } from '../../../src/core/db/distribute.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { listPlacements } from '../../../src/core/db/placement.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createEntitlementReader } from '../../../src/metering/entitlements/reader.js';
import { toBatch } from '../../../src/metering/ingestion/batch.js';
import { createIngestion } from '../../../src/metering/ingestion/ingestion.js';
import { compare, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { query } from '../../support/postgres-server.js';
import { asMaintained } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { createSenders, progress, startLoad, type Load, type Sender } from '../support/sharded-load.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
let db: Database;
beforeAll(async () => {
  db = database.db;
});

const sumOf = (load: Load) => [...load.acknowledged.values()].reduce((sum, count) => sum + count, 0);
const ingestionOf = (of: Database) =>
  createIngestion({
    db: of,
    clock: systemClock,
    metrics: createMetrics([createMeteringMetrics], { ofProcess: false }),
  });

async function countEvents(senders: Sender[]): Promise<{ events: number; totals: number; hours: number }> {
  const ids = sql`${`{${senders.map(({ orgId }) => orgId).join(',')}}`}::uuid[]`;
  const [events] = await selectRows<{ n: number }>(
    db.orm,
    sql`select count(*)::int as n from usage_events where org_id = any (${ids})`,
  );
  const [totals] = await selectRows<{ n: number }>(
    db.orm,
    sql`select coalesce(sum(events), 0)::int as n from usage_totals where org_id = any (${ids})`,
  );
  const [hours] = await selectRows<{ n: number }>(
    db.orm,
    sql`select coalesce(sum(events), 0)::int as n from usage_hours where org_id = any (${ids})`,
  );
  return { events: events!.n, totals: totals!.n, hours: hours!.n };
}

const batchOf = (
  secret: string,
  productSlug: string,
  events: { key: string; quantity: number; metric?: string }[],
  isLenient = false,
) =>
  toBatch({
    events: events.map(({ key, quantity, metric = 'calls' }) => ({
      productSlug,
      metric,
      quantity,
      idempotencyKey: key,
    })),
    exactQuantities: new Map(),
    hashedSecret: hashSecret(secret),
    isLenient,
    receivedAtMs: Date.now(),
    bytes: 1,
  });

it('every table with rows of Organizations is distributed, and a new undistributed one is found', async () => {
  expect(db.shards.groups).toHaveLength(4);
  expect(await findMisplaced(db.orm)).toEqual([]);
  await db.orm.execute(
    sql`create table later (org_id uuid not null references organizations (id), id uuid not null, primary key (org_id, id))`,
  );
  expect(await findMisplaced(db.orm)).toEqual([{ table: 'later', placement: 'spread' }]);
  await distributeTables(db.orm, 0);
  expect(await findMisplaced(db.orm)).toEqual([]);
  await db.orm.execute(sql`drop table later`);
});

it('a migration changes distributed tables and reference tables in one transaction', async () => {
  const client = new pg.Client({ connectionString: database.url! });
  await client.connect();
  await client.query(SEQUENTIAL);
  await client.query('begin');
  await client.query(`alter table products add column noted text`);
  await client.query(`alter table api_keys add column noted text`);
  await client.query(`alter table usage_totals add column product_noted uuid references products (id)`);
  await client.query(`create index api_keys_noted on api_keys (org_id, noted)`);
  await client.query('commit');
  await client.query(`alter table usage_totals drop column product_noted`);
  await client.end();
});

it('a key is looked up where Citus keeps its Organization', async () => {
  for (const { orgId, secret } of await createSenders(db, 12)) {
    const group = await db.shards.locate(hashSecret(secret));
    const [row] = await selectRows<{ id: string }>(
      db.orm,
      sql`select get_shard_id_for_distribution_column('usage_events', ${orgId}::uuid)::text as id`,
    );
    expect(group.id).toBe(row!.id);
  }
});

it('hot statements answer as on a single Postgres, whatever is sent', async () => {
  const name = `plain_${process.pid}`;
  const url = inject('postgresUrl');
  await query(url, `create database ${name} template template_gauge`);
  const plain = await openDatabase(
    { databaseUrl: url.replace(/\/postgres$/, `/${name}`), dataDir: '' },
    pino({ level: 'silent' }),
  );
  const event = fc.record({
    key: fc.constantFrom('a', 'b', 'c', 'd'),
    quantity: fc.constantFrom(1, 2, 11),
    metric: fc.constantFrom('calls', 'calls', 'calls', 'other'),
  });
  const request = fc.record({
    who: fc.integer({ min: 0, max: 4 }),
    isLenient: fc.boolean(),
    events: fc.array(event, { minLength: 1, maxLength: 5 }),
  });
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 8 }), async (requests) => {
        const answers = [];
        for (const one of [plain, db]) {
          const product = await createProduct(one, { unitCap: '5', maxQuantity: '10' });
          const secrets = ['org_live_unknown'];
          for (let i = 0; i < 4; i++) {
            const { id } = await createOrganization(one);
            if (i < 3) await grant(one, id, product.id, i === 2 ? { hasOwnCap: true, unitCap: '3' } : {});
            secrets.push((await createKey(one, id, i === 1 ? { scopes: ['usage:write'] } : {})).secret);
          }
          const ingestion = ingestionOf(one);
          const reader = createEntitlementReader({ db: one, clock: systemClock });
          const outcomes = [];
          for (const { who, isLenient, events } of requests) {
            const { verdicts, ...rest } = await ingestion.record(
              batchOf(secrets[who]!, product.slug, events, isLenient),
            );
            outcomes.push({
              problems: verdicts.map((verdict) => verdict?.problem),
              ...rest,
              overCap: rest.overCap.map(({ slug: _slug, ...over }) => over),
              aboveCeiling: [...rest.aboveCeiling],
            });
          }
          const checks = await Promise.allSettled(
            secrets.map((secret) => reader.check(hashSecret(secret), [product.slug, 'none'])),
          );
          answers.push({
            outcomes,
            checks: checks.map((check) =>
              check.status === 'fulfilled' ? check.value : (check.reason as Error).message,
            ),
          });
        }
        expect(answers[1]).toEqual(answers[0]);
      }),
      { numRuns: 12 },
    );
  } finally {
    await plain.close();
    await query(url, `drop database ${name} with (force)`);
  }
});

it('400 concurrent requests with repeats record each key once: rows, totals and hours agree', async () => {
  const senders = await createSenders(db, 8);
  const ingestion = ingestionOf(db);
  let accepted = 0;
  await Promise.all(
    Array.from({ length: 400 }, async (_, i) => {
      const { secret, productSlug } = senders[i % 8]!;
      const events = Array.from({ length: 5 }, (_key, e) => ({ key: `${(i >> 3) % 20}-${e}`, quantity: 1 }));
      const { repeats } = await ingestion.record(batchOf(secret, productSlug, events));
      accepted += 5 - repeats.length;
    }),
  );
  expect(accepted).toBe(8 * 20 * 5);
  expect(await countEvents(senders)).toEqual({ events: accepted, totals: accepted, hours: accepted });
});

it('a blocked shard does not stop its neighbours on the same worker', async () => {
  const senders = await createSenders(db, 24);
  const [blocked] = db.shards.groups;
  const groups = await Promise.all(senders.map(async ({ secret }) => db.shards.locate(hashSecret(secret))));
  const neighbours = senders.filter(
    (_sender, i) => groups[i]!.worker === blocked!.worker && groups[i] !== blocked,
  );
  const own = senders.filter((_sender, i) => groups[i] === blocked);
  expect(Math.min(neighbours.length, own.length)).toBeGreaterThan(0);
  const { pathname } = new URL(database.url!);
  const holder = new pg.Client({ connectionString: `postgres://gauge@${blocked!.worker}${pathname}` });
  await holder.connect();
  await holder.query('set citus.enable_manual_changes_to_shards = on');
  await holder.query('begin');
  await holder.query(`lock table usage_events_${blocked!.id} in share row exclusive mode`);
  const stuck = startLoad(db, own, { batch: 1 });
  const load = startLoad(db, neighbours, { batch: 1 });
  await progress(load, neighbours, 5);
  expect(sumOf(stuck)).toBe(0);
  await holder.query('rollback');
  await holder.end();
  await Promise.all([load.stop(), stuck.stop()]);
  expect(load.early).toEqual([]);
});

it('sums are repaired during ingestion without losing an event', async () => {
  const senders = await createSenders(db, 8);
  const load = startLoad(db, senders, { batch: 5 });
  await progress(load, senders);
  const { orgId } = senders[0]!;
  await db.orm.execute(sql`update usage_totals set quantity = quantity + 1 where org_id = ${orgId}::uuid`);
  const report = await repair(asMaintained(database), systemClock, {});
  await load.stop();
  expect(report).toEqual({ organizations: 1, totals: 1, hours: 0, subjects: 0 });
  expect(await compare(db.orm, {})).toEqual({ totals: [], hours: [], subjects: [], settlements: [] });
  const sent = sumOf(load);
  expect(await countEvents(senders)).toEqual({ events: sent, totals: sent, hours: sent });
});

/**
 * Cleans up after a move: a group cannot move back to a worker until Citus has deleted the old copy there, which a
 * vacuum may delay.
 */
async function isCleanedUp(): Promise<void> {
  const [leftover] = await query<{ count: number }>(
    database.url!,
    'call citus_cleanup_orphaned_resources()',
    'select count(*)::int as count from pg_dist_cleanup',
  );
  expect(leftover).toEqual({ count: 0 });
}

/** Delays a move at its cut-over. */
async function holdBack({ id, host, port }: { id: string; host: string; port: number }, ms: number) {
  const worker = `postgres://gauge@${host}:${port}${new URL(database.url!).pathname}`;
  const holder = new pg.Client({ connectionString: worker });
  await holder.connect();
  await holder.query('begin');
  await holder.query(`select gauge_hold('{${id}}')`);
  await vi.waitFor(
    async () =>
      expect(
        await query(worker, `select from pg_locks where locktype = 'advisory' and not granted`),
      ).not.toEqual([]),
    { timeout: 600_000, interval: 100 },
  );
  await setTimeout(ms);
  await holder.query('commit');
  await holder.end();
}

/**
 * Moves the group with the most senders while they send.
 * @param holdMs how long another statement delays the cut-over
 */
async function moveUnderLoad(senders: Sender[], holdMs = 0): Promise<Load> {
  const groups = await Promise.all(senders.map(async ({ secret }) => db.shards.locate(hashSecret(secret))));
  const sizes = new Map(groups.map(({ id }) => [id, groups.filter((group) => group.id === id).length]));
  const places = await listPlacements(db.orm);
  const from = places.reduce((a, b) => ((sizes.get(b.id) ?? 0) > (sizes.get(a.id) ?? 0) ? b : a));
  const workers = await query<{ host: string; port: number }>(
    database.url!,
    'select nodename as host, nodeport as port from pg_dist_node where groupid <> 0',
  );
  const to = workers.find(({ port }) => port !== from.port)!;
  await vi.waitFor(isCleanedUp, { timeout: 600_000, interval: 500 });
  const load = startLoad(db, senders);
  const held = holdMs > 0 ? holdBack(from, holdMs) : undefined;
  await progress(load, senders);
  await query(
    database.url!,
    `select citus_move_shard_placement(${from.id}, '${from.host}', ${from.port}, '${to.host}', ${to.port}, 'force_logical')`,
  );
  await held;
  await progress(load, senders);
  await load.stop();
  return load;
}

it('a moving group loses nothing, and would lose events without the hold', async () => {
  const senders = await createSenders(db, 16);
  const moved = await moveUnderLoad(senders, 3_200);
  const sent = sumOf(moved);
  expect(moved.early).toEqual([]);
  expect(await countEvents(senders)).toEqual({ events: sent, totals: sent, hours: sent });
  await query(
    database.url!,
    `create or replace function gauge_hold(shards bigint[]) returns int language sql volatile as 'select 1'`,
  );
  try {
    let total = sent;
    // Tries several times, because a cut-over may not coincide with any statement.
    for (let tries = 5, isLost = false; tries > 0 && !isLost; tries--) {
      total += sumOf(await moveUnderLoad(senders));
      isLost = (await countEvents(senders)).events < total;
    }
    expect((await countEvents(senders)).events).toBeLessThan(total);
  } finally {
    await distributeTables(db.orm, 0);
  }
});
