import { readdirSync, readFileSync } from 'node:fs';
import { v7 as uuid } from 'uuid';
import { eq, sql } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { webhookEndpoints, webhookMessages } from '../../../src/accounts/webhooks/table.js';
import { entitlements, products } from '../../../src/metering/entitlements/table.js';
import { usageCorrections, usageTotals } from '../../../src/metering/ingestion/table.js';
import { compare, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { asMaintained } from '../../support/database.js';
import { addMember, createUser, openSession } from '../../support/accounts.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { TestClock } from '../../support/service.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();

const NOW = '2031-03-20T12:34:00Z';
beforeAll(async () => {
  service.clock.set(NOW);
});

const operate = operatorClient(() => service);

async function call(secret: string | undefined, path: string, body?: unknown) {
  const response = await fetch(`${service.url}/api${path}`, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  // oxlint-disable-next-line typescript/no-explicit-any -- tests read many different fields of a response
  const answer: any = await response.json();
  return { status: response.status, body: answer };
}

async function arrive() {
  const tenant = await createTenant(database.db);
  const scopes = ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read'];
  const orgId = tenant.organization.id;
  const live = await createKey(database.db, orgId, { scopes });
  const test = await createKey(database.db, orgId, { scopes, livemode: false });
  const send = (key: string, more: object = {}, secret = live.secret) =>
    sendUsage(service.url, secret, [usageEvent(tenant.product.slug, key, more)]);
  const correct = (corrections: object[], secret: string | undefined = live.secret) =>
    call(secret, '/usage/corrections', { corrections });
  const total = async (livemode = true) => {
    const rows = await database.db.orm.select().from(usageTotals).where(eq(usageTotals.orgId, orgId));
    return rows
      .filter((row) => row.livemode === livemode)
      .map(({ period, quantity, events }) => [period, Number(quantity), events]);
  };
  const drift = async () => {
    const { totals, hours } = await compare(database.db.orm, { orgId });
    return [...totals, ...hours];
  };
  return { ...tenant, orgId, live, test, send, correct, total, drift };
}

const to = (idempotencyKey: string, quantity: number, correctionKey: string, more: object = {}) => ({
  idempotencyKey,
  quantity,
  reason: 'Counted twice',
  correctionKey,
  ...more,
});

describe('a correction', () => {
  it('moves the total and the hour of the event’s own period, and leaves the event as sent', async () => {
    const { live, product, send, correct, total, drift } = await arrive();
    await send('a', { quantity: 10, occurredAt: '2031-03-14T10:20:30.123456Z' });
    await send('b', { quantity: 5, occurredAt: '2031-03-20T12:00:00Z' });
    const { status, body } = await correct([to('a', 4.5, 'k1')]);
    expect([status, body]).toEqual([
      200,
      { applied: 1, deduped: 0, results: [{ idempotencyKey: 'a', previousQuantity: 10, quantity: 4.5 }] },
    ]);
    expect(await total()).toEqual([['2031-03-01', 9.5, 2]]);
    const range = `productSlug=${product.slug}&from=2031-03-14&to=2031-03-15&granularity=hour&groupBy=apiKey`;
    const { body: sums } = await call(live.secret, `/usage?${range}`);
    expect(sums.series).toEqual([
      {
        productSlug: product.slug,
        metric: 'calls',
        apiKeyId: live.id,
        points: [{ start: '2031-03-14T10:00:00.000Z', quantity: 4.5, events: 1 }],
        total: 4.5,
      },
    ]);
    const { body: event } = await call(live.secret, '/usage/events/a');
    expect(event).toMatchObject({
      quantity: 10,
      corrections: [
        {
          correctionKey: 'k1',
          previousQuantity: 10,
          quantity: 4.5,
          reason: 'Counted twice',
          correctedAt: '2031-03-20T12:34:00.000000Z',
          correctedBy: 'api_key',
        },
      ],
    });
    const { body: found } = await call(live.secret, '/usage/events/lookup', { idempotencyKeys: ['a', 'b'] });
    expect(found.results.map((one: { event: { corrections: [] } }) => one.event.corrections.length)).toEqual([
      1, 0,
    ]);
    expect(await drift()).toEqual([]);
  });

  it('is exact upwards and downwards, and builds on the previous correction', async () => {
    const { live, send, correct, total, drift } = await arrive();
    await send('a', { quantity: 0.1 });
    const body = `{"corrections":[
      {"idempotencyKey":"a","quantity":12345678901234567890.000000000001,"reason":"x","correctionKey":"1"},
      {"idempotencyKey":"a","quantity":1e3,"reason":"x","correctionKey":"2"},
      {"idempotencyKey":"a","quantity":0.30,"reason":"x","correctionKey":"3"}]}`;
    const { body: answer } = await call(live.secret, '/usage/corrections', body);
    expect(answer.results.map(({ quantity }: { quantity: number }) => quantity)).toEqual([
      12345678901234567000, 1000, 0.3,
    ]);
    expect(await total()).toEqual([['2031-03-01', 0.3, 1]]);
    expect(await drift()).toEqual([]);
    await correct([to('a', 0, 'void')]);
    expect(await total()).toEqual([['2031-03-01', 0, 1]]);
    expect(await drift()).toEqual([]);
  });

  it('changes nothing when repeated, also within a request, and conflicts with different content', async () => {
    const { send, correct, total } = await arrive();
    await send('a', { quantity: 10 });
    await send('b', { quantity: 10 });
    const one = to('a', 4, 'k');
    expect((await correct([one, one])).body).toEqual({
      applied: 1,
      deduped: 1,
      results: [1, 2].map(() => ({ idempotencyKey: 'a', previousQuantity: 10, quantity: 4 })),
    });
    await correct([to('a', 7, 'k2')]);
    expect((await correct([one])).body).toMatchObject({
      applied: 0,
      deduped: 1,
      results: [{ previousQuantity: 10, quantity: 4 }],
    });
    for (const other of [{ quantity: 5 }, { idempotencyKey: 'b' }, { reason: 'Other' }]) {
      const { status, body } = await correct([to('b', 1, 'new'), { ...one, ...other }]);
      expect([status, body.code, body.errors.map(({ pointer }: { pointer: string }) => pointer)]).toEqual([
        409,
        'idempotency_conflict',
        ['/corrections/1/correctionKey'],
      ]);
    }
    expect(await total()).toEqual([['2031-03-01', 17, 2]]);
  });

  it('does not turn a repeat of the original event into a mismatch', async () => {
    const { send, correct, total } = await arrive();
    await send('a', { quantity: 10 });
    await correct([to('a', 4, 'k')]);
    expect((await send('a', { quantity: 10 })).body).toMatchObject({ accepted: 0, deduped: 1, warnings: [] });
    expect((await send('a', { quantity: 4 })).body.warnings).toMatchObject([{ code: 'duplicate_mismatch' }]);
    expect(await total()).toEqual([['2031-03-01', 4, 1]]);
  });

  it('is made with all others or not at all, and each broken rule names its place', async () => {
    const { live, orgId, product, send, correct, total } = await arrive();
    await send('a', { quantity: 10 });
    await database.db.orm.update(products).set({ maxQuantity: '100' }).where(eq(products.id, product.id));
    const { status, body } = await correct(
      [to('a', 4, '1'), to('none', 4, '2'), to('a', 101, '3')],
      live.secret,
    );
    expect([status, body.code, body.detail]).toEqual([
      404,
      'event_not_found',
      'Nothing was corrected. No event none was recorded.',
    ]);
    expect(body.errors).toMatchObject([
      { index: 1, pointer: '/corrections/1/idempotencyKey', code: 'event_not_found' },
      { index: 2, pointer: '/corrections/2/quantity', code: 'quantity_out_of_range' },
    ]);
    expect((await correct([to('a', 101, '3')])).body.code).toBe('quantity_out_of_range');
    expect(await total()).toEqual([['2031-03-01', 10, 1]]);
    const rows = await database.db.orm
      .select()
      .from(usageCorrections)
      .where(eq(usageCorrections.orgId, orgId));
    expect(rows).toEqual([]);
  });

  it('reaches neither the other mode nor another Organization', async () => {
    const { live, test, send, correct, total } = await arrive();
    await send('live', { quantity: 10 });
    await send('test', { quantity: 20 }, test.secret);
    const stranger = await arrive();
    for (const [secret, key] of [
      [test.secret, 'live'],
      [live.secret, 'test'],
      [stranger.live.secret, 'live'],
    ] as const) {
      const { status, body } = await correct([to(key, 1, 'k')], secret);
      expect([status, body.code]).toEqual([404, 'event_not_found']);
    }
    expect((await correct([to('live', 1, 'k')])).status).toBe(200);
    // The response does not reveal whether the correction key was used in the other mode.
    expect((await correct([to('live', 1, 'k')], test.secret)).body.code).toBe('idempotency_conflict');
    expect((await correct([to('test', 2, 't')], test.secret)).body).toMatchObject({ applied: 1 });
    expect([await total(true), await total(false)]).toEqual([[['2031-03-01', 1, 1]], [['2031-03-01', 2, 1]]]);
  });

  it('with an API key is allowed for 35 days after receipt, and by the operator at any time', async () => {
    const { live, organization, send, correct, total } = await arrive();
    await send('a', { quantity: 10 });
    try {
      service.clock.set('2031-04-24T12:34:00Z');
      expect((await correct([to('a', 9, '1')])).status).toBe(200);
      service.clock.set('2031-04-24T12:34:00.001Z');
      const { status, body } = await correct([to('a', 8, '2')], live.secret);
      expect([status, body.code]).toEqual([422, 'timestamp_out_of_range']);
      expect((await correct([to('a', 9, '1')])).body).toMatchObject({ applied: 0, deduped: 1 });
      const path = `/organizations/${organization.slug}/usage/corrections`;
      expect((await operate('POST', path, { corrections: [to('a', 7, '3')] })).body).toMatchObject({
        applied: 1,
      });
      expect(await total()).toEqual([['2031-03-01', 7, 1]]);
    } finally {
      service.clock.set(NOW);
    }
  });

  it('with an API key is allowed 1,000 times per event, and by the operator beyond that', async () => {
    const { live, organization, send, correct, total } = await arrive();
    await send('a', { quantity: 10 });
    for (let i = 0; i < 10; i++)
      expect(
        (await correct(Array.from({ length: 100 }, (_, n) => to('a', n, `${i} ${n}`)))).body,
      ).toMatchObject({ applied: 100 });
    const more = await correct([to('a', 1, 'more')]);
    expect([more.status, more.body.code]).toEqual([400, 'invalid_request']);
    expect(more.body.errors).toMatchObject([{ index: 0, pointer: '/corrections/0/idempotencyKey' }]);
    expect((await correct([to('a', 99, '9 99')])).body).toMatchObject({ applied: 0, deduped: 1 });
    const path = `/organizations/${organization.slug}/usage/corrections`;
    expect((await operate('POST', path, { corrections: [to('a', 7, 'more')] })).body).toMatchObject({
      applied: 1,
    });
    expect(await total()).toEqual([['2031-03-01', 7, 1]]);
    const lookUp = (times: number) =>
      call(live.secret, '/usage/events/lookup', {
        idempotencyKeys: Array.from({ length: times }, () => 'a'),
      });
    const nine = await lookUp(9);
    expect(nine.body.results[8].event.corrections).toHaveLength(1_001);
    // If a request could name the key 500 times, the response would be hundreds of megabytes long.
    const ten = await lookUp(10);
    expect([ten.status, ten.body.code]).toEqual([413, 'batch_too_large']);
  });

  it('waits for concurrent corrections of its event and builds on their result', async () => {
    const { orgId, organization, send, correct, total, drift } = await arrive();
    await send('a', { quantity: 100 });
    await send('b', { quantity: 100 });
    const path = `/organizations/${organization.slug}/usage/corrections`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        i % 2 === 0
          ? correct([to('a', i, `a${i}`), to('b', i, `b${i}`)])
          : operate('POST', path, { corrections: [to('b', i, `b${i}`), to('a', i, `a${i}`)] }),
      ),
    );
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const rows = await database.db.orm
      .select()
      .from(usageCorrections)
      .where(eq(usageCorrections.orgId, orgId))
      .orderBy(usageCorrections.number);
    const last = (key: string) => {
      const own = rows.filter(({ idempotencyKey }) => idempotencyKey === key);
      expect(own.map(({ number }) => number)).toEqual(own.map((_, i) => i + 1));
      expect(own.map(({ previousQuantity }) => previousQuantity)).toEqual([
        '100',
        ...own.map(({ quantity }) => quantity).slice(0, -1),
      ]);
      return Number(own.at(-1)!.quantity);
    };
    expect(await total()).toEqual([['2031-03-01', last('a') + last('b'), 2]]);
    expect(await drift()).toEqual([]);
  });

  it('is sent once, with all its digits, to webhooks that listen in its mode', async () => {
    const { orgId, live, product, send } = await arrive();
    const endpoint = { orgId, url: 'https://example.com/', types: ['usage.corrected' as const], secret: '' };
    for (const livemode of [true, false])
      await database.db.orm
        .insert(webhookEndpoints)
        .values({ ...endpoint, id: uuid(), livemode, createdAt: new Date(NOW) });
    await send('a', { quantity: 10 });
    const body = `{"corrections":[{"idempotencyKey":"a","quantity":0.12345678901234567,"reason":"r","correctionKey":"k"}]}`;
    for (let i = 0; i < 2; i++)
      expect((await call(live.secret, '/usage/corrections', body)).status).toBe(200);
    const told = await database.db.orm.select().from(webhookMessages).where(eq(webhookMessages.orgId, orgId));
    const data = { productSlug: product.slug, idempotencyKey: 'a', correctionKey: 'k', previousQuantity: 10 };
    expect(told).toMatchObject([{ type: 'usage.corrected', livemode: true, data }]);
  });

  it('shares one audit entry with the others of its request, and has none if nothing changed', async () => {
    const { orgId, live, send, correct } = await arrive();
    await send('a', { quantity: 10 });
    await correct([to('a', 4, '1'), to('a', 5, '2')]);
    await correct([to('a', 4, '1')]);
    const rows = await auditOf(database.db, orgId);
    expect(rows).toMatchObject([
      {
        action: 'usage.corrected',
        actor: `api_key:${live.id}`,
        target: '2 events',
        details: {
          corrections: 2,
          changes: [
            { idempotencyKey: 'a', before: '10', after: '4', reason: 'Counted twice' },
            { after: '5' },
          ],
        },
      },
    ]);
  });
});

