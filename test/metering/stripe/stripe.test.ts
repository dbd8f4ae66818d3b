import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import { sql } from 'drizzle-orm';
import { createMetrics } from '../../../src/core/metrics.js';
import { createMeteringMetrics } from '../../../src/metering/metrics.js';
import { createStripeClient } from '../../../src/metering/stripe/client.js';
import { compareStripe, decideUnknown, listUnknown } from '../../../src/metering/stripe/comparison.js';
import {
  createMeterSender,
  createPlanner,
  identifierOf,
  planHours,
} from '../../../src/metering/stripe/stripe.js';
import { createLifecycle } from '../../../src/core/http/context.js';
import { TestClock } from '../../support/service.js';
import { startFakeStripe, type Fault } from '../support/fake-stripe.js';
import { addToHour, createPayer, readEvents, sumHours, type Payer } from '../support/stripe.js';
import { use, useDatabase } from '../../support/use.js';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const clock = new TestClock();
const database = useDatabase();
const fake = use(
  () => startFakeStripe(() => clock.now() / 1000),
  (started) => started.stop(),
);
const metrics = createMetrics([createMeteringMetrics], { ofProcess: false });
const lines: { msg: string }[] = [];
const log = pino(
  { level: 'info' },
  { write: (line: string) => void lines.push(JSON.parse(line) as { msg: string }) },
);

let send: () => Promise<void>;
let payer: Payer;
const hourBefore = (hours: number) =>
  new Date(Math.floor(clock.now() / HOUR_MS) * HOUR_MS - hours * HOUR_MS).toISOString();
const stripeUntil = (key: string) => createStripeClient(key, fake.url);
const depsOf = (key = fake.key) => ({
  db: database.db,
  clock,
  log,
  metrics,
  livemode: key === fake.key,
  stripe: stripeUntil(key),
});
const plan = (livemode = true) =>
  planHours(database.db, { nowMs: clock.now(), livemode, fromMs: clock.now() - 40 * DAY_MS });
const failNext = (...faults: Fault[]) => {
  fake.state.fault = () => faults.shift();
};
/** Sends again after any pause has passed. */
const sendAgain = async () => {
  clock.advance(1.1 * HOUR_MS);
  await send();
};

beforeAll(() => {
  clock.set('2031-05-17T10:30:00.000Z');
});

beforeEach(async () => {
  payer = await createPayer(database.db, fake, hourBefore(50));
  send = createMeterSender(depsOf());
  fake.state.fault = () => undefined;
});

const expectEqualSums = async ({ orgId, customer } = payer) =>
  expect(fake.sums(customer)).toEqual(await sumHours(database.db, orgId));

