/**
 * `npm run bench:backfill`: stages, applies and reverts a backfill while the service handles usage and checks at a
 * steady rate. Prints the duration of each step and the latency that callers see. Afterwards, checks that every sum
 * matches its events.
 */
import { setTimeout } from 'node:timers/promises';
import { Command } from 'commander';
import { pino } from 'pino';
import { openForMaintenance } from '../src/core/db/maintenance.js';
import { openDatabase } from '../src/core/db/open.js';
import { compare, hasDrift } from '../src/metering/reconciliation/reconcile.js';
import { createPostgresServer } from '../test/support/postgres-server.js';
import { createTenants, startProduct } from './world.js';

const options = new Command('backfill')
  .option('--rows <n>', 'events to backfill', '1000000')
  .option('--pace <n>', 'requests per second of each kind meanwhile', '40')
  .parse()
  .opts<{ rows: string; pace: string }>();
const rows = Number(options.rows);
const pace = Number(options.pace);

const BATCH = 500;
const STAGERS = 3;
const EVENTS_BESIDE = 20;
const TOKEN = 'an-operator-token-of-the-benchmarks-0123';
const DAY_MS = 86_400_000;

const server = await createPostgresServer({ max_wal_size: '4GB', shared_buffers: '512MB' });
const databaseUrl = server.url('postgres');
const db = await openDatabase({ databaseUrl, dataDir: '' }, pino({ level: 'silent' }));
const [tenant, beside] = await createTenants(db, 2);
const [organization] = await db.run(
  { name: 'bench_slug', text: 'select slug from organizations where id = $1' },
  [tenant!.orgId],
);
const product = await startProduct({ DATABASE_URL: databaseUrl, OPERATOR_TOKEN: TOKEN, MARKETS: 'off' });
const root = `http://127.0.0.1:${product.port}`;

async function call(
  path: string,
  token: string,
  method = 'GET',
  body?: object,
): Promise<Record<string, any>> {
  const response = await fetch(`${root}${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, ...(body ? { 'content-type': 'application/json' } : {}) },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  const answer = (await response.json()) as Record<string, unknown>;
  if (!response.ok) throw new Error(`${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

let sent = 0;
let waits: number[] = [];
let isOver = false;
const pending = new Set<Promise<void>>();

/** Sends requests at a fixed rate: a late response does not delay the next request. */
async function send(path: string, bodyOf: () => object): Promise<void> {
  for (let due = performance.now(); !isOver; due += 1000 / pace) {
    const ahead = due - performance.now();
    if (ahead > 0) await setTimeout(ahead);
    const request = call(path, beside!.secret, 'POST', bodyOf()).then(
      () => void waits.push(performance.now() - due),
    );
    pending.add(request);
    void request.finally(() => pending.delete(request));
  }
}

const usage = () => ({
  events: Array.from({ length: EVENTS_BESIDE }, () => ({
    productSlug: beside!.slugs[0],
    metric: 'calls',
    idempotencyKey: `beside-${sent++}`,
  })),
});
const check = () => ({ items: [{ productSlug: beside!.slugs[0], quantity: 1 }] });

async function measure(what: string, work: () => Promise<unknown>): Promise<void> {
  waits = [];
  const startedAt = performance.now();
  await work();
  const seconds = (performance.now() - startedAt) / 1000;
  const sorted = waits.toSorted((a, b) => a - b);
  const at = (share: number) => `${(sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1)} ms`;
  const rate = what === 'alone' ? '' : `, ${Math.round(rows / seconds).toLocaleString('en')} events a second`;
  console.log(
    `${what}: ${seconds.toFixed(1)} s${rate}; beside it p50 ${at(0.5)}, p99 ${at(0.99)} of ${sorted.length} requests`,
  );
}

const senders = [send('/api/usage/events', usage), send('/api/entitlements/check', check)];
const now = Date.now();
const backfills = `/operator/organizations/${organization!.slug}/usage/backfills`;
const { id } = await call(backfills, TOKEN, 'POST', {
  reason: 'The benchmark',
  from: new Date(now - 70 * DAY_MS).toISOString(),
  to: new Date(now).toISOString(),
});

async function stage(): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < rows) {
      const first = next;
      next += BATCH;
      const events = Array.from({ length: Math.min(BATCH, rows - first) }, (_, i) => ({
        productSlug: tenant!.slugs[0],
        metric: 'calls',
        quantity: ((first + i) % 100) / 4,
        occurredAt: new Date(now - (8 + (((first + i) * 7919) % 60_000) / 1000) * DAY_MS).toISOString(),
        idempotencyKey: `backfilled-${first + i}`,
      }));
      await call(`${backfills}/${id}/events`, TOKEN, 'POST', { events });
    }
  };
  await Promise.all(Array.from({ length: STAGERS }, work));
}

async function take(step: 'apply' | 'revert'): Promise<void> {
  await call(`${backfills}/${id}/${step}`, TOKEN, 'POST');
  while ((await call(`${backfills}/${id}`, TOKEN)).backfill.state.endsWith('ing')) await setTimeout(500);
}

async function expectTotal(quantity: number): Promise<void> {
  const [total] = await db.run(
    {
      name: 'bench_total',
      text: 'select sum(quantity)::float8::text as quantity, sum(events)::text as events from usage_totals where org_id = $1',
    },
    [tenant!.orgId],
  );
  if (Number(total!.quantity) !== quantity || Number(total!.events) !== rows)
    throw new Error(`The totals are ${JSON.stringify(total)}.`);
}

try {
  await setTimeout(3_000);
  await measure('alone', () => setTimeout(15_000));
  await measure('staging', stage);
  const startedAt = performance.now();
  const { changes } = await call(`${backfills}/${id}`, TOKEN);
  console.log(`preview: ${(performance.now() - startedAt).toFixed(1)} ms, ${changes.length} months`);
  await measure('applying', () => take('apply'));
  await expectTotal(Array.from({ length: 100 }, (_, i) => i / 4).reduce((a, b) => a + b) * (rows / 100));
  await measure('reverting', () => take('revert'));
  await expectTotal(0);
  await measure('alone', () => setTimeout(15_000));
  isOver = true;
  await Promise.all([...senders, ...pending]);
  // Opens the database without the service's timeouts, because the comparison reads every event.
  const maintained = await openForMaintenance({ databaseUrl, dataDir: '' });
  const report = await compare(maintained.orm, {});
  await maintained.close();
  if (hasDrift(report)) throw new Error('Totals or hours differ from their events.');
  console.log('drift: 0');
} finally {
  isOver = true;
  await Promise.allSettled(senders);
  await product.stop();
  await db.close();
  await server.remove();
}