describe('an Organization that the operator does not let correct', () => {
  const set = (tenant: { organization: { slug: string; name: string } }, mayCorrect?: boolean) =>
    operate('PUT', `/organizations/${tenant.organization.slug}`, { name: 'Acme', mayCorrect });

  const ownerOf = async (orgId: string) => {
    const { id } = await createUser(database.db);
    await addMember(database.db, orgId, id, 'owner');
    return openSession(database.db, service.url, id, service.clock.now());
  };

  it('corrects nothing, with a key or on the page, until the operator lets it', async () => {
    const tenant = await arrive();
    const { orgId, organization, send, correct, total } = tenant;
    await send('a', { quantity: 10 });
    expect((await set(tenant, false)).body.mayCorrect).toBe(false);
    const browser = await ownerOf(orgId);
    const path = '/dashboard/usage?event=a';
    const form = { quantity: '0', reason: 'Free', correctionKey: uuid(), step: 'save' };
    const submit = () =>
      browser.send('POST', path, {
        form,
        headers: { accept: 'text/html', referer: `${service.url}${path}` },
      });
    const { status, body } = await correct([to('a', 0, 'k')]);
    expect([status, body.code]).toEqual([403, 'entitlement_required']);
    expect(body.detail).toContain('Ask the operator of this service');
    const refused = await submit();
    expect([refused.status, refused.text.includes('Ask the operator of this service')]).toEqual([403, true]);
    const shown = (await browser.get('/dashboard/usage?event=a', { accept: 'text/html' })).text;
    expect(shown).toContain('ask the operator of this service to correct it');
    expect(shown).not.toContain('correct=');
    expect(await total()).toEqual([['2031-03-01', 10, 1]]);
    const byOperator = { corrections: [to('a', 8, 'operator')] };
    expect(
      (await operate('POST', `/organizations/${organization.slug}/usage/corrections`, byOperator)).status,
    ).toBe(200);
    expect((await set(tenant, true)).body.mayCorrect).toBe(true);
    expect((await set(tenant)).body.mayCorrect).toBe(true);
    expect((await correct([to('a', 4, 'k')])).status).toBe(200);
    expect((await submit()).status).toBe(303);
    expect(await total()).toEqual([['2031-03-01', 0, 1]]);
  });

  it('is any new one, and one that has itself corrected before an upgrade is not', async () => {
    const made = await operate('PUT', `/organizations/${uuid()}`, { name: 'New' });
    expect([made.status, made.body.mayCorrect]).toEqual([201, false]);
    const [self, other] = [await arrive(), await arrive()];
    for (const { send } of [self, other]) await send('a', { quantity: 10 });
    await self.correct([to('a', 4, 'k')]);
    const path = `/organizations/${other.organization.slug}/usage/corrections`;
    await operate('POST', path, { corrections: [to('a', 4, 'k')] });
    await database.db.orm.update(organizations).set({ mayCorrect: false });
    await database.db.orm.execute(sql.raw(migrationThat('SET "may_correct" = true')));
    const rows = await database.db.orm
      .select({ id: organizations.id })
      .from(organizations)
      .where(eq(organizations.mayCorrect, true));
    const kept = new Set(rows.map(({ id }) => id));
    expect([kept.has(self.orgId), kept.has(other.orgId)]).toEqual([true, false]);
    await database.db.orm.update(organizations).set({ mayCorrect: true });
  });

  it('gets no key with that scope', async () => {
    const tenant = await arrive();
    await set(tenant, false);
    const browser = await ownerOf(tenant.orgId);
    const json = { name: 'desk', livemode: true, scopes: ['usage:correct'] };
    const create = () => browser.send('POST', '/dashboard/api-keys', { json });
    const { status, body } = await create();
    expect([status, body.code, body.errors[0].pointer]).toEqual([400, 'invalid_request', '/scopes/0']);
    const form = () => browser.get('/dashboard/api-keys/new', { accept: 'text/html' });
    expect((await form()).text).not.toContain('usage:correct');
    await set(tenant, true);
    expect((await form()).text).toContain('usage:correct');
    expect((await create()).status).toBe(201);
  });
});

