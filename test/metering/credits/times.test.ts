import { eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { products } from '../../../src/metering/entitlements/table.js';
import { compareCredits } from '../../../src/metering/reconciliation/credits.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useDatabase, useServiceOn } from '../../support/use.js';
import { giveCredits } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';

const database = useDatabase();
const service = useServiceOn(() => database.db);
/** This service's clock is 30 s ahead of the other's. */
const ahead = useServiceOn(() => database.db);
const operate = operatorClient(() => service);

function setClocks(time: string): void {
  service.clock.set(time);
  ahead.clock.set(new Date(Date.parse(time) + 30_000).toISOString());
}

async function arrive(time: string) {
  setClocks(time);
  const { db } = database;
  const { id: orgId, slug } = await createOrganization(db);
  const product = await createProduct(db);
  await db.orm
    .update(products)
    .set({ creditPrice: '1', creditEnforcement: 'warn' })
    .where(eq(products.id, product.id));
  await grant(db, orgId, product.id);
  const { secret } = await createKey(db, orgId, { scopes: ['usage:write', 'usage:read'] });
  let sent = 0;
  const read = async (one = service) => {
    const response = await fetch(`${one.url}/api/credits`, {
      headers: { authorization: `Bearer ${secret}` },
    });
    const { balance, overdrafts, grants } = (await response.json()) as {
      balance: number;
      overdrafts: { quantity: number }[];
      grants: { grantKey: string; burned: number; remaining: number; status: string }[];
    };
    return {
      balance,
      overdraft: overdrafts[0]?.quantity ?? 0,
      ...Object.fromEntries(
        grants.map(({ grantKey, burned, remaining, status }) => [grantKey, [status, burned, remaining]]),
      ),
    };
  };
  return {
    give: (key: string, amount: number, more: object = {}) => giveCredits(operate, slug, key, amount, more),
    send: async (quantity: number, occurredAt?: string, one = service) => {
      const event = usageEvent(product.slug, `e${++sent}`, {
        quantity,
        ...(occurredAt ? { occurredAt } : {}),
      });
      return (await sendUsage(one.url, secret, [event])).status;
    },
    expectCredits: async (expected: object, one = service) => {
      expect(await read(one)).toEqual(expected);
      expect(await compareCredits(database.db.orm, orgId)).toEqual([]);
    },
  };
}

it('usage in the last millisecond of a month burns the grant of that month, even after midnight', async () => {
  const { give, send, expectCredits } = await arrive('2032-02-01T00:00:00.000Z');
  await give('february', 10, { expiresAt: '2032-03-01T00:00:00Z' });
  await give('march', 10, { startsAt: '2032-03-01T00:00:00Z', expiresAt: '2032-04-01T00:00:00Z' });
  setClocks('2032-02-29T23:59:59.999Z');
  expect(await send(1)).toBe(202);
  await expectCredits({ balance: 9, overdraft: 0, february: ['open', 1, 9], march: ['scheduled', 0, 10] });
  setClocks('2032-03-01T00:00:00.000Z');
  await expectCredits({ balance: 10, overdraft: 0, february: ['expired', 1, 0], march: ['open', 0, 10] });
  await send(1);
  await send(2, '2032-02-29T23:59:59.999Z');
  await expectCredits({ balance: 9, overdraft: 0, february: ['expired', 3, 0], march: ['open', 1, 9] });
  // February's grant does not fully cover this late event, so the rest burns March's grant.
  await send(8, '2032-02-29T00:00:00Z');
  await expectCredits({ balance: 8, overdraft: 0, february: ['spent', 10, 0], march: ['open', 2, 8] });
});

it('an event that is 6 days and 23 hours late burns a grant that has expired, and 8 days later nothing does', async () => {
  const { give, send, expectCredits } = await arrive('2032-02-25T00:00:00.000Z');
  await give('a', 10, { expiresAt: '2032-03-01T00:00:00Z' });
  setClocks('2032-03-07T22:59:00.000Z');
  expect(await send(4, '2032-02-29T23:59:00Z')).toBe(202);
  await expectCredits({ balance: 0, overdraft: 0, a: ['expired', 4, 0] });
  expect(await send(1)).toBe(202);
  await expectCredits({ balance: -1, overdraft: 1, a: ['expired', 4, 0] });
  setClocks('2032-03-09T00:00:00.000Z');
  expect(await send(1, '2032-02-29T23:59:00Z')).toBe(422);
  expect(await send(1)).toBe(202);
  await expectCredits({ balance: -2, overdraft: 2, a: ['expired', 4, 0] });
});

it('a rollover reads the same before the first write and after it, and a late event burns what rolled over', async () => {
  const { give, send, expectCredits } = await arrive('2032-02-29T22:00:00.000Z');
  await give('a', 10, { expiresAt: '2032-02-29T23:00:00Z', rollover: { percent: 25, for: 'P1D' } });
  await send(2);
  setClocks('2032-02-29T23:00:00.000Z');
  await expectCredits({ balance: 2, overdraft: 0, a: ['open', 2, 2] });
  await send(0.5, '2032-02-29T22:30:00Z');
  await expectCredits({ balance: 1.5, overdraft: 0, a: ['open', 2.5, 1.5] });
  setClocks('2032-03-01T23:00:00.000Z');
  await expectCredits({ balance: 0, overdraft: 0, a: ['expired', 2.5, 0] });
  await send(1, '2032-03-01T22:59:59Z');
  await expectCredits({ balance: 0, overdraft: 0, a: ['expired', 3.5, 0] });
});

it('instances whose clocks differ by 30 s each burn by their own clock, and nothing is burned twice', async () => {
  const { give, send, expectCredits } = await arrive('2032-02-29T22:59:45.000Z');
  await give('a', 10, { expiresAt: '2032-02-29T23:00:00Z', rollover: { percent: 50, for: 'P1D' } });
  await give('b', 10, { priority: 0, startsAt: '2032-02-29T23:00:00Z', expiresAt: '2032-03-01T00:00:00Z' });
  await expectCredits({ balance: 10, overdraft: 0, a: ['open', 0, 10], b: ['scheduled', 0, 10] });
  await expectCredits({ balance: 15, overdraft: 0, a: ['open', 0, 5], b: ['open', 0, 10] }, ahead);
  // On this instance it is 23:00:15, so the event burns the grant that has just started. The other grant has rolled
  // over for both instances.
  expect(await send(1, undefined, ahead)).toBe(202);
  await expectCredits({ balance: 5, overdraft: 0, a: ['open', 0, 5], b: ['scheduled', 1, 9] });
  await send(2);
  await expectCredits({ balance: 12, overdraft: 0, a: ['open', 2, 3], b: ['open', 1, 9] }, ahead);
  for (let i = 0; i < 4; i++) await Promise.all([send(3), send(3, undefined, ahead)]);
  await expectCredits({ balance: -12, overdraft: 12, a: ['spent', 5, 0], b: ['spent', 10, 0] }, ahead);
});
