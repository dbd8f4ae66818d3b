import { afterAll, beforeAll, expect, it } from 'vitest';
import { setTimeout } from 'node:timers/promises';
import { pino } from 'pino';
import { hashSecret } from '../../../src/api-keys/secret.js';
import type { Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import type { AppError } from '../../../src/core/errors.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createReservations, type Reserved } from '../../../src/usage/reservations/reservations.js';
import { createSettlements } from '../../../src/usage/reservations/settlements.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { createKey, createOrganization, createProduct, grant } from '../../support/fixtures.js';

/** TEST_RESERVES=10000 for the long run. */
const RESERVES = Number(process.env.TEST_RESERVES ?? 2_000);

let database: TestDatabase;
let other: Database;
beforeAll(async () => {
  database = await createTestDatabase();
  other = await openDatabase({ databaseUrl: database.url, dataDir: '' }, pino({ level: 'silent' }));
});
afterAll(async () => {
  await other.close();
  await database.remove();
});

it('parallel reserves over two instances never hold a unit too much, and none is refused while there is room', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const product = await createProduct(db);
  const limit = RESERVES * 4;
  const hourly = { quantity: String(limit), window: 'PT1H', enforcement: 'block' as const };
  const daily = { quantity: String(limit * 2), window: 'calendar_day', enforcement: 'block' as const };
  await grant(db, orgId, product.id, { limits: [daily, hourly] });
  const keys = await Promise.all([createKey(db, orgId), createKey(db, orgId)]);
  const metrics = createMetrics({ ofProcess: false });
  const clock = { now: Date.now };
  const instances = [db, other].map((own) => createReservations({ db: own, clock, metrics }));
  const asked = Array.from({ length: RESERVES }, (_, i) => 1 + ((i * 7_919) % 13));
  const outcomes = await Promise.allSettled(
    asked.map((quantity, i) =>
      instances[i % 2]!.reserve({
        hashedSecret: hashSecret(keys[i % 3 === 0 ? 0 : 1].secret),
        slug: product.slug,
        metric: 'calls',
        quantity: String(quantity),
        idempotencyKey: `r-${i}`,
        ttlSeconds: 3_600,
      }),
    ),
  );
  let held = 0;
  for (const [i, outcome] of outcomes.entries()) {
    if (outcome.status === 'fulfilled') {
      held += asked[i]!;
      expect((outcome.value satisfies Reserved).isRepeat).toBe(false);
      continue;
    }
    const error = outcome.reason as AppError;
    expect(error.code).toBe('limit_reached');
    // Holds are only added here: what the refusal saw was the least that will ever have been held.
    const { remaining } = error.limit as { remaining: { digits: string } };
    expect(Number(remaining.digits)).toBeLessThan(asked[i]!);
  }
  expect(held).toBeLessThanOrEqual(limit);
  // What was refused last had more than is left now, and a unit fits as long as one is left.
  const refused = asked.filter((_quantity, i) => outcomes[i]!.status === 'rejected');
  expect(refused.length).toBeGreaterThan(0);
  expect(limit - held).toBeLessThan(Math.min(...refused));
  const [row] = await db.run(
    {
      name: 'test_held',
      text: 'select sum(quantity)::text, count(*)::text from usage_reservations where org_id = $1',
    },
    [orgId],
  );
  expect(row).toEqual([String(held), String(RESERVES - refused.length)]);
}, 120_000);

it('settles, releases and expiries at the same time neither let too much through nor keep room', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const product = await createProduct(db);
  const limit = RESERVES / 2;
  const limits = [
    { quantity: String(limit), window: 'PT1H', enforcement: 'block' as const },
    { quantity: String(limit), window: 'calendar_month', enforcement: 'block' as const },
  ];
  await grant(db, orgId, product.id, { limits });
  const hashedSecret = hashSecret((await createKey(db, orgId)).secret);
  const deps = { clock: { now: Date.now }, metrics: createMetrics({ ofProcess: false }) };
  const instances = [db, other].map((own) => ({
    ...createReservations({ db: own, ...deps }),
    ...createSettlements({ db: own, ...deps }),
  }));
  let [refused, isOver, most] = [0, false, 0];

  /** What is used, and each hold with its end, in one snapshot. A hold that has ended since may have made room in it. */
  const watch = async () => {
    while (!isOver) {
      const [row] = await db.run(
        {
          name: 'test_taken',
          text: `select (select coalesce(sum(quantity), 0)::text from usage_events where org_id = $1),
            (select coalesce(json_agg(json_build_array(extract(epoch from expires_at) * 1000, quantity)), '[]')::text
             from usage_reservations where org_id = $1 and settled_at is null and released_at is null)`,
        },
        [orgId],
      );
      const holds = JSON.parse(row![1]!) as [number, number][];
      const held = holds.filter(([expiresAt]) => expiresAt > Date.now());
      most = Math.max(
        most,
        held.reduce((sum, [, quantity]) => sum + quantity, Number(row![0])),
      );
    }
  };

  const work = async (worker: number) => {
    for (let i = 0; i < RESERVES / 40; i++) {
      const [one, another] = [instances[(worker + i) % 2]!, instances[worker % 2]!];
      const quantity = 1 + ((worker * 31 + i * 7_919) % 40);
      const kind = (worker + i) % 4;
      const made = await one
        .reserve({
          hashedSecret,
          slug: product.slug,
          metric: 'calls',
          quantity: String(quantity),
          idempotencyKey: `m-${worker}-${i}`,
          ttlSeconds: kind === 0 ? 1 : 600,
        })
        .catch((error: unknown) => {
          const { code, limit: state } = error as AppError & { limit: { remaining: { digits: string } } };
          expect(code).toBe('limit_reached');
          expect(Number(state.remaining.digits)).toBeLessThan(quantity);
          refused++;
        });
      if (!made || kind === 0) continue;
      const { id } = made.reservation;
      if (kind === 1) await another.release(hashedSecret, id);
      else await another.settle({ hashedSecret, id, quantity: String(quantity % 3), occurredAt: undefined });
    }
  };

  const watching = watch();
  await Promise.all(Array.from({ length: 40 }, (_, worker) => work(worker)));
  isOver = true;
  await watching;
  expect(most).toBeLessThanOrEqual(limit);
  expect(refused).toBeGreaterThan(0);
  // All that was left to expire has done so a second later, and what is left is there to the last unit.
  await setTimeout(1_001);
  const rest = async (quantity: number) =>
    instances[0]!.reserve({
      hashedSecret,
      slug: product.slug,
      metric: 'calls',
      quantity: String(quantity),
      idempotencyKey: `rest-${quantity}`,
      ttlSeconds: 600,
    });
  const [row] = await db.run(
    { name: 'test_used', text: 'select sum(quantity)::text from usage_events where org_id = $1' },
    [orgId],
  );
  const left = limit - Number(row![0]);
  await expect(rest(left + 1)).rejects.toMatchObject({ code: 'limit_reached' });
  expect((await rest(left)).limits).toMatchObject([{ used: row![0] }, { used: row![0] }]);
}, 120_000);