/** The migrations' statement that contains the text. */
function migrationThat(text: string): string {
  const folder = new URL('../../../migrations/', import.meta.url);
  const statements = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .flatMap((name) => readFileSync(new URL(name, folder), 'utf8').split('--> statement-breakpoint'));
  return statements.find((statement) => statement.includes(text))!;
}

describe('windows of limits', () => {
  it('count corrected quantities, to the event, at their edges and ahead of the clock', async () => {
    const { orgId, live, product, send, correct } = await arrive();
    const limits = ['PT1H', 'PT90M', 'calendar_day', 'calendar_month'].map((window) => ({
      quantity: '1000',
      window,
      enforcement: 'block' as const,
    }));
    await database.db.orm.update(entitlements).set({ limits }).where(eq(entitlements.orgId, orgId));
    // The `PT1H` window starts at 11:34 and the `PT90M` window at 11:04.
    await send('out', { quantity: 100, occurredAt: '2031-03-20T11:03:59Z' });
    await send('edge', { quantity: 10, occurredAt: '2031-03-20T11:20:00Z' });
    await send('in', { quantity: 1, occurredAt: '2031-03-20T12:30:00Z' });
    await send('ahead', { quantity: 5, occurredAt: '2031-03-20T12:38:00Z' });
    const read = async () => {
      const { body } = await call(live.secret, `/entitlements/${product.slug}`);
      return body.limits.map(({ used, remaining }: { used: number; remaining: number }) => [
        used,
        1000 - remaining,
      ]);
    };
    expect(await read()).toEqual([
      [1, 6],
      [11, 16],
      [116, 116],
      [116, 116],
    ]);
    await correct([to('out', 300, '1'), to('edge', 20, '2'), to('in', 3, '3'), to('ahead', 7, '4')]);
    expect(await read()).toEqual([
      [3, 10],
      [23, 30],
      [330, 330],
      [330, 330],
    ]);
  });

  it('warn at once even if a correction elsewhere in the month lowered its total', async () => {
    const { orgId, send, correct } = await arrive();
    const limits = [{ quantity: '100', window: 'PT1H', enforcement: 'warn' as const }];
    await database.db.orm.update(entitlements).set({ limits }).where(eq(entitlements.orgId, orgId));
    await send('old', { quantity: 1000, occurredAt: '2031-03-19T00:00:00Z' });
    expect((await send('a', { quantity: 60 })).body.warnings).toEqual([]);
    await correct([to('old', 0, 'void')]);
    expect((await send('b', { quantity: 60 })).body.warnings).toMatchObject([
      { code: 'limit_exceeded', used: 120 },
    ]);
    await correct([to('b', 1, 'less')]);
    expect((await send('c', { quantity: 1 })).body.warnings).toEqual([]);
  });
});

