import { expect, it } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createReservations, watchReservations } from '../../../src/metering/reservations/reservations.js';
import { createSettlements } from '../../../src/metering/reservations/settlements.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();

const HOUR_SECONDS = 3_600;

it('counts held and expired reservations of all Organizations and both modes', async () => {
  const { db } = database;
  let nowMs = Date.parse('2026-03-01T12:00:00Z');
  const clock = { now: () => nowMs };
  const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
  const deps = { db, clock, metrics };
  const reservations = createReservations(deps);
  const read = async () => {
    await watchReservations(deps);
    const { values } = await metrics.reservationsOpen.get();
    return Object.fromEntries(values.map(({ labels, value }) => [labels.state, value]));
  };

  const product = await createProduct(db);
  const from = new Date(0);
  const limits = [{ quantity: '100', window: 'PT5H', enforcement: 'block' as const }];
  const secrets = [];
  for (const livemode of [true, false]) {
    const { id } = await createOrganization(db);
    await grant(db, id, product.id, { limits, startsAt: from });
    secrets.push(hashSecret((await createKey(db, id, { livemode })).secret));
  }
  let made = 0;
  const reserve = (hashedSecret: string, quantity: string, ttlSeconds: number) =>
    reservations.reserve({
      hashedSecret,
      slug: product.slug,
      metric: 'calls',
      quantity,
      idempotencyKey: `r-${++made}`,
      ttlSeconds,
    });
  const [live, test] = secrets as [string, string];

  expect(await read()).toEqual({ held: 0, expired: 0 });

  await reserve(live, '10', 60);
  const { reservation: settled } = await reserve(live, '10', HOUR_SECONDS);
  const { reservation: released } = await reserve(live, '10', HOUR_SECONDS);
  await reserve(test, '100', 24 * HOUR_SECONDS);
  await expect(reserve(test, '1', 60)).rejects.toMatchObject({ code: 'limit_reached' });
  expect(await read()).toEqual({ held: 4, expired: 0 });

  await createSettlements(deps).settle({
    hashedSecret: live,
    id: settled.id,
    quantity: undefined,
    occurredAt: undefined,
  });
  await reservations.release(live, released.id);
  expect(await read()).toEqual({ held: 2, expired: 0 });

  nowMs += 60_000;
  expect(await read()).toEqual({ held: 1, expired: 1 });
  expect(await read()).toEqual({ held: 1, expired: 1 });

  // A day later all holds have expired; an hour after that, they are too old to be counted.
  nowMs += 24 * HOUR_SECONDS * 1_000 - 60_000;
  expect(await read()).toEqual({ held: 0, expired: 2 });
  nowMs += HOUR_SECONDS * 1_000 + 1;
  expect(await read()).toEqual({ held: 0, expired: 0 });
});
