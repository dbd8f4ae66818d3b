import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import type { Statement } from '../../../src/core/db/client.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { findStripeProblem, listUnknown } from '../../../src/metering/stripe/comparison.js';
import { countEvents, createMeterSender, planHours } from '../../../src/metering/stripe/stripe.js';
import { makeFaulty } from '../../support/faulty-database.js';
import { silent } from '../../support/lent-database.js';
import { TestClock } from '../../support/service.js';
import { useDatabase } from '../../support/use.js';
import { addToHour, createPayer } from '../support/stripe.js';

const database = useDatabase();
const ROWS = 4_000;

it('every statement about Stripe reads its tables only by index', async () => {
  const { db } = database;
  const clock = new TestClock();
  const hour = new Date(Math.floor(clock.now() / 3_600_000 - 3) * 3_600_000).toISOString();
  const known = { customers: new Map(), meters: new Map() };
  const payer = await createPayer(db, known, hour);
  const other = sql.raw('md5(n::text)::uuid');
  const others = sql.raw(`generate_series(1, ${ROWS}) as n`);
  await db.orm.execute(sql`insert into organizations (id, slug, name, created_at)
    select ${other}, 'other-' || n, 'Other', now() from ${others}`);
  await db.orm
    .execute(sql`insert into usage_hours (org_id, product_id, livemode, hour, metric, api_key_id, quantity, events)
    select ${other}, ${payer.productId}::uuid, true, ${hour}::timestamptz, 'calls', ${other}, 1, 1 from ${others}`);
  await db.orm.execute(sql`insert into stripe_events
      (org_id, product_id, livemode, hour, revision, metric, quantity, customer_id, event_name, planned_at, next_attempt_at, state, sent_at)
    select ${other}, ${other}, true, ${hour}::timestamptz, 1, 'calls', 1, 'cus_1', 'calls', now(), now(), 'sent', now() from ${others}`);
  await db.orm.execute(sql`analyze`);
  await addToHour(db, payer, { hour, quantity: '1' });

  const faulty = makeFaulty(db);
  const recorded = new Map<string, [Statement, unknown[]]>();
  faulty.before = (statement, values) => void recorded.set(statement.name, [statement, values]);
  const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
  const stripe = {
    check: () => Promise.resolve(undefined),
    send: () => Promise.resolve({ kind: 'recorded' as const }),
  };
  const deps = { db: faulty.db, clock, metrics, log: silent, livemode: true, stripe };
  expect(await planHours(faulty.db, { nowMs: clock.now(), livemode: true, fromMs: Date.parse(hour) })).toBe(
    1,
  );
  await createMeterSender(deps)();
  await countEvents(deps);
  expect([...recorded.keys()].sort()).toEqual([
    'stripe_claim',
    'stripe_count',
    'stripe_outcome',
    'stripe_plan',
  ]);
  for (const [{ name, text }, values] of recorded.values()) {
    const rows = await db.dryRun((run) => run({ name: `explain_${name}`, text: `explain ${text}` }, values));
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan, name).not.toMatch(/Seq Scan on (?:stripe_events|usage_hours|organizations)\b/);
  }
  const plans: string[] = [];
  const orm = {
    execute: async (query: unknown) => {
      const found: unknown = await db.orm.execute(sql`explain ${query as ReturnType<typeof sql>}`);
      plans.push(JSON.stringify((found as { rows: unknown[] }).rows));
      return { rows: [] };
    },
  } as unknown as typeof db.orm;
  await findStripeProblem(orm, 'org_id', payer.orgId);
  await findStripeProblem(orm, 'product_id', payer.productId);
  await listUnknown(orm, undefined);
  expect(plans).toHaveLength(3);
  for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on stripe_events/);
});
