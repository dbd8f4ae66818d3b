import { sql } from 'drizzle-orm';
import { beforeEach, describe, expect, it } from 'vitest';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { selectRow } from '../../../src/core/db/sql.js';
import { newId } from '../../../src/core/ids.js';
import { createCreditMessages } from '../../../src/metering/credit-grants/messages.js';
import { setBurned } from '../../../src/metering/credits/statements.js';
import { creditAccounts, creditGrants, NOBODY } from '../../../src/metering/credits/table.js';
import { isEmbedded } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { useOtherConnections, useService } from '../../support/use.js';
import { createListener, readWebhookData, readWebhookMessages } from '../../support/webhook-messages.js';

const START = '2026-05-14T10:00:00.000Z';

const { database, service } = useService();
const others = isEmbedded ? undefined : useOtherConnections(database);
beforeEach(() => service.clock.set(START));

/** Every instance looks at the same time, and again a little later. */
async function look() {
  service.clock.advance(120_000);
  const { db, clock } = service.context;
  const jobs = [db, others ?? db].map((each) => createCreditMessages({ db: each, clock }));
  for (let i = 0; i < 2; i++) await Promise.all(jobs.map((job) => job()));
}

interface Given {
  amount: string;
  startsAt?: string;
  expiresAt?: string;
  rollover?: [percent: number, days: number];
}

const now = () => new Date(service.clock.now());

/** Grants credits in the account `livemode`, as one statement of the service does. */
async function give(orgId: string, { amount, startsAt, expiresAt, rollover }: Given, livemode = true) {
  const { orm } = database.db;
  const id = newId(service.clock.now());
  const begin = startsAt === undefined ? now() : new Date(startsAt);
  await orm.insert(creditGrants).values({
    orgId,
    id,
    livemode,
    amount,
    grantKey: `key ${id}`,
    startsAt: begin,
    expiresAt: expiresAt === undefined ? null : new Date(expiresAt),
    rolloverPercent: rollover?.[0],
    rolloverDays: rollover?.[1],
    createdAt: now(),
    priority: 50,
    reason: 'test',
    actor: 'operator',
    request: {},
  });
  await orm.insert(creditAccounts).values({ orgId, livemode }).onConflictDoNothing();
  await orm.execute(sql`update credit_accounts a set grants = grants || ${id}::uuid, rests = rests || ${amount}::numeric,
    starts = starts || ${begin.toISOString()}::timestamptz, ends = ends || ${expiresAt ?? 'infinity'}::timestamptz, scopes = scopes || ''::text,
    priorities = priorities || 50, roll_percents = roll_percents || ${rollover?.[0] ?? 0}::int, roll_days = roll_days || ${rollover?.[1] ?? 0}::int
    where ${isAccount(orgId, livemode)}`);
  return `key ${id}`;
}

const isAccount = (orgId: string, livemode: boolean) =>
  sql`a.org_id = ${orgId}::uuid and a.livemode = ${livemode}::bool`;

/** An event of this hour burns credits. */
async function burn(orgId: string, cost: string, livemode = true) {
  const at = `'${now().toISOString()}'::timestamptz`;
  const asked = `'{${NOBODY}}', array[date_trunc('hour', ${at})], '{${cost}}'`;
  await database.db.orm.execute(
    sql`update credit_accounts a set ${sql.raw(setBurned(at, asked))} where ${isAccount(orgId, livemode)}`,
  );
}

/** A correction gives credits back to the first grant. */
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
      // Past several thresholds, the lowest is sent.
      ['16', [0, -1, 0]],
      ['3', []],
    ];
    const expected: unknown[] = [];
    for (const [burned, message] of steps) {
      await burn(orgId, burned);
      await look();
      if (message.length > 0) expected.push(message);
      expect(await reported(orgId)).toEqual(expected);
    }
    // The overdraft of 4 leaves 6 of 60: at 10%, above 0 only.
    await give(orgId, { amount: '10' });
    await give(orgId, { amount: '50', startsAt: '2026-05-14T12:00:00.000Z' });
    await look();
    await burn(orgId, '6');
    await look();
    expected.push([0, 0, 0]);
    expect(await reported(orgId)).toEqual(expected);
    // A grant lifts the balance when it begins.
    service.clock.set('2026-05-14T12:00:00.000Z');
    await look();
    await burn(orgId, '45');
    await look();
    expected.push([10, 5, 50]);
    expect(await reported(orgId)).toEqual(expected);
  });

  it('is not sent again when corrections or the end of another grant raise the share that is left', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100', expiresAt: '2026-05-15T00:00:00.000Z' });
    await give(orgId, { amount: '10' });
    await burn(orgId, '95');
    await look();
    expect(await reported(orgId)).toEqual([[20, 15, 110]]);
    await giveBack(orgId, '30');
    await look();
    await burn(orgId, '30');
    await look();
    // 10 of 10 are left, then 2, then 1.
    service.clock.set('2026-05-15T00:00:00.000Z');
    await look();
    await burn(orgId, '8');
    await look();
    await burn(orgId, '1');
    await look();
    expect(await reported(orgId)).toEqual([
      [20, 15, 110],
      [10, 1, 10],
    ]);
  });

  it('is sent when credits expire by themselves, and compares what rolled over with the whole grant', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100', expiresAt: '2026-05-15T00:00:00.000Z', rollover: [15, 30] });
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
    await give(orgId, { amount: '1' }, false);
    await burn(orgId, '80');
    await burn(orgId, '1', false);
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
    await burn(orgId, '95');
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

  it('says nothing before the first grant begins', async () => {
    const orgId = await createListening();
    await give(orgId, { amount: '100', startsAt: '2026-05-20T00:00:00.000Z' });
    await look();
    expect(await reported(orgId)).toEqual([]);
  });
});

describe('credits.expiring', () => {
  it('is sent 7 days and 1 day before a grant ends, once, with every digit that is left', async () => {
    const orgId = await createListening();
    const rollover = { percent: 50, for: 'P30D' };
    const grantKey = await give(orgId, {
      amount: '100',
      expiresAt: '2026-05-21T12:00:00.000Z',
      rollover: [50, 30],
    });
    const later = await give(orgId, { amount: '3', expiresAt: '2026-05-29T00:00:00.000Z' });
    await give(orgId, {
      amount: '3',
      startsAt: '2026-05-30T00:00:00.000Z',
      expiresAt: '2026-05-31T00:00:00.000Z',
    });
    await burn(orgId, '0.12345678901234567');
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
    // What rolled over ends later.
    service.clock.set('2026-06-14T12:00:00.000Z');
    await burn(orgId, '40');
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
