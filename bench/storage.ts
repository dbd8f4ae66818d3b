/**
 * `npm run bench:storage`: what the dashboard's index and hourly sums cost at insert. The ingestion statement is run
 * directly, without HTTP, four at a time with 500 events each, as shipped and with one of them left out; the variants
 * take turns of a few seconds, and each turn's ratio is against the shipped form of the same round.
 */
import pg from 'pg';
import { pino } from 'pino';
import { hashSecret } from '../src/api-keys/secret.js';
import type { Database } from '../src/core/db/client.js';
import { openDatabase } from '../src/core/db/open.js';
import { oneShardGroup } from '../src/core/db/shards.js';
import { toBatch } from '../src/usage/batch.js';
import { recordBatches } from '../src/usage/flush.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, type Tenant } from './world.js';

const ROUNDS = 7;
const SECONDS = 3;

interface Variant {
  name: string;
  /** Run once on the variant's own database. */
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

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const admin = new pg.Client({ connectionString: server.url('postgres') });
await admin.connect();
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
    // The first round warms up.
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
