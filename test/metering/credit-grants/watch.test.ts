import { sql } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { selectRow } from '../../../src/core/db/sql.js';
import { createCreditMessages, createCreditWatch } from '../../../src/metering/credit-grants/watch.js';
import { isEmbedded } from '../../support/database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { addGrant, burnCredits, giveCredits, type NewGrant } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { operatorClient } from '../../support/operator.js';
import { useOtherConnections, useService } from '../../support/use.js';
import { createListener, readWebhookData, readWebhookMessages } from '../../support/webhook-messages.js';

const START = '2026-05-14T10:00:00.000Z';

const { database, service } = useService();
const others = isEmbedded ? undefined : useOtherConnections(database);
beforeEach(() => service.clock.set(START));
const operator = operatorClient(() => service);

/** Runs the job on both instances concurrently, twice in a row. */
async function look() {
  service.clock.advance(120_000);
  const { db, clock } = service.context;
  const jobs = [db, others ?? db].map((each) => createCreditMessages({ db: each, clock }));
  for (let i = 0; i < 2; i++) await Promise.all(jobs.map((job) => job()));
}

const now = () => new Date(service.clock.now());

const give = (orgId: string, more: NewGrant) => addGrant(database.db, orgId, more, now());

const isAccount = (orgId: string, livemode: boolean) =>
  sql`a.org_id = ${orgId}::uuid and a.livemode = ${livemode}::bool`;

const burnNow = (orgId: string, credits: string, livemode = true) =>
  burnCredits(database.db, { orgId, livemode }, credits, now());

/** Gives credits back to the account's first grant, as a correction does. */
const giveBack = (orgId: string, credits: string) =>
  database.db.orm.execute(
    sql`update credit_accounts a set rests[1] = rests[1] + ${credits}::numeric where ${isAccount(orgId, true)}`,
  );

async function createListening(
  values: { types?: ('credits.threshold_reached' | 'credits.expiring')[] } = {},
) {
  const { id } = await createOrganization(database.db);
  await createListener(database.db, id, values);
  return id;
}

const reported = async (orgId: string) =>
  (await readWebhookData(database.db, orgId, 'credits.threshold_reached')).map(
    ({ threshold, balance, granted }) => [threshold, balance, granted],
  );

