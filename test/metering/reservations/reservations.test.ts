import { describe, expect, it } from 'vitest';
import { addMember, Browser, createUser } from '../../support/accounts.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { itWithApiKey } from '../../support/service-calls.js';
import { createProduct, grant } from '../support/products.js';
import { readUsage, sendUsage, usageEvent } from '../support/usage.js';
import type { UsageLimit } from '../../../src/metering/entitlements/table.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

async function call(method: string, path: string, secret: string | undefined, body?: unknown) {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      ...(secret ? { authorization: `Bearer ${secret}` } : {}),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    text,
    body: JSON.parse(text) as Record<string, any>,
    headers: response.headers,
  };
}

const limit = (
  quantity: string,
  window: string,
  enforcement: UsageLimit['enforcement'] = 'block',
): UsageLimit => ({
  quantity,
  window,
  enforcement,
});

async function tenant(limits: UsageLimit[] | null = null, maxQuantity = '1000000') {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, { maxQuantity });
  await grant(db, organization.id, product.id, { limits });
  const key = await createKey(db, organization.id);
  let n = 0;
  const path = '/api/usage/reservations';
  return {
    organization,
    product,
    secret: key.secret,
    reserve: (quantity: number, more: object = {}) =>
      call('POST', path, key.secret, {
        productSlug: product.slug,
        metric: 'calls',
        quantity,
        idempotencyKey: `r-${++n}`,
        ...more,
      }),
    settle: (id: string, body: object = {}) => call('POST', `${path}/${id}/settle`, key.secret, body),
    release: (id: string) => call('DELETE', `${path}/${id}`, key.secret),
    read: (id: string) => call('GET', `${path}/${id}`, key.secret),
    list: (query = '') => call('GET', path + query, key.secret),
    send: (quantity: number, idempotencyKey: string, more: object = {}) =>
      sendUsage(service.url, key.secret, [usageEvent(product.slug, idempotencyKey, { quantity, ...more })]),
    limits: async () =>
      (await call('GET', `/api/entitlements/${product.slug}`, key.secret)).body.limits as Record<
        string,
        any
      >[],
    check: async (quantity?: number) =>
      (
        await call('POST', '/api/entitlements/check', key.secret, {
          items: [{ productSlug: product.slug, ...(quantity === undefined ? {} : { quantity }) }],
        })
      ).body.results[0] as Record<string, any>,
  };
}