describe('what is sent', () => {
  it('sends each closed hour once, and neither the open hour nor hours before the first setting', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await addToHour(database.db, payer, { hour: hourBefore(1), quantity: '0.25' });
    await addToHour(database.db, payer, { hour: hourBefore(51), quantity: '7' });
    await addToHour(database.db, payer, { hour: hourBefore(0), quantity: '9' });
    expect(await plan()).toBe(2);
    expect(await plan()).toBe(0);
    await send();
    await send();
    expect(fake.counted.filter(({ customer }) => customer === payer.customer)).toEqual([
      expect.objectContaining({
        value: '5',
        event_name: payer.meter,
        livemode: true,
        timestamp: Date.parse(hourBefore(2)) / 1000 - 1,
      }),
      expect.objectContaining({ value: '0.25', timestamp: Date.parse(hourBefore(0)) / 1000 - 1 }),
    ]);
    expect(await readEvents(database.db, payer.orgId)).toEqual([
      { revision: 1, state: 'sent', quantity: '5', attempts: 1, lastError: null },
      { revision: 1, state: 'sent', quantity: '0.25', attempts: 1, lastError: null },
    ]);
    await database.db.orm.execute(
      sql`delete from usage_hours where hour in (${hourBefore(0)}::timestamptz, ${hourBefore(51)}::timestamptz)`,
    );
    await expectEqualSums();
  });

  it('sends later events and corrections as differences, also below zero', async () => {
    const hour = hourBefore(3);
    for (const quantity of ['5', '2.5', '-7', '-0.5', '3']) {
      await addToHour(database.db, payer, { hour, quantity });
      await plan();
      await send();
    }
    expect((await readEvents(database.db, payer.orgId)).map(({ quantity }) => quantity)).toEqual([
      '5',
      '2.5',
      '-7',
      '-0.5',
      '3',
    ]);
    await expectEqualSums();
  });

  it('splits a number with more digits than Stripe accepts', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '123456789012345.6789' });
    expect([await plan(), await plan(), await plan()]).toEqual([1, 1, 0]);
    await send();
    expect((await readEvents(database.db, payer.orgId)).map(({ quantity }) => quantity)).toEqual([
      '123456789012345',
      '0.6789',
    ]);
    await expectEqualSums();
  });

  it('sends hours older than 34 days with the present time, because Stripe accepts no older timestamp', async () => {
    const old = await createPayer(database.db, fake, hourBefore(24 * 39));
    await addToHour(database.db, old, { hour: hourBefore(24 * 38), quantity: '4' });
    await plan();
    await send();
    const event = fake.counted.find(({ customer }) => customer === old.customer);
    expect(event).toMatchObject({ value: '4', timestamp: Math.floor(clock.now() / 1000) });
  });

  it('sends the usage of test API keys with a test key, and that of live keys with a live key', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '1' });
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '2', livemode: false });
    await plan();
    await plan(false);
    await send();
    expect(fake.counted.some(({ livemode, value }) => !livemode && value === '2')).toBe(false);
    await createMeterSender(depsOf(fake.testKey))();
    await expectEqualSums();
  });

  it('gives a changed customer and meter the events that were not sent yet', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '1' });
    await plan();
    const renamed = `${payer.customer}new`;
    fake.customers.set(renamed, { deleted: false });
    await database.db.orm.execute(
      sql`update organizations set stripe_customer_id = ${renamed} where id = ${payer.orgId}::uuid`,
    );
    await send();
    expect(fake.counted.at(-1)).toMatchObject({ customer: renamed, value: '1' });
  });

  it('lets one of two concurrent comparisons win', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '1' });
    const planned = await Promise.all(Array.from({ length: 4 }, () => plan()));
    expect(planned.reduce((sum, count) => sum + count, 0)).toBe(1);
    await Promise.all([send(), createMeterSender(depsOf())(), createMeterSender(depsOf())()]);
    await expectEqualSums();
  });

  it('compares the last hours each time, and all hours that can change once a day', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(30), quantity: '1' });
    const compareAgain = createPlanner({ ...depsOf(), lifecycle: createLifecycle() });
    expect(await compareAgain()).toBe(1);
    await addToHour(database.db, payer, { hour: hourBefore(30), quantity: '1' });
    await addToHour(database.db, payer, { hour: hourBefore(2), quantity: '1' });
    expect(await compareAgain()).toBe(1);
    clock.advance(HOUR_MS);
    expect(await compareAgain()).toBe(1);
    await send();
    await expectEqualSums();
  });
});

describe('faults', () => {
  it.each<Fault>(['lose request', 'lose answer', '500', '500 after recording', '502 page', '429', '401'])(
    '%s: the event is sent again with the same identifier and counts once',
    async (fault) => {
      await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
      await plan();
      failNext(fault);
      await send();
      expect(await readEvents(database.db, payer.orgId)).toMatchObject([{ state: 'waiting', attempts: 1 }]);
      const { requests } = fake.state;
      await send();
      // The event is not sent again before its pause has passed.
      expect(fake.state.requests).toBe(requests);
      await sendAgain();
      expect(await readEvents(database.db, payer.orgId)).toMatchObject([
        { state: 'sent', attempts: 2, lastError: null },
      ]);
      await expectEqualSums();
    },
  );

  it('counts a request that the network delivers twice only once', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await plan();
    failNext('double');
    await send();
    expect(await readEvents(database.db, payer.orgId)).toMatchObject([{ state: 'sent' }]);
    await expectEqualSums();
  });

  it('leaves it to a person if Stripe has an event that this database did not send before', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await plan();
    failNext('double, second answer');
    await send();
    expect(await readEvents(database.db, payer.orgId)).toMatchObject([
      { state: 'unknown', lastError: expect.stringContaining('already exists') as string },
    ]);
  });

  it('once Stripe forgets identifiers, resends nothing that Stripe may have, and a person decides', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await addToHour(database.db, payer, { hour: hourBefore(2), quantity: '6' });
    await plan();
    failNext('lose answer', 'lose request');
    await send();
    clock.advance(23.5 * HOUR_MS);
    await send();
    clock.advance(2 * DAY_MS);
    await send();
    const events = await readEvents(database.db, payer.orgId);
    expect(events).toMatchObject([{ state: 'unknown', attempts: 2 }, { state: 'unknown' }]);
    expect(lines.at(-1)!.msg).toContain('npm run stripe');
    const { isEqual, text } = await compareStripe(database.db.orm, clock, payer.orgId);
    expect(isEqual).toBe(false);
    expect(text).toContain(payer.customer);
    const { orm } = database.db;
    const [lost, missing] = (await listUnknown(orm, payer.orgId)).map(identifierOf) as [string, string];
    expect([fake.has(lost), fake.has(missing)]).toEqual([true, false]);
    for (const wrong of ['', 'x', `${lost}0`, lost.replace(/^./, 'f'), "' or 1=1"])
      expect(await decideUnknown(orm, clock, wrong, 'sent')).toBe(false);
    expect(await decideUnknown(orm, clock, lost, 'sent')).toBe(true);
    expect(await decideUnknown(orm, clock, lost, 'missing')).toBe(false);
    expect(await decideUnknown(orm, clock, missing, 'missing')).toBe(true);
    await plan();
    await send();
    await expectEqualSums();
    expect((await compareStripe(orm, clock, payer.orgId)).isEqual).toBe(true);
  });

  it('an instance that was suspended for days sends nothing that it claimed before', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await plan();
    const slow = depsOf();
    const { stripe } = depsOf();
    slow.stripe.check = async (event) => {
      const answer = await stripe.check(event);
      clock.advance(3 * DAY_MS);
      return answer;
    };
    const { requests } = fake.state;
    await createMeterSender(slow)();
    expect(fake.state.requests).toBe(requests);
  });

  it('calls Stripe one at a time for a customer and a meter', async () => {
    for (let n = 1; n <= 30; n++) await addToHour(database.db, payer, { hour: hourBefore(n), quantity: '1' });
    await plan();
    fake.state.fault = () => 'delay';
    const { requests, overlaps } = fake.state;
    await send();
    expect(fake.state.requests - requests).toBe(30);
    expect(fake.state.overlaps).toBe(overlaps);
    await expectEqualSums();
  });
});