describe('credits.threshold_reached', () => {
  it('is sent once for each threshold, whichever instance looks, until a grant lifts the balance above it', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100' });
    const steps: [burned: string, expected: unknown[]][] = [
      ['79.999999999999', []],
      ['0.000000000001', [20, 20, 100]],
      ['5', []],
      // If the balance passes several thresholds at once, only the lowest one is reported.
      ['16', [0, -1, 0]],
      ['3', []],
    ];
    const expected: unknown[] = [];
    for (const [burned, message] of steps) {
      await burnNow(orgId, burned);
      await look();
      if (message.length > 0) expected.push(message);
      expect(await reported(orgId)).toEqual(expected);
    }
    // After the overdraft of 4, the balance is 6 of 60: exactly at 10%, so only the threshold of 0 can be reached.
    await give(orgId, { amount: '10' });
    await give(orgId, { amount: '50', startsAt: new Date('2026-05-14T12:00:00.000Z') });
    await look();
    await burnNow(orgId, '6');
    await look();
    expected.push([0, 0, 0]);
    expect(await reported(orgId)).toEqual(expected);
    // A scheduled grant raises the balance when it starts.
    service.clock.set('2026-05-14T12:00:00.000Z');
    await look();
    await burnNow(orgId, '45');
    await look();
    expected.push([10, 5, 50]);
    expect(await reported(orgId)).toEqual(expected);
  });

  it('is not sent again when corrections or the end of another grant raise the share that is left', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100', expiresAt: new Date('2026-05-15T00:00:00.000Z') });
    await give(orgId, { amount: '10' });
    await burnNow(orgId, '95');
    await look();
    expect(await reported(orgId)).toEqual([[20, 15, 110]]);
    await giveBack(orgId, '30');
    await look();
    await burnNow(orgId, '30');
    await look();
    // The balance of the remaining grant of 10 is 10, then 2, then 1.
    service.clock.set('2026-05-15T00:00:00.000Z');
    await look();
    await burnNow(orgId, '8');
    await look();
    await burnNow(orgId, '1');
    await look();
    expect(await reported(orgId)).toEqual([
      [20, 15, 110],
      [10, 1, 10],
    ]);
  });

  it('is sent when credits expire by themselves, and compares what rolled over with the whole grant', async () => {
    const orgId = await createListening();
    await give(orgId, {
      amount: '100',
      expiresAt: new Date('2026-05-15T00:00:00.000Z'),
      rollover: { percent: 15, days: 30 },
    });
    await look();
    expect(await reported(orgId)).toEqual([]);
    service.clock.set('2026-05-15T00:00:00.000Z');
    await look();
    service.clock.set('2026-06-14T00:00:00.000Z');
    await look();
    expect(await reported(orgId)).toEqual([
      [20, 15, 100],
      [0, 0, 0],
    ]);
  });

  it('follows the thresholds of the Organization, and separates live from test', async () => {
    const orgId = await createListening();
    await createListener(database.db, orgId, { livemode: false, types: ['credits.threshold_reached'] });
    await database.db.orm
      .update(organizations)
      .set({ creditThresholds: [50, 5] })
      .where(sql`id = ${orgId}::uuid`);
    await give(orgId, { amount: '100' });
    await give(orgId, { amount: '1', livemode: false });
    await burnNow(orgId, '80');
    await burnNow(orgId, '1', false);
    await look();
    const messages = await readWebhookMessages(database.db, orgId, 'credits.threshold_reached');
    const sent = messages.map(({ livemode, data }) => ({ livemode, threshold: data.threshold }));
    expect(sent).toHaveLength(2);
    expect(sent).toContainEqual({ livemode: true, threshold: 50 });
    expect(sent).toContainEqual({ livemode: false, threshold: 5 });
  });

  it('costs nothing without an endpoint that listens, and is sent once one does', async () => {
    const orgId = await createListening({ types: ['credits.expiring'] });
    await give(orgId, { amount: '100' });
    await burnNow(orgId, '95');
    await look();
    const account = await selectRow<{ reached: number | null }>(
      database.db.orm,
      sql`select reached from credit_accounts a where ${isAccount(orgId, true)}`,
    );
    expect(account).toEqual({ reached: null });
    await createListener(database.db, orgId, { types: ['credits.threshold_reached'] });
    await look();
    expect(await reported(orgId)).toEqual([[10, 5, 100]]);
  });

  it('is sent although another Organization that listens has never had credits', async () => {
    const { id: other } = await createOrganization(database.db);
    await createListener(database.db, other);
    const orgId = await createListening();
    await give(orgId, { amount: '100' });
    await burnNow(orgId, '95');
    await look();
    expect(await reported(orgId)).toEqual([[10, 5, 100]]);
    expect(await reported(other)).toEqual([]);
  });

  it('is not sent before the first grant begins', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100', startsAt: new Date('2026-05-20T00:00:00.000Z') });
    await look();
    expect(await reported(orgId)).toEqual([]);
  });
});

describe('credits.granted', () => {
  it('is sent once for each grant, in its commit, which can make thresholds reportable again', async () => {
    const { id: orgId, slug } = await createOrganization(database.db);
    await createListener(database.db, orgId);
    const rollover = { percent: 50, for: 'P30D' };
    const path = `/organizations/${slug}/credits/grants/a`;
    const body = { amount: 100, expiresAt: '2026-06-01T00:00:00.000Z', rollover, reason: 'Invoice 1' };
    const statuses = [];
    for (const each of [body, body, { ...body, amount: 2 }])
      statuses.push((await operator('PUT', path, each)).status);
    expect(statuses).toEqual([201, 200, 409]);
    expect(await readWebhookData(database.db, orgId, 'credits.granted')).toEqual([
      {
        grantKey: 'a',
        livemode: true,
        amount: 100,
        priority: 50,
        startsAt: START,
        expiresAt: body.expiresAt,
        productSlugs: null,
        rollover,
      },
    ]);
    await burnNow(orgId, '100');
    await look();
    // The grant is burned immediately, so the job never sees the balance above the threshold.
    await giveCredits(operator, slug, 'b', 10);
    await burnNow(orgId, '10');
    await look();
    expect(await reported(orgId)).toEqual([
      [0, 0, 0],
      [0, 0, 0],
    ]);
  });
});

