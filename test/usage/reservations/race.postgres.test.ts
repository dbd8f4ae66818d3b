import { afterAll, beforeAll, expect, it } from 'vitest';
import { pino } from 'pino';
import { hashSecret } from '../../../src/api-keys/secret.js';
import type { Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import type { AppError } from '../../../src/core/errors.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createReservations, type Reserved } from '../../../src/usage/reservations/reservations.js';
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