describe('what Stripe would accept and bill nowhere', () => {
  it.each<[string, () => void, RegExp]>([
    ['an unknown customer', () => fake.customers.delete(payer.customer), /No such customer/],
    ['a deleted customer', () => fake.customers.set(payer.customer, { deleted: true }), /deleted/],
    ['an unknown meter', () => fake.meters.delete(payer.meter), /no active meter/],
    ['an inactive meter', () => fake.meters.set(payer.meter, { status: 'inactive' }), /no active meter/],
    ['a meter that counts events', () => fake.meters.set(payer.meter, { formula: 'count' }), /formula sum/],
    ['a meter with a window', () => fake.meters.set(payer.meter, { event_time_window: 'day' }), /window/],
  ])('%s: nothing is sent until it is put right', async (_name, breakIt, reason) => {
    breakIt();
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await plan();
    const { requests } = fake.state;
    await send();
    expect(fake.state.requests).toBe(requests);
    expect(await readEvents(database.db, payer.orgId)).toMatchObject([
      { state: 'waiting', lastError: expect.stringMatching(reason) as string },
    ]);
    fake.customers.set(payer.customer, { deleted: false });
    fake.meters.set(payer.meter, {});
    await sendAgain();
    expect(await readEvents(database.db, payer.orgId)).toMatchObject([{ state: 'sent', lastError: null }]);
    expect(fake.uncounted).toEqual([]);
  });

  it('finds a meter beyond the first hundred', async () => {
    for (let n = 0; n < 250; n++) fake.meters.set(`other-${n}`, {});
    const late = await createPayer(database.db, fake, hourBefore(50));
    expect(
      await stripeUntil(fake.key).check({ customerId: late.customer, eventName: late.meter }),
    ).toBeUndefined();
  });

  it('a key without rights stops the run, is logged once and sends nothing', async () => {
    await addToHour(database.db, payer, { hour: hourBefore(3), quantity: '5' });
    await plan();
    const { requests } = fake.state;
    const refused = createMeterSender({ ...depsOf(), stripe: stripeUntil('sk_live_revoked') });
    const before = lines.length;
    await refused();
    clock.advance(HOUR_MS);
    await refused();
    expect(lines.slice(before).map(({ msg }) => msg)).toEqual([
      expect.stringContaining('Stripe refuses all meter events'),
    ]);
    expect(fake.state.requests).toBe(requests);
    expect((await readEvents(database.db, payer.orgId))[0]!.lastError).toContain('Invalid API Key');
    await sendAgain();
    expect(await readEvents(database.db, payer.orgId)).toMatchObject([{ state: 'sent' }]);
  });
});
