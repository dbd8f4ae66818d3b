import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { createBackfillRunner } from '../../../src/metering/backfills/runner.js';
import { createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { addGrant, findCreditDrift, readAccount, readLedger, type NewGrant } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { usageEvent } from '../support/usage.js';

const { database, service } = useService();
beforeAll(() => service.clock.set('2031-03-20T12:30:00Z'));
const operate = operatorClient(() => service);

async function createScene() {
  const { db } = database;
  const { id: orgId, slug } = await createOrganization(db);
  const product = await createProduct(db, {
    creditPrice: '1',
    creditEnforcement: 'block',
    dimensions: ['region', 'model'],
    creditDimension: 'model',
    creditPrices: { large: '4', ['__proto__']: '2' },
  });
  await grant(db, orgId, product.id);
  const root = `/organizations/${slug}/usage/backfills`;
  const finish = async (path: string) => {
    const run = createBackfillRunner({ db, clock: service.clock }, { chunk: 2, turnMs: 500 });
    for (;;) {
      await run();
      const { state } = (await operate('GET', path)).body.backfill as { state: string };
      if (!state.endsWith('ing')) return state;
    }
  };
  return {
    product,
    event: (key: string, more: object = {}) =>
      usageEvent(product.slug, key, { occurredAt: '2031-02-10T10:20:00Z', ...more }),
    open: async (more: object = {}) => {
      const range = { from: '2031-01-01T00:00:00Z', to: '2031-03-18T00:00:00Z' };
      const { status, body } = await operate('POST', root, { reason: 'Lost', ...range, ...more });
      expect(status).toBe(201);
      return { path: `${root}/${body.id}`, body };
    },
    stage: async (path: string, events: object[]) =>
      expect(await operate('POST', `${path}/events`, { events })).toMatchObject({ status: 202 }),
    step: async (path: string, name: 'apply' | 'revert') => {
      expect((await operate('POST', `${path}/${name}`)).status).toBe(202);
      return finish(path);
    },
    correct: async (idempotencyKey: string, quantity: number) =>
      expect(
        await operate('POST', `/organizations/${slug}/usage/corrections`, {
          corrections: [{ idempotencyKey, quantity, reason: 'Wrong', correctionKey: `c-${idempotencyKey}` }],
        }),
      ).toMatchObject({ status: 200 }),
    add: (amount: string, more: Omit<NewGrant, 'amount'> = {}) =>
      addGrant(db, orgId, { amount, ...more }, new Date(service.clock.now())),
    account: () => readAccount(db, orgId),
    ledger: () => readLedger(db, orgId),
    prices: () =>
      selectRows<{ price: string }>(
        db.orm,
        sql`select trim_scale(credit_price)::text as price from usage_events where org_id = ${orgId}::uuid order by 1`,
      ),
    drift: () => findCreditDrift(db, orgId),
  };
}

it('an applied backfill burns the grants that are open now, at the price of each event, and the ledger names its hour', async () => {
  const { product, event, open, stage, step, add, account, ledger, drift } = await createScene();
  // A late event from the last 7 days may burn a grant that has just expired, but a backfill may not.
  const expired = await add('100', {
    priority: 1,
    startsAt: new Date('2031-01-01T00:00:00Z'),
    expiresAt: new Date('2031-03-20T12:00:00Z'),
  });
  const later = await add('100', { priority: 2, startsAt: new Date('2031-03-20T13:00:00Z') });
  const now = await add('7.5', { expiresAt: new Date('2031-03-21T00:00:00Z') });
  const { path, body } = await open();
  expect(body.credits).toBe('burn');
  await stage(path, [
    event('a', { dimensions: { model: 'large', region: 'eu' } }),
    event('b', { dimensions: { model: 'large' }, occurredAt: '2031-02-11T10:20:00Z' }),
    event('c', { dimensions: JSON.parse('{"model":"__proto__"}') as object, quantity: 0.25 }),
    event('d', { dimensions: { region: 'large' } }),
  ]);
  expect((await account()).rests).toMatchObject({ [now]: '7.5' });
  expect(await step(path, 'apply')).toBe('applied');
  expect(await account()).toEqual({
    rests: { [expired]: '100', [later]: '100' },
    debts: { [product.id]: '2' },
  });
  expect((await ledger()).map(({ hour }) => hour)).toEqual(
    expect.arrayContaining(['2031-02-10T10:00', '2031-02-11T10:00']),
  );
  expect(await drift()).toEqual([]);
});

it('a reverted backfill gives back what its events burned, even after a correction and a repayment', async () => {
  const { product, event, open, stage, step, add, account, ledger, correct, drift } = await createScene();
  const [first, second] = [await add('3', { priority: 1 }), await add('2')];
  const { path } = await open();
  await stage(path, [
    event('a', { quantity: 4 }),
    event('b', { dimensions: { model: 'large' } }),
    event('c', { quantity: 0 }),
  ]);
  expect(await step(path, 'apply')).toBe('applied');
  expect((await account()).debts).toEqual({ [product.id]: '3' });
  await correct('a', 2);
  const third = await add('10');
  expect(await step(path, 'revert')).toBe('reverted');
  expect(await account()).toEqual({ rests: { [first]: '3', [second]: '2', [third]: '10' }, debts: {} });
  const sums = new Map<string, number>();
  for (const { kind, amount } of await ledger()) sums.set(kind, (sums.get(kind) ?? 0) + Number(amount));
  expect([sums.get('burn'), sums.get('return'), sums.get('repay') ?? 0]).toEqual([8, 8, 0]);
  expect(await drift()).toEqual([]);
});

it('a backfill with credits "none" counts its events without burning', async () => {
  const { event, open, stage, step, add, account, ledger, prices, drift } = await createScene();
  const grantId = await add('10');
  const { path, body } = await open({ credits: 'none' });
  expect(body.credits).toBe('none');
  await stage(path, [event('a'), event('b', { dimensions: { model: 'large' } })]);
  expect(await step(path, 'apply')).toBe('applied');
  expect(await account()).toEqual({ rests: { [grantId]: '10' }, debts: {} });
  expect([await ledger(), await prices()]).toEqual([[], [{ price: '0' }, { price: '0' }]]);
  expect(await step(path, 'revert')).toBe('reverted');
  expect([await ledger(), await drift()]).toEqual([[], []]);
});

it.each(['all', '', null, 1, '__proto__'])('an opening body with credits %j is refused', async (credits) => {
  const { slug } = await createOrganization(database.db);
  const range = { from: '2031-01-01T00:00:00Z', to: '2031-03-18T00:00:00Z' };
  const root = `/organizations/${slug}/usage/backfills`;
  expect(await operate('POST', root, { reason: 'Lost', ...range, credits })).toMatchObject({
    status: 400,
    body: { code: 'invalid_request', errors: [{ pointer: '/credits' }] },
  });
  expect((await operate('GET', root)).body.backfills).toEqual([]);
});