describe('a reservation', () => {
  it('is held, settled once with its event, and counted once', async () => {
    const t = await tenant([limit('10', 'calendar_day')]);
    const made = await t.reserve(6.5);
    expect(made.status).toBe(201);
    expect(made.body.reservation).toMatchObject({ status: 'held', quantity: 6.5, settledQuantity: null });
    expect(made.body.limits).toMatchObject([{ used: 0, held: 6.5, remaining: 3.5 }]);
    const { id } = made.body.reservation;
    const settled = await t.settle(id, { quantity: 2.25 });
    expect(settled.status).toBe(200);
    expect(settled.body).toMatchObject({ accepted: 1, deduped: 0, warnings: [] });
    expect(settled.body.reservation).toMatchObject({ status: 'settled', settledQuantity: 2.25 });
    expect((await t.settle(id, { quantity: 2.25 })).body).toEqual(settled.body);
    const other = await t.settle(id, { quantity: 2.26 });
    expect([other.status, other.body.code]).toEqual([409, 'idempotency_conflict']);
    expect(await t.limits()).toMatchObject([{ used: 2.25, held: 0, remaining: 7.75 }]);
    const { events, drift } = await readUsage(database.db, t.organization.id);
    expect(events.map(({ key, quantity }) => [key, quantity])).toEqual([['r-1', '2.25']]);
    expect(drift).toEqual([]);
  });

  it('is refused if a blocking limit leaves no room, and then holds nothing', async () => {
    const t = await tenant([
      limit('100', 'calendar_month', 'warn'),
      limit('10', 'calendar_week'),
      limit('20', 'PT5H'),
    ]);
    // A Wednesday: no window ends before the hold does.
    service.clock.set('2026-03-04T10:00:00Z');
    await t.reserve(7);
    const refused = await t.reserve(3.5);
    expect([refused.status, refused.body.code]).toEqual([409, 'limit_reached']);
    expect(refused.body.limit).toMatchObject({
      quantity: 10,
      window: 'calendar_week',
      held: 7,
      remaining: 3,
    });
    // The hold that blocks this request expires in five minutes.
    expect(Number(refused.headers.get('retry-after'))).toBe(300);
    expect((await t.reserve(3)).status).toBe(201);
    const never = await t.reserve(11);
    expect(never.headers.get('retry-after')).toBeNull();
    expect((await t.limits())[1]).toMatchObject({ held: 10, remaining: 0 });
  });

  it('gets the same answer for the same key and body, and is refused for another body', async () => {
    const t = await tenant();
    const first = await t.reserve(5, { idempotencyKey: 'same' });
    const again = await t.reserve(5, { idempotencyKey: 'same' });
    expect([first.status, again.status]).toEqual([201, 200]);
    expect(again.body.reservation).toEqual(first.body.reservation);
    for (const more of [{ quantity: 6 }, { ttlSeconds: 301 }])
      expect((await t.reserve(5, { idempotencyKey: 'same', ...more })).body.code).toBe(
        'idempotency_conflict',
      );
    const both = await Promise.all([1, 2, 3].map(() => t.reserve(5, { idempotencyKey: 'at once' })));
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 200, 201]);
    expect(new Set(both.map(({ body }) => body.reservation.id)).size).toBe(1);
  });

  it('stops counting when it expires, and can still be settled', async () => {
    const t = await tenant([limit('10', 'PT1H')]);
    const { id } = (await t.reserve(10, { ttlSeconds: 60 })).body.reservation;
    service.clock.advance(59_999);
    expect((await t.reserve(1)).status).toBe(409);
    service.clock.advance(1);
    expect((await t.read(id)).body.reservation.status).toBe('expired');
    expect((await t.reserve(10)).status).toBe(201);
    const late = await t.settle(id);
    expect(late.body).toMatchObject({ accepted: 1, reservation: { status: 'settled' } });
    expect(late.body.warnings.map(({ code }: { code: string }) => code)).toEqual(['reservation_expired']);
  });

  it('frees its room when released, however often', async () => {
    const t = await tenant([limit('10', 'PT1H')]);
    const { id } = (await t.reserve(10)).body.reservation;
    const released = await t.release(id);
    expect([released.status, released.body.reservation.status]).toEqual([200, 'released']);
    expect(await t.release(id)).toMatchObject({ status: 200, body: released.body });
    expect((await t.reserve(10)).status).toBe(201);
    const settled = await t.settle(id, { quantity: 1 });
    expect(settled.body.warnings).toContainEqual({ code: 'reservation_expired' });
    expect((await t.release(id)).body.reservation.status).toBe('settled');
  });

  it('records and warns of usage beyond the hold and the limit', async () => {
    const t = await tenant([limit('10', 'PT1H')]);
    const { id } = (await t.reserve(10)).body.reservation;
    const { body } = await t.settle(id, { quantity: 12 });
    expect(body.warnings).toEqual([
      { code: 'reservation_exceeded', reserved: 10, used: 12 },
      {
        code: 'limit_exceeded',
        productSlug: t.product.slug,
        metric: 'calls',
        limit: { quantity: 10, window: 'PT1H', enforcement: 'block' },
        used: 12,
      },
    ]);
  });

  it('does not count again what an event with its key has counted', async () => {
    const t = await tenant();
    const { id } = (await t.reserve(5, { idempotencyKey: 'twice' })).body.reservation;
    await t.send(4, 'twice');
    const { body } = await t.settle(id, { quantity: 5 });
    expect(body).toMatchObject({
      accepted: 0,
      deduped: 1,
      warnings: [{ code: 'duplicate_mismatch', index: 0 }],
    });
    expect((await readUsage(database.db, t.organization.id)).events).toHaveLength(1);
  });

  it('keeps all digits', async () => {
    const t = await tenant([limit('1', 'PT1H')]);
    const path = '/api/usage/reservations';
    const quantity = '0.10000000000000000000000001';
    const text = `{"productSlug":"${t.product.slug}","metric":"calls","idempotencyKey":"k","quantity":${quantity}}`;
    const made = await call('POST', path, t.secret, text);
    expect(made.text).toContain(`"quantity":${quantity},`);
    expect(made.text).toContain('"remaining":0.89999999999999999999999999,');
    const settled = await call(
      'POST',
      `${path}/${made.body.reservation.id}/settle`,
      t.secret,
      `{"quantity":${quantity}}`,
    );
    expect(settled.text).toContain(`"settledQuantity":${quantity},`);
  });

  it('is not visible to another Organization or the other mode', async () => {
    const t = await tenant();
    const { id } = (await t.reserve(5)).body.reservation;
    const other = await tenant();
    const test = await createKey(database.db, t.organization.id, { livemode: false });
    for (const secret of [other.secret, test.secret]) {
      for (const [method, path, body] of [
        ['GET', `/${id}`],
        ['DELETE', `/${id}`],
        ['POST', `/${id}/settle`, {}],
      ] as const)
        expect((await call(method, `/api/usage/reservations${path}`, secret, body)).status).toBe(404);
      expect((await call('GET', '/api/usage/reservations', secret)).body.reservations).toEqual([]);
    }
    expect((await t.read(id)).body.reservation.status).toBe('held');
  });

  it('refuses hostile input, naming the place', async () => {
    const t = await tenant();
    const { id } = (await t.reserve(1)).body.reservation;
    for (const [more, pointer] of [
      [{ quantity: -1 }, '/quantity'],
      [{ quantity: '1' }, '/quantity'],
      [{ ttlSeconds: 0 }, '/ttlSeconds'],
      [{ ttlSeconds: 86_401 }, '/ttlSeconds'],
      [{ ttlSeconds: 1.5 }, '/ttlSeconds'],
      [{ idempotencyKey: 'a\u0000b' }, '/idempotencyKey'],
      [{ metric: '' }, '/metric'],
      [{ other: 1 }, '/other'],
    ] as const) {
      const { status, body } = await t.reserve(1, more);
      expect([status, body.errors[0].pointer]).toEqual([400, pointer]);
    }
    expect((await t.settle(id, { occurredAt: 'soon' })).body.errors[0].pointer).toBe('/occurredAt');
    expect((await t.settle("x' or 1=1")).status).toBe(404);
    expect((await t.list('?status=open')).status).toBe(400);
    expect((await t.list('?cursor=bm8')).status).toBe(400);
    const text = `{"productSlug":"${t.product.slug}","metric":"calls","idempotencyKey":"k","quantity":1e400}`;
    expect((await call('POST', '/api/usage/reservations', t.secret, text)).status).toBe(400);
    expect((await t.reserve(1_000_001)).body.code).toBe('quantity_out_of_range');
  });

  it('is listed in pages, newest first', async () => {
    const t = await tenant();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) {
      ids.unshift((await t.reserve(1)).body.reservation.id);
      service.clock.advance(10);
    }
    await t.release(ids[1]!);
    const first = (await t.list('?status=held&limit=2')).body;
    const second = (await t.list(`?status=held&limit=2&cursor=${first.nextCursor}`)).body;
    const found = [...first.reservations, ...second.reservations].map(({ id }: { id: string }) => id);
    expect(found).toEqual([ids[0], ids[2], ids[3], ids[4]]);
    expect(second.nextCursor).toBeNull();
    expect((await t.list()).body.reservations).toHaveLength(5);
    await t.settle(ids[3]!, {});
    service.clock.advance(299_980);
    const listed = async (status: string) =>
      (await t.list(`?status=${status}`)).body.reservations.map(({ id }: { id: string }) => id);
    expect(await Promise.all(['held', 'settled', 'released', 'expired'].map(listed))).toEqual([
      [ids[0]],
      [ids[3]],
      [ids[1]],
      [ids[2], ids[4]],
    ]);
  });
});