it('reconcile includes corrections when comparing and repairing', async () => {
  const { orgId, send, correct, total, drift } = await arrive();
  await send('a', { quantity: 10, occurredAt: '2031-03-15T00:00:00Z' });
  await send('b', { quantity: 10 });
  await correct([to('a', 3, '1')]);
  await database.db.orm.execute(sql`update usage_totals set quantity = 99 where org_id = ${orgId}`);
  await database.db.orm.execute(sql`delete from usage_hours where org_id = ${orgId}`);
  expect((await drift()).length).toBe(3);
  await repair(asMaintained(database), new TestClock(), { orgId });
  expect(await drift()).toEqual([]);
  expect(await total()).toEqual([['2031-03-01', 13, 2]]);
});

describe('POST /api/usage/corrections refuses', () => {
  it.each([
    [{ corrections: [] }, '/corrections'],
    [{ corrections: 'a' }, '/corrections'],
    [{ corrections: [null] }, '/corrections/0'],
    [{ corrections: [to('a', -1, 'k')] }, '/corrections/0/quantity'],
    [{ corrections: [{ ...to('a', 1, 'k'), quantity: '1' }] }, '/corrections/0/quantity'],
    [{ corrections: [to('a', 1, '')] }, '/corrections/0/correctionKey'],
    [{ corrections: [to('a', 1, 'k'.repeat(256))] }, '/corrections/0/correctionKey'],
    [{ corrections: [to('a\u0000', 1, 'k')] }, '/corrections/0/idempotencyKey'],
    [{ corrections: [to('a', 1, 'k', { reason: '' })] }, '/corrections/0/reason'],
    [{ corrections: [to('a', 1, 'k', { reason: 'x'.repeat(201) })] }, '/corrections/0/reason'],
    [{ corrections: [to('a', 1, 'k', { orgId: 'x' })] }, '/corrections/0/orgId'],
    [
      `{"corrections":[{"idempotencyKey":"a","quantity":${'9'.repeat(101)},"reason":"r","correctionKey":"k"}]}`,
      '/corrections/0/quantity',
    ],
    [
      `{"corrections":[{"idempotencyKey":"a","quantity":1e400,"reason":"r","correctionKey":"k"}]}`,
      '/corrections/0/quantity',
    ],
  ])('%j', async (body, pointer) => {
    const { live } = await arrive();
    const answer = await call(live.secret, '/usage/corrections', body);
    expect([answer.status, answer.body.code, answer.body.errors[0].pointer]).toEqual([
      400,
      'invalid_request',
      pointer,
    ]);
  });

  it('more than 100 corrections, before reading them', async () => {
    const { correct } = await arrive();
    const { status, body } = await correct(Array.from({ length: 101 }, () => ({})));
    expect([status, body.code]).toEqual([413, 'batch_too_large']);
  });

  it('no hostile texts, and keeps them as sent', async () => {
    const { live, send, correct } = await arrive();
    const hostile = `'; drop table usage_events; --{"a","b"}\\ 🚀`;
    await send(hostile, { quantity: 2 });
    expect((await correct([to(hostile, 1, hostile, { reason: hostile })])).status).toBe(200);
    const { body } = await call(live.secret, `/usage/events/${encodeURIComponent(hostile)}`);
    expect(body.corrections).toMatchObject([{ correctionKey: hostile, reason: hostile }]);
  });
});

describe('POST /operator/organizations/{slug}/usage/corrections', () => {
  it('corrects live and test events of its own Organization only', async () => {
    const { orgId, test, organization, send, total } = await arrive();
    await send('live', { quantity: 10 });
    await send('test', { quantity: 10 }, test.secret);
    const corrections = [to('live', 1, '1'), to('test', 2, '2')];
    const other = await createOrganization(database.db);
    expect(
      (await operate('POST', `/organizations/${other.slug}/usage/corrections`, { corrections })).status,
    ).toBe(404);
    expect((await operate('POST', `/organizations/none/usage/corrections`, { corrections })).body.code).toBe(
      'not_found',
    );
    const { status } = await operate('POST', `/organizations/${organization.slug}/usage/corrections`, {
      corrections,
    });
    expect([status, await total(true), await total(false)]).toEqual([
      200,
      [['2031-03-01', 1, 1]],
      [['2031-03-01', 2, 1]],
    ]);
    const [row] = await auditOf(database.db, orgId);
    expect(row).toMatchObject({ action: 'usage.corrected', actor: 'operator' });
  });
});
