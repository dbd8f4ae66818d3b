import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { toJson } from '../../../src/core/http/json.js';
import { creditAccounts, creditEntries, creditGrants, NOBODY } from '../../../src/metering/credits/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { usageCorrections, usageEvents } from '../../../src/metering/ingestion/table.js';
import { reconciliation } from '../../../src/metering/reconciliation/reconciliation.js';
import { compareCredits } from '../../../src/metering/reconciliation/credits.js';
import { asMaintained } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct } from '../support/products.js';
import { systemClock } from '../../../src/core/time.js';
import { useDatabase } from '../../support/use.js';

const database = useDatabase();
const at = new Date('2026-11-15T10:30:00Z');
const hour = new Date('2026-11-15T10:00:00Z');

/**
 * Creates an Organization with a grant of 10 credits and an event of 12 units at 1.000000000001 credits, corrected to
 * 11, with one ledger entry of each kind. By hand: 12.000000000012 - 1.000000000001 = 11.000000000011 credits burned.
 */
async function arrive() {
  const { orm } = database.db;
  const { id: orgId, slug } = await createOrganization(database.db);
  const product = await createProduct(database.db);
  await orm
    .update(products)
    .set({ creditPrice: '1.000000000001', creditEnforcement: 'warn' })
    .where(sql`id = ${product.id}::uuid`);
  const key = await createKey(database.db, orgId);
  const [grantId, lost] = [uuid(), uuid()];
  const ids = { orgId, productId: product.id, livemode: true };
  await orm.insert(usageEvents).values({
    ...ids,
    apiKeyId: key.id,
    occurredAt: hour,
    receivedAt: at,
    idempotencyKey: 'a',
    metric: 'calls',
    quantity: '12',
    creditPrice: '1.000000000001',
  });
  await orm.insert(usageCorrections).values({
    ...ids,
    apiKeyId: key.id,
    occurredAt: hour,
    correctedAt: at,
    number: 1,
    idempotencyKey: 'a',
    correctionKey: 'c',
    metric: 'calls',
    previousQuantity: '12',
    quantity: '11',
    actor: 'system',
    reason: 'test',
    creditPrice: '1.000000000001',
  });
  const grant = {
    orgId,
    livemode: true,
    startsAt: at,
    createdAt: at,
    priority: 50,
    amount: '10',
    reason: 'test',
    actor: 'system',
    request: {},
  };
  await orm.insert(creditGrants).values([
    { ...grant, id: grantId, grantKey: 'bought' },
    { ...grant, id: lost, grantKey: 'void' },
  ]);
  const entries = [
    ['burn', product.id, grantId, '9'],
    ['burn', product.id, product.id, '3.000000000012'],
    ['return', product.id, product.id, '1.000000000001'],
    ['repay', product.id, grantId, '0.5'],
    ['forgive', product.id, NOBODY, '0.25'],
    ['roll', NOBODY, grantId, '0.5'],
    ['void', NOBODY, lost, '8'],
    ['expire', NOBODY, lost, '2'],
  ] as const;
  await orm.insert(creditEntries).values(
    entries.map(([kind, productId, from, amount]) => ({
      ...ids,
      kind,
      productId,
      grantId: from,
      amount,
      at,
      hour,
    })),
  );
  await orm.insert(creditAccounts).values({
    orgId,
    livemode: true,
    grants: [grantId],
    rests: ['0.500'],
    starts: [at],
    ends: [at],
    scopes: [''],
    priorities: [50],
    rollPercents: [0],
    rollDays: [0],
    debtors: [product.id],
    debts: ['1.250000000011'],
  });
  const check = () =>
    reconciliation.compare({
      db: { ...asMaintained(database), close: async () => undefined },
      clock: systemClock,
      orgId,
    });
  return { orgId, slug, product, check, set: (text: string) => orm.execute(sql.raw(text)) };
}

it('finds nothing where the account, the ledger and the events agree', async () => {
  const { orgId } = await arrive();
  expect(await compareCredits(database.db.orm, orgId)).toEqual([]);
  expect(await compareCredits(database.db.orm, undefined)).toEqual([]);
});

it('reports each difference to the last of 12 places, and repairs none', async () => {
  const { orgId, slug, product, check, set } = await arrive();
  const own = `org_id = '${orgId}'`;
  await set(`update credit_accounts set rests = '{0.500000000001}', debts = '{1.25}' where ${own}`);
  const base = { organization: slug, livemode: true, count: 2 };
  expect(await compareCredits(database.db.orm, orgId)).toEqual([
    {
      ...base,
      check: 'overdraft',
      of: product.slug,
      recorded: '1.25',
      expected: '1.250000000011',
      difference: '-0.000000000011',
    },
    {
      ...base,
      check: 'rest',
      of: 'bought',
      recorded: '0.500000000001',
      expected: '0.5',
      difference: '0.000000000001',
    },
  ]);
  const { text, json, isEqual } = await check();
  expect(isEqual).toBe(false);
  expect(text).toMatch(
    /Grants whose remaining credits differ from their entries: 1\norganization .*bought +0.500000000001 +0.5 /s,
  );
  expect(text).toContain('Credits are never repaired, because');
  expect(toJson(json)).toContain(
    `{"check":"overdraft","organization":"${slug}","livemode":true,"productSlug":"${product.slug}","recorded":1.25,"expected":1.250000000011,"difference":-0.000000000011}`,
  );
  await (await check()).repair?.();
  expect(await compareCredits(database.db.orm, orgId)).toHaveLength(2);
});

it.each([
  [
    'a lost entry',
    `delete from credit_entries where kind = 'burn' and grant_id <> product_id`,
    ['burned', 'rest'],
  ],
  ['a lost event', `delete from usage_events where true`, ['burned']],
  ['a lost correction', `delete from usage_corrections where true`, ['burned']],
  ['a lost forgiveness', `delete from credit_entries where kind = 'forgive'`, ['overdraft']],
  ['a lost account', `delete from credit_accounts where true`, ['overdraft', 'rest']],
  ['a lost grant', `delete from credit_grants where grant_key = 'void'`, ['rest']],
  [
    'a rest and a debt below 0, even if the ledger agrees',
    `update credit_entries set amount = amount + 0.75 where kind in ('repay', 'forgive')`,
    ['overdraft', 'rest'],
    `update credit_accounts set rests = '{-0.25}', debts = '{-0.249999999989}' where true`,
  ],
])('finds %s', async (_, breaks, checks, more = 'select 1 where true') => {
  const { orgId, set } = await arrive();
  await set(`${breaks} and org_id = '${orgId}'`);
  if (more.startsWith('update')) await set(`${more} and org_id = '${orgId}'`);
  expect((await compareCredits(database.db.orm, orgId)).map(({ check }) => check)).toEqual(checks);
});