describe('a limit', () => {
  it('of a rolling window counts to the event at both of its edges', async () => {
    const t = await tenant([limit('100', 'PT90M', 'warn')]);
    service.clock.set('2026-03-01T10:00:00.500Z');
    const used = async () => (await t.limits())[0]!.used as number;
    await t.send(1, 'edge', { occurredAt: '2026-03-01T08:30:00.500Z' });
    await t.send(2, 'inside', { occurredAt: '2026-03-01T08:30:00.500001Z' });
    await t.send(4, 'now', { occurredAt: '2026-03-01T10:00:00.500Z' });
    await t.send(8, 'ahead', { occurredAt: '2026-03-01T10:00:00.500001Z' });
    await t.send(16, 'next hour', { occurredAt: '2026-03-01T09:00:00Z' });
    expect(await used()).toBe(22);
    service.clock.advance(1);
    expect(await used()).toBe(28);
    // A late event counts immediately in the window that still contains it.
    await t.send(32, 'late', { occurredAt: '2026-03-01T08:31:00Z' });
    expect(await used()).toBe(60);
    service.clock.set('2026-03-01T10:01:00Z');
    expect(await used()).toBe(28);
  });

  it('says when an exhausted rolling window has room again', async () => {
    const t = await tenant([limit('10', 'PT1H')]);
    service.clock.set('2026-03-02T10:30:00Z');
    await t.send(4, 'a', { occurredAt: '2026-03-02T09:40:00Z' });
    await t.send(4, 'b', { occurredAt: '2026-03-02T10:10:00Z' });
    expect((await t.limits())[0]).toMatchObject({ used: 8, remaining: 2, resetsAt: null });
    const refused = await t.reserve(5);
    expect(Number(refused.headers.get('retry-after'))).toBe(600);
    expect(Number((await t.reserve(8)).headers.get('retry-after'))).toBe(2_400);
    await t.send(2, 'c');
    expect((await t.limits())[0]).toMatchObject({
      used: 10,
      remaining: 0,
      resetsAt: '2026-03-02T10:40:00.000Z',
    });
  });

  it.each([
    [
      'calendar_day',
      '2028-02-29T23:59:59.999Z',
      '2028-02-29T00:00:00Z',
      '2028-02-28T23:59:59.999999Z',
      '2028-03-01T00:00:00.000Z',
    ],
    [
      'calendar_week',
      '2028-03-05T23:59:59Z',
      '2028-02-28T00:00:00Z',
      '2028-02-27T23:59:59Z',
      '2028-03-06T00:00:00.000Z',
    ],
    [
      'calendar_month',
      '2028-03-01T00:00:00Z',
      '2028-03-01T00:00:00Z',
      '2028-02-29T23:59:59Z',
      '2028-04-01T00:00:00.000Z',
    ],
  ])('of a %s counts from its first moment to its last', async (window, now, first, before, resetsAt) => {
    const t = await tenant([limit('5', window)]);
    service.clock.set(now);
    await t.send(1, 'first', { occurredAt: first });
    await t.send(2, 'before', { occurredAt: before });
    expect((await t.limits())[0]).toMatchObject({ used: 1, remaining: 4, resetsAt });
  });

  it('warns of what exceeds it, and only in the window of the event', async () => {
    const t = await tenant([limit('5', 'calendar_day')]);
    service.clock.set('2026-03-03T12:00:00Z');
    const warned = async (...of: Parameters<typeof t.send>) => {
      const { status, body } = await t.send(...of);
      expect(status).toBe(202);
      return body.warnings as { code: string; used: number }[];
    };
    expect(await warned(5, 'a')).toEqual([]);
    expect(await warned(0.5, 'b')).toMatchObject([{ code: 'limit_exceeded', used: 5.5 }]);
    expect(await warned(9, 'c', { occurredAt: '2026-03-02T12:00:00Z' })).toEqual([]);
  });

  it('that blocks denies a check of more than is left, and of zero once it is reached', async () => {
    const t = await tenant([limit('5', 'PT1H'), limit('1', 'PT1M', 'warn')]);
    await t.send(3, 'a');
    expect(await t.check()).toMatchObject({ allowed: true, reason: null });
    expect(await t.check(2)).toMatchObject({ allowed: true });
    expect(await t.check(2.5)).toMatchObject({ allowed: false, reason: 'limit_reached' });
    await t.reserve(2);
    expect(await t.check()).toMatchObject({ allowed: false, reason: 'limit_reached' });
  });

  it('counts events dated ahead of the clock as taken', async () => {
    const t = await tenant([limit('10', 'PT1H')]);
    const { id } = (await t.reserve(10)).body.reservation;
    const ahead = new Date(service.clock.now() + 60_000).toISOString();
    await t.settle(id, { occurredAt: ahead });
    expect((await t.limits())[0]).toMatchObject({ used: 0, held: 0, remaining: 0 });
    expect((await t.reserve(1)).status).toBe(409);
  });
});

itWithApiKey('shows used, held and remaining units on the pages, and which key holds them', async () => {
  const t = await tenant([limit('10', 'PT5H'), limit('4', 'calendar_day', 'warn')]);
  service.clock.set(new Date().toISOString());
  await t.send(3, 'a');
  await t.reserve(2.5);
  const user = await createUser(database.db);
  await addMember(database.db, t.organization.id, user.id, 'billing');
  const browser = new Browser(service.url);
  await browser.signIn(user.email);
  for (const path of ['/dashboard/entitlements', `/dashboard/usage?product=${t.product.slug}`]) {
    const text = (await browser.get(path)).text.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ');
    expect(text).toMatch(/Last 5.hours: 3 used, 2\.5 held of 10 calls Blocks 4\.5 left/);
    expect(text).toMatch(/Today \(UTC\): 3 used, 2\.5 held of 4 calls Warns Over the limit by 1\.5 · resets/);
    if (path.includes('usage')) expect(text).toMatch(/test key org_live_\S+… 2\.5 calls 1 /);
  }
});
