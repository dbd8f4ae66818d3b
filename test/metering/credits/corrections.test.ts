import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { expectLedgerToBalance, giveCredits, readAccount } from '../support/credits.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

const NOW = '2031-03-20T12:34:00.000Z';
const organizations: string[] = [];
beforeEach(() => service.clock.set(NOW));
afterEach(async () => {
  for (const orgId of organizations.splice(0)) await expectLedgerToBalance(database.db, orgId);
});

async function arrive() {
  const { db } = database;
  const { id: orgId, slug } = await createOrganization(db);
  organizations.push(orgId);
  const addProduct = async (creditPrice = '1') => {
    const product = await createProduct(db, { creditPrice, creditEnforcement: 'warn' });
    await grant(db, orgId, product.id);
    return product;
  };
  const product = await addProduct();
  const scopes = ['usage:write', 'usage:read', 'usage:correct'];
  const live = await createKey(db, orgId, { scopes });
  const test = await createKey(db, orgId, { scopes, livemode: false });
  const path = `/organizations/${slug}/credits`;
  let corrections = 0;
  const post = async (route: string, body: object, secret = live.secret) => {
    const response = await fetch(`${service.url}/api${route}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    // oxlint-disable-next-line typescript/no-explicit-any -- tests read many different fields of a response
    return { status: response.status, body: (await response.json()) as any };
  };
  return {
    orgId,
    slug,
    product,
    addProduct,
    post,
    give: (key: string, amount: number | string, more: object = {}) =>
      giveCredits(operate, slug, key, amount, more),
    void: (key: string) => operate('POST', `${path}/grants/${key}/void`, { reason: 'Not paid' }),
    forgive: () => operate('POST', `${path}/overdrafts/${product.slug}/forgive`, { reason: 'Our mistake' }),
    send: async (events: Record<string, number | [quantity: number, more: object]>, isLive = true) => {
      const sent = Object.entries(events).map(([key, event]) => {
        const [quantity, more] = Array.isArray(event) ? event : [event, {}];
        return usageEvent(product.slug, key, { quantity, ...more });
      });
      expect((await sendUsage(service.url, (isLive ? live : test).secret, sent)).status).toBe(202);
    },
    /** Corrects events in the given order, in one request. */
    correct: async (...steps: [key: string, quantity: number][]) => {
      const { status, body } = await operate('POST', `/organizations/${slug}/usage/corrections`, {
        corrections: steps.map(([idempotencyKey, quantity]) => ({
          idempotencyKey,
          quantity,
          reason: 'Counted twice',
          correctionKey: `correction ${++corrections}`,
        })),
      });
      expect([status, body.applied]).toEqual([200, steps.length]);
    },
    /** The balance, what each grant has burned and has left, and the overdrafts. */
    read: async (query = '') => {
      const { body } = await operate('GET', path + query);
      const grants = body.grants.map((one: Record<string, unknown>) => [
        one.grantKey,
        [one.burned, one.remaining, one.status],
      ]);
      return [
        body.balance,
        Object.fromEntries(grants),
        body.overdrafts.map(({ quantity }: { quantity: number }) => quantity),
      ];
    },
    entries: async (kind: string) =>
      (await operate('GET', `${path}/entries?kind=${kind}`)).body.entries.map(
        ({ grantKey, amount }: { grantKey: string | null; amount: number }) => [grantKey, amount],
      ),
  };
}

describe('a correction to less', () => {
  it('gives back to the grant that the event burned, at the event’s own price', async () => {
    const { product, give, send, correct, read, entries } = await arrive();
    await give('a', 100);
    await send({ e: 10 });
    await operate('PUT', `/products/${product.slug}`, {
      name: 'P',
      usageMetric: 'calls',
      credits: { price: 3, enforcement: 'warn' },
    });
    await correct(['e', 4]);
    expect(await read()).toEqual([96, { a: [4, 96, 'open'] }, []]);
    await correct(['e', 0]);
    expect(await read()).toEqual([100, { a: [0, 100, 'open'] }, []]);
    await correct(['e', 7]);
    expect(await read()).toEqual([93, { a: [7, 93, 'open'] }, []]);
    expect(await entries('return')).toEqual([['a', 10]]);
  });

  it('is exact to 12 places and more', async () => {
    const { slug, addProduct, give, post, correct } = await arrive();
    const fine = await addProduct('0.000000000001');
    await give('a', '1.000000000001');
    const event = usageEvent(fine.slug, 'e', { quantity: 0.001 });
    expect((await post('/usage/events', { events: [event] })).status).toBe(202);
    await correct(['e', 0.0003]);
    const { text } = await operate('GET', `/organizations/${slug}/credits`);
    expect(text).toContain('"balance":1.0000000000009997,');
  });

  it('gives back the last burned first: the overdraft, then grants in the reverse order', async () => {
    const { give, send, correct, read } = await arrive();
    await give('first', 3, { priority: 0 });
    await give('second', 4);
    await send({ e: 10 });
    expect(await read()).toEqual([-3, { first: [3, 0, 'spent'], second: [4, 0, 'spent'] }, [3]]);
    await correct(['e', 8]);
    expect((await read())[2]).toEqual([1]);
    await correct(['e', 5]);
    expect(await read()).toEqual([2, { first: [3, 0, 'spent'], second: [2, 2, 'open'] }, []]);
    await correct(['e', 1]);
    expect(await read()).toEqual([6, { first: [1, 2, 'open'], second: [0, 4, 'open'] }, []]);
  });

  it('brings back a spent grant that had left the account, in its place', async () => {
    const { orgId, give, send, correct, read } = await arrive();
    await give('spent', 3, { priority: 0 });
    await give('other', 10);
    await send({ e: 3 });
    await send({ f: 1 });
    expect(Object.keys((await readAccount(database.db, orgId)).rests)).toHaveLength(1);
    await correct(['e', 1]);
    await send({ g: 3 });
    expect(await read()).toEqual([8, { spent: [3, 0, 'spent'], other: [2, 8, 'open'] }, []]);
  });

  it('lets credits returned to an expired grant pay only late events, and then expire', async () => {
    const { give, send, correct, read, entries } = await arrive();
    await give('a', 10, { expiresAt: '2031-03-20T13:00:00Z' });
    await send({ e: 10 });
    service.clock.set('2031-03-22T12:00:00Z');
    await correct(['e', 4]);
    expect(await read()).toEqual([0, { a: [4, 0, 'expired'] }, []]);
    await send({ late: [2, { occurredAt: '2031-03-20T12:40:00Z' }], now: 1 });
    expect(await read()).toEqual([-1, { a: [6, 0, 'expired'] }, [1]]);
    service.clock.set('2031-04-02T12:00:00Z');
    await correct(['late', 0]);
    expect(await read()).toEqual([-1, { a: [4, 0, 'expired'] }, [1]]);
    expect(await entries('expire')).toEqual([['a', 6]]);
    await correct(['e', 0]);
    expect(await read()).toEqual([-1, { a: [0, 0, 'expired'] }, [1]]);
  });

  it('rolls over the same percentage of credits returned to a grant with rollover', async () => {
    const { give, send, correct, read, entries } = await arrive();
    await give('a', 10, { expiresAt: '2031-03-20T13:00:00Z', rollover: { percent: 50, for: 'P30D' } });
    await send({ e: 10 });
    service.clock.set('2031-03-22T12:00:00Z');
    await correct(['e', 4]);
    expect(await read()).toEqual([3, { a: [4, 3, 'open'] }, []]);
    // After the rollover, everything given back stays available.
    await correct(['e', 2]);
    expect(await read()).toEqual([5, { a: [2, 5, 'open'] }, []]);
    expect([await entries('roll'), await entries('expire')]).toEqual([[['a', 3]], [['a', 3]]]);
    service.clock.set('2031-04-19T13:00:00Z');
    expect(await read()).toEqual([0, { a: [2, 0, 'expired'] }, []]);
  });

  it('forfeits credits returned to a void grant at once', async () => {
    const { give, send, correct, void: voidGrant, read, entries } = await arrive();
    await give('a', 10);
    await send({ e: 6 });
    await voidGrant('a');
    await correct(['e', 1]);
    expect(await read()).toEqual([0, { a: [1, 0, 'voided'] }, []]);
    expect(await entries('void')).toEqual([['a', 9]]);
  });

  it('undoes repayments, newest first, if the overdraft was repaid meanwhile', async () => {
    const { give, send, correct, read, entries } = await arrive();
    await send({ e: 10 });
    await give('a', 4);
    service.clock.advance(60_000);
    await give('b', 3);
    service.clock.advance(60_000);
    expect((await read())[2]).toEqual([3]);
    await correct(['e', 2]);
    expect(await read()).toEqual([5, { a: [2, 2, 'open'], b: [0, 3, 'open'] }, []]);
    expect(await entries('repay')).toHaveLength(4);
    expect(await entries('repay')).toEqual(
      expect.arrayContaining([
        ['a', 4],
        ['b', 3],
        ['b', -3],
        ['a', -2],
      ]),
    );
    await correct(['e', 0]);
    expect(await read()).toEqual([7, { a: [0, 4, 'open'], b: [0, 3, 'open'] }, []]);
  });

  it('pays the overdraft of another product with what a repayment gave back', async () => {
    const { addProduct, give, send, post, correct, read } = await arrive();
    const other = await addProduct();
    await send({ e: 10 });
    await give('a', 10);
    await post('/usage/events', { events: [usageEvent(other.slug, 'f', { quantity: 4 })] });
    await correct(['e', 5]);
    expect(await read()).toEqual([1, { a: [9, 1, 'open'] }, []]);
  });

  it('undoes forgiveness, and returns nothing', async () => {
    const { send, correct, forgive, read, entries } = await arrive();
    await send({ e: 10 });
    await forgive();
    await send({ f: 2 });
    service.clock.advance(60_000);
    await correct(['e', 3]);
    expect(await read()).toEqual([0, {}, []]);
    expect(await entries('forgive')).toEqual([
      [null, -5],
      [null, 10],
    ]);
  });

  it('of one event leaves what other events of its flush burned', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 3, { priority: 0 });
    await give('b', 100);
    await send({ e: 5, f: 5 });
    await correct(['e', 0], ['f', 4]);
    expect(await read()).toEqual([99, { a: [3, 0, 'spent'], b: [1, 99, 'open'] }, []]);
    await correct(['f', 0]);
    expect((await read())[0]).toBe(103);
  });
});

describe('corrections of several events of a flush', () => {
  it('give back together what the flush burned', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 3);
    await send({ e: 5, f: 5 });
    await correct(['e', 1], ['f', 1]);
    expect(await read()).toEqual([1, { a: [2, 1, 'open'] }, []]);
    await correct(['e', 0], ['f', 0]);
    expect(await read()).toEqual([3, { a: [0, 3, 'open'] }, []]);
  });
});

describe('a correction to more', () => {
  it('burns what is open now, as an event of that hour', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 5, { expiresAt: '2031-03-20T13:00:00Z' });
    await send({ e: 1 });
    service.clock.set('2031-03-20T14:00:00Z');
    await give('b', 5);
    await correct(['e', 7]);
    expect(await read()).toEqual([3, { a: [5, 0, 'spent'], b: [2, 3, 'open'] }, []]);
    await correct(['e', 20]);
    expect((await read())[2]).toEqual([10]);
  });

  it('is undone before the event itself', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 5);
    await send({ e: 5, f: [1, { occurredAt: '2031-03-20T11:00:00Z' }] });
    await give('b', 20);
    service.clock.advance(60_000);
    await correct(['e', 9], ['f', 3]);
    expect(await read()).toEqual([13, { a: [5, 0, 'spent'], b: [7, 13, 'open'] }, []]);
    service.clock.advance(60_000);
    await correct(['e', 4]);
    expect((await read())[0]).toBe(18);
    await correct(['f', 0], ['e', 0]);
    expect((await read())[0]).toBe(25);
  });
});

describe('corrections in one request', () => {
  it('of one event are applied in order', async () => {
    const { give, send, correct, read, entries } = await arrive();
    await give('a', 10);
    await send({ e: 5 });
    await correct(['e', 9], ['e', 2], ['e', 2], ['e', 12], ['e', 1]);
    expect(await read()).toEqual([9, { a: [1, 9, 'open'] }, []]);
    expect(await entries('return')).toHaveLength(2);
  });

  it('keep live and test credits apart', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 10);
    await give('a', 20, { livemode: false });
    await send({ live: 5 });
    await send({ test: 6 }, false);
    await correct(['test', 1], ['live', 2]);
    expect([(await read())[0], (await read('?livemode=false'))[0]]).toEqual([8, 19]);
  });

  it('that arrive in parallel leave the ledger in balance', async () => {
    const { give, send, correct, read } = await arrive();
    await give('a', 50);
    const keys = Array.from({ length: 6 }, (_, n) => `e${n}`);
    await send(Object.fromEntries(keys.map((key) => [key, 20])));
    await Promise.all([
      ...keys.map((key, n) => correct([key, n])),
      give('b', 30),
      send({ more: 3 }),
      correct([keys[0]!, 7]),
    ]);
    const [balance] = await read();
    expect([62, 55]).toContain(balance);
  });
});

describe('a correction without credits', () => {
  it('touches no account', async () => {
    const { orgId, addProduct, post, correct, send } = await arrive();
    const free = await addProduct('0');
    await post('/usage/events', { events: [usageEvent(free.slug, 'free', { quantity: 5 })] });
    await correct(['free', 1], ['free', 100]);
    expect(await readAccount(database.db, orgId)).toEqual({ rests: {}, debts: {} });
    await send({ e: 5 });
    await correct(['e', 5]);
  });
});

describe('a settled reservation', () => {
  it('is corrected like any event', async () => {
    const { product, give, post, correct, read } = await arrive();
    await give('a', 10);
    const { body } = await post('/usage/reservations', {
      productSlug: product.slug,
      metric: 'calls',
      quantity: 6,
      idempotencyKey: 'r',
    });
    await post(`/usage/reservations/${body.reservation.id}/settle`, { quantity: 4 });
    const [before] = await read();
    await correct(['r', 1]);
    const [after] = await read();
    expect([before, after]).toEqual([6, 9]);
  });
});
