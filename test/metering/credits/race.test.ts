import { expect, it } from 'vitest';
import { inArray, sql } from 'drizzle-orm';
import { v7 as uuid } from 'uuid';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import type { Database } from '../../../src/core/db/client.js';
import { openDatabase } from '../../../src/core/db/open.js';
import { selectRow } from '../../../src/core/db/sql.js';
import type { AppError } from '../../../src/core/errors.js';
import { createMetrics } from '../../../src/core/metrics.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { usageGates, usageReservations } from '../../../src/metering/ingestion/table.js';
import { accountGate } from '../../../src/metering/credits/statements.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createReservations } from '../../../src/metering/reservations/reservations.js';
import { createSettlements } from '../../../src/metering/reservations/settlements.js';
import { isEmbedded, itOnPostgres } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { silent } from '../../support/lent-database.js';
import { useDatabase } from '../../support/use.js';
import { addGrant, findCreditDrift, readAccount } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';

/** Number of reservations; fewer on the embedded database, which decides one flush at a time. */
const RESERVES = Number(process.env.TEST_RESERVES ?? (isEmbedded ? 600 : 10_000));

const database = useDatabase();

const deps = {
  clock: { now: Date.now },
  metrics: createMetrics([createMeteringMetrics], { ofProcess: false }),
};
const createInstance = (db: Database) => ({
  ...createReservations({ db, ...deps }),
  ...createSettlements({ db, ...deps }),
});

async function createScene() {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const hashedSecret = hashSecret((await createKey(db, orgId)).secret);
  const both = [await createProduct(db), await createProduct(db)];
  await db.orm
    .update(products)
    .set({ creditPrice: '0.3', creditEnforcement: 'block' })
    .where(
      inArray(
        products.id,
        both.map(({ id }) => id),
      ),
    );
  for (const { id } of both) await grant(db, orgId, id);
  const request = (i: number, quantity: string) => ({
    hashedSecret,
    slug: both[i % 2]!.slug,
    metric: 'calls',
    quantity,
    idempotencyKey: `r-${i}`,
    ttlSeconds: 3_600,
  });
  return { db, orgId, hashedSecret, both, request };
}

const readTaken = (db: Database, orgId: string) =>
  selectRow<{ held: string; burned: string }>(
    db.orm,
    sql`select (select trim_scale(coalesce(sum(quantity * credit_price), 0))::text from usage_reservations
        where org_id = ${orgId}::uuid and settled_at is null and released_at is null) as held,
      (select trim_scale(coalesce(sum(quantity * credit_price), 0))::text from usage_events where org_id = ${orgId}::uuid) as burned`,
  );

it('parallel reservations over two instances hold every credit once, and none twice', async () => {
  const { db, orgId, both, request } = await createScene();
  const other = isEmbedded ? db : await openDatabase({ databaseUrl: database.url, dataDir: '' }, silent);
  try {
    // The grants cover 30% of the reservations; some are shared, and some are for one product only.
    const part = (share: number) => (RESERVES * share * 0.3).toFixed(1);
    await addGrant(db, orgId, { amount: part(0.2) }, new Date());
    for (const { id } of both)
      await addGrant(db, orgId, { amount: part(0.05), productIds: [id] }, new Date());
    const instances = [db, other].map(createInstance);
    const made = await Promise.all(
      Array.from({ length: RESERVES }, (_, i) =>
        instances[(i >> 1) % 2]!.reserve(request(i, '1')).catch((error: unknown) => {
          expect((error as AppError).code).toBe('credits_exhausted');
        }),
      ),
    );
    const held = made.flatMap((one) => (one ? [one.reservation] : []));
    expect(held).toHaveLength(RESERVES * 0.3);
    expect(await readTaken(db, orgId)).toEqual({ held: String(Number(part(0.3))), burned: '0' });
    // Each of these reservations settles for part of its hold; the rest can be held again, down to the last credit.
    const settled = held.slice(0, RESERVES / 10);
    await Promise.all(
      settled.map(({ id }, i) =>
        instances[i % 2]!.settle({
          hashedSecret: request(0, '1').hashedSecret,
          id,
          quantity: '0.25',
          occurredAt: undefined,
        }),
      ),
    );
    const again = await Promise.all(
      Array.from({ length: RESERVES / 5 }, (_, i) =>
        instances[i % 2]!.reserve(request(RESERVES + 2 * (i >> 1), '0.75')).catch(() => undefined),
      ),
    );
    expect(again.filter(Boolean).length).toBeGreaterThan(0);
    const taken = (await readTaken(db, orgId))!;
    expect(Number(taken.held) + Number(taken.burned)).toBeLessThanOrEqual(Number(part(0.3)) + 1e-9);
    expect(await findCreditDrift(db, orgId)).toEqual([]);
    expect((await readAccount(db, orgId)).debts).toEqual({});
  } finally {
    if (other !== db) await other.close();
  }
});

itOnPostgres('a flush that decided before another one committed is decided again', async () => {
  const { db, orgId, both, request } = await createScene();
  const other = await openDatabase({ databaseUrl: database.url, dataDir: '' }, silent);
  try {
    await addGrant(db, orgId, { amount: '3' }, new Date());
    const { id: apiKeyId } = await createKey(db, orgId);
    const gate = { orgId, livemode: true, ...accountGate };
    const isBlocked = async () =>
      (await selectRow<{ waiting: string }>(
        db.orm,
        sql`select count(*)::text as waiting from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      ))!.waiting !== '0';
    const pending = await other.orm.transaction(async (tx) => {
      await tx.insert(usageGates).values({ ...gate, seq: 1 });
      await tx.insert(usageReservations).values({
        orgId,
        id: uuid(),
        productId: both[0]!.id,
        apiKeyId,
        createdAt: new Date(),
        expiresAt: new Date(Date.now() + 60_000),
        livemode: true,
        idempotencyKey: 'faster',
        metric: 'calls',
        quantity: '6',
        creditPrice: '0.3',
      });
      // The reservation's snapshot contains neither the hold nor the gate, so the reservation waits for the gate's row.
      const reserving = createInstance(db).reserve(request(1, '5'));
      reserving.catch(() => undefined);
      await expect.poll(isBlocked, { interval: 20 }).toBe(true);
      return { reserving };
    });
    await expect(pending.reserving).rejects.toMatchObject({
      code: 'credits_exhausted',
      members: { available: expect.anything() as unknown },
    });
    expect((await readTaken(db, orgId))!.held).toBe('1.8');
    expect((await createInstance(db).reserve(request(2, '4'))).isRepeat).toBe(false);
  } finally {
    await other.close();
  }
});
