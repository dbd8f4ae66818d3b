/**
 * `npm run bench:storage -- --sizes 1000000`: the size on disk of an event in the table, the primary key and the time
 * index, with idempotency keys as text and as 16-byte UUIDs.
 *
 * `npm run bench:storage`: the cost that the dashboard's index and hourly sums add to an insert. Runs the ingestion
 * statement without HTTP, four at a time with 500 events each, as shipped and without the index, the sums or both. The
 * variants alternate in turns of a few seconds, and each ratio compares a variant's turn with the turn of the shipped
 * form in the same round.
 */
import { Command } from 'commander';
import pg from 'pg';
import { pino } from 'pino';
import { hashSecret } from '../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { oneShardGroup } from '../src/core/db/shards.js';
import { toBatch } from '../src/metering/ingestion/batch.js';
import { recordBatches } from '../src/metering/ingestion/flush.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, type Tenant } from './world.js';

const ROUNDS = 7;
const SECONDS = 3;

interface Variant {
  name: string;
  /** SQL that is run once on the variant's own database. */
  prepare?: string;
  change?: (text: string) => string;
}

const withoutHours = (text: string) =>
  text.replace(/\), charted as \([\s\S]*?\), counted as \(/, '), counted as (');

const variants: Variant[] = [
  { name: 'as shipped' },
  { name: 'without the index by time', prepare: 'drop index usage_events_time' },
  { name: 'without the hourly sums', change: withoutHours },
  { name: 'without both', prepare: 'drop index usage_events_time', change: withoutHours },
];

let next = 0;

async function insertFor(db: Database, tenants: Tenant[], change: Variant['change']): Promise<number> {
  const { run } = oneShardGroup({
    ...db,
    run: (statement, values) =>
      db.run(change ? { name: `${statement.name}_x`, text: change(statement.text) } : statement, values),
  }).whole;
  const endsAt = performance.now() + SECONDS * 1000;
  const startedAt = performance.now();
  let events = 0;
  const worker = async (w: number) => {
    for (let turn = w; performance.now() < endsAt; turn++) {
      const tenant = tenants[turn % tenants.length]!;
      const batch = toBatch({
        events: Array.from({ length: 500 }, () => ({
          productSlug: tenant.slugs[0]!,
          metric: 'calls',
          quantity: 1,
          idempotencyKey: `${startedAt.toFixed(0)}-${String(next++).padStart(20, '0')}`,
        })),
        exactQuantities: new Map(),
        hashedSecret: hashSecret(tenant.secret),
        isLenient: false,
        receivedAtMs: Date.now(),
        bytes: 0,
      });
      await recordBatches(run, [batch], Date.now());
      events += 500;
    }
  };
  await Promise.all([0, 1, 2, 3].map(worker));
  return events / ((performance.now() - startedAt) / 1000);
}

const ORGANIZATIONS = 200;
const SIZE_STEP = 500;

/**
 * Prints the bytes per event of the table and its indexes. Inserts events of many Organizations in turn, each flush in
 * primary-key order, as ingestion does.
 */
async function measureSizes(rows: number): Promise<void> {
  console.log('| bytes per event | heap | primary key | time index | all |\n|---|---|---|---|---|');
  for (const type of ['text collate "C"', 'uuid']) {
    await admin.query(`drop table if exists sized; create table sized (org_id uuid not null, product_id uuid not null,
      api_key_id uuid not null, occurred_at timestamptz(6) not null, received_at timestamptz(6) not null, livemode boolean not null,
      idempotency_key ${type} not null, metric text not null, quantity numeric not null, primary key (org_id, idempotency_key));
      create index sized_time on sized (org_id, product_id, livemode, occurred_at)`);
    for (let from = 0; from < rows; from += SIZE_STEP)
      await admin.query(
        `insert into sized (org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key, metric, quantity)
         select md5((i % $2)::text)::uuid, md5('product')::uuid, md5((i % $2)::text)::uuid, t, t, true,
           (lpad(to_hex((extract(epoch from t) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 19))::uuid::${type}, 'calls', 1
         from generate_series($1::bigint, $1::bigint + ${SIZE_STEP - 1}) i
         cross join lateral (select now() - interval '6 days' + i * interval '100 ms' as t) at
         order by 1, 7`,
        [from, ORGANIZATIONS],
      );
    for (const state of ['as loaded', 'after `reindex`']) {
      if (state !== 'as loaded') await admin.query('reindex table sized');
      const { rows: sizes } = await admin.query<{ bytes: string }>(
        `select pg_relation_size(c) as bytes from unnest('{sized,sized_pkey,sized_time}'::regclass[]) with ordinality as u (c, n) order by n`,
      );
      const each = sizes.map(({ bytes }) => Number(bytes) / rows);
      const cells = [...each, each.reduce((sum, bytes) => sum + bytes, 0)].map((bytes) => bytes.toFixed(0));
      console.log(`| key as ${type.split(' ')[0]}, ${state} | ${cells.join(' | ')} |`);
    }
  }
}

const { sizes } = new Command('storage').option('--sizes <n>', 'events').parse().opts<{ sizes?: string }>();
const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const admin = new pg.Client({ connectionString: server.url('postgres') });
await admin.connect();
if (sizes !== undefined) {
  await measureSizes(Number(sizes));
  await admin.end();
  await server.remove();
  process.exit();
}
const sides = [];
for (const [i, variant] of variants.entries()) {
  await admin.query(`create database variant_${i}`);
  const url = server.url(`variant_${i}`);
  const db = await openDatabase({ databaseUrl: url, dataDir: '' }, pino({ level: 'silent' }));
  const tenants = await createTenants(db, 16);
  if (variant.prepare) {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query(variant.prepare);
    await client.end();
  }
  sides.push({ variant, db, tenants, ratios: [] as number[], rates: [] as number[] });
}
for (let round = 0; round <= ROUNDS; round++) {
  let shipped = 0;
  for (const side of sides) {
    const rate = await insertFor(side.db, side.tenants, side.variant.change);
    if (side === sides[0]) shipped = rate;
    // The first round only warms up.
    if (round > 0) {
      side.rates.push(rate);
      side.ratios.push(rate / shipped);
    }
  }
}
const median = (values: number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!;
console.log('| storage, batch 500, four statements at a time | events/s | ÷ as shipped |\n|---|---|---|');
for (const { variant, rates, ratios } of sides) {
  console.log(
    `| ${variant.name} | ${Math.round(median(rates)).toLocaleString('en')} | ${median(ratios).toFixed(2)} |`,
  );
}
for (const { db } of sides) await db.close();
await admin.end();
await server.remove();
