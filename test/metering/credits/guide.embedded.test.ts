import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { readCredits } from '../../../src/metering/credit-grants/credits.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { giveCredits } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';

const { database, service } = useService();
const operator = operatorClient(() => service);

/** The numbers in each row of the guide's table. */
const rows = readFileSync('docs/credits.md', 'utf8')
  .split('\n')
  .filter((line) => /^\|.*-?\d+ +\|$/.test(line))
  .map((line) => line.split('|').slice(2, 6).map(Number));

it('the numbers in the guide’s example are those of the service', async () => {
  const { db } = database;
  const { clock } = service;
  clock.set('2026-03-10T10:30:00.000Z');
  const { id: orgId, slug } = await createOrganization(db);
  const product = await createProduct(db, {
    dimensions: ['model'],
    creditPrice: '0.002',
    creditDimension: 'model',
    creditPrices: { large: '0.01' },
    creditEnforcement: 'warn',
  });
  await grant(db, orgId, product.id);
  const { secret } = await createKey(db, orgId, { scopes: ['usage:write', 'usage:correct'] });
  const send = async (quantity: number, model: string) => {
    clock.advance(60_000);
    const event = usageEvent(product.slug, `${quantity} ${model}`, { quantity, dimensions: { model } });
    expect((await sendUsage(service.url, secret, [event])).status).toBe(202);
  };
  const steps = [
    async () => {
      await giveCredits(operator, slug, 'plan-2026-03', 100, { expiresAt: '2026-04-01T00:00:00.000Z' });
      await giveCredits(operator, slug, 'order-7', 50, { priority: 60 });
    },
    () => send(20_000, 'small'),
    () => send(7_000, 'large'),
    async () => {
      const correction = {
        idempotencyKey: '7000 large',
        correctionKey: 'a',
        quantity: 6_500,
        reason: 'Test',
      };
      const { status } = await fetch(`${service.url}/api/usage/corrections`, {
        method: 'POST',
        headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
        body: JSON.stringify({ corrections: [correction] }),
      });
      expect(status).toBe(200);
    },
    () => send(10_000, 'large'),
    () => giveCredits(operator, slug, 'plan-2026-04', 80, { expiresAt: '2026-05-01T00:00:00.000Z' }),
    () => Promise.resolve(clock.set('2026-05-01T00:00:00.000Z')),
  ];
  const seen = [];
  for (const step of steps) {
    await step();
    const id = { orgId, livemode: true };
    const { balance, overdrafts, grants } = await readCredits(db.orm, id, new Date(clock.now()));
    const restOf = (key: string) => Number(grants.find(({ grantKey }) => grantKey === key)!.remaining);
    const overdraft = Number(overdrafts[0]?.quantity ?? 0);
    seen.push([restOf('plan-2026-03'), restOf('order-7'), overdraft, Number(balance)]);
  }
  expect(seen).toEqual(rows);
});