describe('credits.expiring', () => {
  it('is sent 7 days and 1 day before a grant ends, once, with every digit that is left', async () => {
    const orgId = await createListening();
    const rollover = { percent: 50, for: 'P30D' };
    const grantKey = await give(orgId, {
      amount: '100',
      expiresAt: new Date('2026-05-21T12:00:00.000Z'),
      rollover: { percent: 50, days: 30 },
    });
    const later = await give(orgId, { amount: '3', expiresAt: new Date('2026-05-29T00:00:00.000Z') });
    await give(orgId, {
      amount: '3',
      startsAt: new Date('2026-05-30T00:00:00.000Z'),
      expiresAt: new Date('2026-05-31T00:00:00.000Z'),
    });
    await burnNow(orgId, '0.12345678901234567');
    const expiring = () => readWebhookData(database.db, orgId, 'credits.expiring');
    await look();
    expect(await expiring()).toEqual([]);
    service.clock.set('2026-05-14T13:00:00.000Z');
    await look();
    const [stored] = await database.db.run(
      {
        name: 'test_expiring',
        text: `select data ->> 'remaining' as remaining from webhook_messages where org_id = $1 limit 1`,
      },
      [orgId],
    );
    expect(stored).toEqual({ remaining: '99.87654321098765433' });
    service.clock.set('2026-05-20T12:30:00.000Z');
    await look();
    service.clock.set('2026-05-22T12:30:00.000Z');
    await look();
    const one = { grantKey, livemode: true, expiresAt: '2026-05-21T12:00:00.000Z', rollover };
    const other = { grantKey: later, livemode: true, expiresAt: '2026-05-29T00:00:00.000Z', rollover: null };
    expect(await expiring()).toMatchObject([
      { ...one, daysBefore: 7 },
      { ...one, daysBefore: 1 },
      { ...other, remaining: 3, daysBefore: 7 },
    ]);
    // Credits that rolled over expire later.
    service.clock.set('2026-06-14T12:00:00.000Z');
    await burnNow(orgId, '40');
    await look();
    expect((await expiring()).at(-1)).toEqual({
      grantKey,
      livemode: true,
      remaining: expect.closeTo(9.938271605),
      expiresAt: '2026-06-20T12:00:00.000Z',
      rollover: null,
      daysBefore: 7,
    });
  });
});

describe('metrics', () => {
  const read = async (name: string, mode?: string) => {
    const { values } = await service.context.metrics.registry.getSingleMetric(name)!.get();
    return values.find(({ labels }) => mode === undefined || labels.mode === mode)!.value;
  };

  it('count requests that overdraw credits, and accounts with an overdraft', async () => {
    const { db } = database;
    const { id: orgId } = await createOrganization(db);
    const product = await createProduct(db, { creditPrice: '2', creditEnforcement: 'warn' });
    await grant(db, orgId, product.id);
    const { secret } = await createKey(db, orgId);
    await give(orgId, { amount: '5' });
    const watch = createCreditWatch(service.context);
    await watch();
    const [requests, accounts] = [
      await read('gauge_credit_overdrafts_total'),
      await read('gauge_credit_accounts'),
    ];
    for (const key of ['a', 'b', 'c', 'c'])
      expect((await sendUsage(service.url, secret, [usageEvent(product.slug, key)])).status).toBe(202);
    expect(await read('gauge_credit_overdrafts_total')).toBe(requests + 1);
    await watch();
    expect(await read('gauge_credit_accounts')).toBe(accounts + 1);
  });

  it('add up what was granted, burned, expired and forfeited, each entry once', async () => {
    // This time is after all burns in other tests.
    service.clock.set('2027-02-01T10:00:00.000Z');
    const watch = createCreditWatch(service.context);
    const readAll = async (mode: string) => {
      const kinds = ['granted', 'burned', 'expired', 'forfeited'];
      return Promise.all(kinds.map((kind) => read(`gauge_credits_${kind}_total`, mode)));
    };
    const before = { live: await readAll('live'), test: await readAll('test') };
    const expectAdded = async (mode: 'live' | 'test', expected: number[]) =>
      expect((await readAll(mode)).map((value, i) => value - before[mode][i]!)).toEqual(expected);
    const { id: orgId, slug } = await createOrganization(database.db);
    await giveCredits(operator, slug, 'a', 100, {
      priority: 0,
      expiresAt: '2027-02-01T11:00:00Z',
      rollover: { percent: 25, for: 'P30D' },
    });
    await giveCredits(operator, slug, 'b', 10);
    await giveCredits(operator, slug, 'test', 7, { livemode: false });
    const again = { amount: 10, reason: 'Test' };
    expect((await operator('PUT', `/organizations/${slug}/credits/grants/b`, again)).status).toBe(200);
    await burnNow(orgId, '60');
    await burnNow(orgId, '2', false);
    await watch();
    await expectAdded('live', [110, 0, 0, 0]);
    service.clock.advance(61_000);
    await watch();
    await expectAdded('live', [110, 60, 0, 0]);
    await expectAdded('test', [7, 2, 0, 0]);
    // The rollover of a quarter of 40 credits is recorded with the next change.
    service.clock.set('2027-02-01T11:30:00.000Z');
    await watch();
    await burnNow(orgId, '12');
    const path = `/organizations/${slug}/credits/grants/b/void`;
    expect((await operator('POST', path, { reason: 'Test' })).status).toBe(200);
    service.clock.advance(61_000);
    await watch();
    await watch();
    await expectAdded('live', [110, 72, 30, 8]);
    await expectAdded('test', [7, 2, 0, 0]);
  });
});
