import { sql } from 'drizzle-orm';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { makeFaulty, type FaultyDatabase } from '../../support/faulty-database.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent, type SendOptions } from '../support/usage.js';
import { useDatabase, useServiceOn } from '../../support/use.js';

const database = useDatabase();
let faulty: FaultyDatabase;
let texts: string[] = [];
beforeAll(() => {
  faulty = makeFaulty(database.db);
  faulty.before = ({ name }) => {
    if (name.startsWith('usage_ingest') || name.startsWith('usage_combinations')) texts.push(name);
  };
});
beforeEach(() => void (texts = []));
const service = useServiceOn(() => faulty.db);

const NONE = { totals: [], hours: [], subjects: [], settlements: [] };

async function createTenant(values: Parameters<typeof createProduct>[1] = {}) {
  const { db } = database;
  const organization = await createOrganization(db);
  const product = await createProduct(db, {
    dimensions: ['model', 'region'],
    subjectsSince: new Date(0),
    ...values,
  });
  await grant(db, organization.id, product.id);
  const { secret, id: keyId } = await createKey(db, organization.id);
  let sent = 0;
  const rows = <T>(query: ReturnType<typeof sql>) => selectRows<T>(db.orm, query);
  return {
    organization,
    product,
    secret,
    keyId,
    event: (more: object = {}) => usageEvent(product.slug, `e${sent++}`, more),
    send: (events: unknown[], options: SendOptions = {}) => sendUsage(service.url, secret, events, options),
    hours: () =>
      rows<{ dimensions: string; quantity: string; events: number }>(
        sql`select dimensions, trim_scale(sum(quantity))::text as quantity, sum(events)::int as events from usage_hours
          where org_id = ${organization.id}::uuid group by 1 order by 1`,
      ),
    subjects: () =>
      rows<{ subject: string; quantity: string; events: number }>(
        sql`select subject, trim_scale(sum(quantity))::text as quantity, sum(events)::int as events from usage_subjects
          where org_id = ${organization.id}::uuid group by 1 order by 1`,
      ),
    drift: () => compare(db.orm, { orgId: organization.id }),
  };
}

const post = async (path: string, secret: string, body: unknown) => {
  const response = await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

it('events count by subject and by combination of dimensions, in one commit with the totals', async () => {
  const { event, send, hours, subjects, drift } = await createTenant();
  const { status, body } = await send([
    event({ subject: 'ann', dimensions: { model: 'large', region: 'eu' }, quantity: 2 }),
    event({ subject: 'ann', dimensions: { region: 'eu', model: 'large' } }),
    event({ subject: 'ben', dimensions: { region: 'us' } }),
    event({ dimensions: { model: 'large' }, quantity: 0.5 }),
    event({ dimensions: {} }),
  ]);
  expect({ status, body }).toEqual({ status: 202, body: { accepted: 5, deduped: 0, warnings: [] } });
  expect(await hours()).toEqual([
    { dimensions: '', quantity: '1', events: 1 },
    { dimensions: '\u001fus', quantity: '1', events: 1 },
    { dimensions: 'large', quantity: '0.5', events: 1 },
    { dimensions: 'large\u001feu', quantity: '3', events: 2 },
  ]);
  expect(await subjects()).toEqual([
    { subject: 'ann', quantity: '3', events: 2 },
    { subject: 'ben', quantity: '1', events: 1 },
  ]);
  expect(await drift()).toEqual(NONE);
});

it('events without subject and dimensions keep their text, and a new combination is listed once', async () => {
  const { event, send } = await createTenant();
  const textsOf = async (more: object) => {
    texts = [];
    expect(await send([event(more)])).toMatchObject({ status: 202 });
    return texts;
  };
  expect(await textsOf({})).toEqual(['usage_ingest_new']);
  expect(await textsOf({ subject: 'ann' })).toEqual(['usage_ingest_subjects_new']);
  const dimensions = { model: 'small' };
  expect(await textsOf({ dimensions })).toEqual([
    'usage_ingest_dimensions_new',
    'usage_combinations_list',
    'usage_ingest_dimensions_new',
  ]);
  expect(await textsOf({ dimensions })).toEqual(['usage_ingest_dimensions_new']);
  expect(await textsOf({ subject: 'ann', dimensions })).toEqual(['usage_ingest_subjects_dimensions_new']);
});

describe('a repeat', () => {
  it.each([
    [{ subject: 'ann' }, { subject: 'ben' }],
    [{ subject: 'ann' }, {}],
    [{}, { dimensions: { model: 'a' } }],
    [{ dimensions: { model: 'a' } }, { dimensions: { region: 'a' } }],
  ])('of %j as %j is a mismatch', async (first, second) => {
    const { event, send, drift } = await createTenant();
    const one = event(first);
    await send([one]);
    expect(await send([{ ...usageEvent(one.productSlug, one.idempotencyKey), ...second }])).toMatchObject({
      body: { accepted: 0, deduped: 1, warnings: [{ code: 'duplicate_mismatch', index: 0 }] },
    });
    expect(await send([one])).toMatchObject({ body: { accepted: 0, deduped: 1, warnings: [] } });
    expect(await drift()).toEqual(NONE);
  });
});

it('a dimension that the product does not declare refuses the whole batch, or only its event if the batch is lenient', async () => {
  const { event, send, hours } = await createTenant();
  for (const dimensions of [
    { model: 'a', size: 'b' },
    JSON.parse('{"__proto__":"a"}') as object,
    { constructor: 'a' },
  ]) {
    const refused = await send([event(), event({ dimensions })]);
    expect(refused).toMatchObject({
      status: 422,
      body: {
        code: 'unknown_dimension',
        errors: [{ index: 1, pointer: '/events/1/dimensions', code: 'unknown_dimension' }],
      },
    });
  }
  expect(await hours()).toEqual([]);
  const { body } = await send([event(), event({ dimensions: { size: 'b' } })], { lenient: true });
  expect(body).toMatchObject({ accepted: 1, rejected: [{ index: 1, code: 'unknown_dimension' }] });
  const plain = await createTenant({ dimensions: [], subjectsSince: null });
  expect((await plain.send([plain.event({ dimensions: { model: 'a' } })])).body).toMatchObject({
    code: 'unknown_dimension',
    detail: expect.stringContaining('has no dimension model. It has none.'),
  });
});

it.each([
  { subject: '' },
  { subject: 'x'.repeat(129) },
  { subject: 'a\nb' },
  { subject: 7 },
  { dimensions: [] },
  { dimensions: { model: '' } },
  { dimensions: { model: 'x'.repeat(65) } },
  { dimensions: { model: 'a\u001fb' } },
  { dimensions: { model: 1 } },
  { dimensions: { a: '1', b: '2', c: '3', d: '4', e: '5' } },
])('%j is not valid', async (more) => {
  const { event, send, hours } = await createTenant();
  const [field] = Object.keys(more);
  expect(await send([event(more)])).toMatchObject({
    status: 400,
    body: { code: 'invalid_request', errors: [{ pointer: `/events/0/${field}` }] },
  });
  expect(await hours()).toEqual([]);
});

it('the longest values, emoji and __proto__ as a value are kept', async () => {
  const { event, send, hours, subjects, drift } = await createTenant();
  const model = '😀'.repeat(64);
  const events = [
    event({ subject: '😀'.repeat(128), dimensions: { model } }),
    event({ subject: '__proto__', dimensions: { model: '__proto__', region: 'NULL' } }),
  ];
  expect(await send(events)).toMatchObject({ status: 202 });
  expect((await hours()).map(({ dimensions }) => dimensions)).toEqual(['__proto__\u001fNULL', model]);
  expect((await subjects()).map(({ subject }) => subject)).toEqual(['__proto__', '😀'.repeat(128)]);
  expect(await drift()).toEqual(NONE);
});

it('a product that does not count subjects keeps them on its events only', async () => {
  const { event, send, subjects, drift, organization } = await createTenant({ subjectsSince: null });
  await send([event({ subject: 'ann' })]);
  expect(await subjects()).toEqual([]);
  const [row] = await selectRows(
    database.db.orm,
    sql`select subject from usage_events where org_id = ${organization.id}::uuid`,
  );
  expect(row).toEqual({ subject: 'ann' });
  expect(await drift()).toEqual(NONE);
});

it('the 501st combination of a month counts as other, with a warning, and in every total', async () => {
  const { event, send, hours, drift } = await createTenant();
  const batch = Array.from({ length: 500 }, (_, i) => event({ dimensions: { model: `m${i}` } }));
  expect((await send(batch)).body).toEqual({ accepted: 500, deduped: 0, warnings: [] });
  const more = [
    event({ dimensions: { model: 'm499' } }),
    event({ dimensions: { model: 'm500' }, quantity: 3 }),
    event({ dimensions: { model: 'm501' } }),
    event(),
  ];
  const { body } = await send(more);
  expect(body).toMatchObject({
    accepted: 4,
    warnings: [{ code: 'too_many_dimension_values', limit: 500, productSlug: more[0]!.productSlug }],
  });
  expect((await send([event({ dimensions: { model: 'm1' } })])).body.warnings).toEqual([]);
  const sums = await hours();
  expect(sums).toHaveLength(502);
  expect(sums.slice(0, 2)).toEqual([
    { dimensions: '', quantity: '1', events: 1 },
    { dimensions: '\u001e', quantity: '4', events: 2 },
  ]);
  expect(await drift()).toEqual(NONE);
});

it('a dry run lists no combination', async () => {
  const { event, send, organization } = await createTenant();
  const one = event({ dimensions: { model: 'a' }, subject: 'ann' });
  expect((await send([one], { dryRun: true })).body).toMatchObject({ accepted: 1, warnings: [] });
  const listed = await selectRows(
    database.db.orm,
    sql`select 1 from usage_combinations where org_id = ${organization.id}::uuid`,
  );
  expect(listed).toEqual([]);
  expect((await send([one])).body).toMatchObject({ accepted: 1 });
});

it('concurrent senders of new combinations lose nothing', async () => {
  const { event, send, hours, drift } = await createTenant();
  const batches = Array.from({ length: 20 }, (_, b) =>
    Array.from({ length: 30 }, (_, i) =>
      event({ dimensions: { model: `m${(b * 7 + i) % 60}` }, subject: `s${i}` }),
    ),
  );
  const replies = await Promise.all(batches.map((batch) => send(batch)));
  expect(replies.map(({ body }) => body.accepted as number)).toEqual(batches.map(() => 30));
  expect((await hours()).reduce((sum, { events }) => sum + events, 0)).toBe(600);
  expect(await drift()).toEqual(NONE);
});

it('a cap and limits are reported once for a product with several combinations', async () => {
  const { event, send, product, organization } = await createTenant({ unitCap: '2' });
  await database.db.orm
    .execute(sql`update entitlements set limits = '[{"quantity": "1", "window": "calendar_day", "enforcement": "warn"}]'
    where org_id = ${organization.id}::uuid`);
  const events = ['a', 'b', 'c'].map((model) => event({ dimensions: { model } }));
  const { body } = await send(events);
  expect(body.warnings).toMatchObject([
    { code: 'unit_cap_exceeded', productSlug: product.slug, used: 3 },
    { code: 'limit_exceeded', productSlug: product.slug, used: 3 },
  ]);
});

describe('limits per subject', () => {
  const limits = [{ quantity: '10', window: 'PT1H', enforcement: 'block' as const, per: 'subject' as const }];

  async function createLimited(more: typeof limits = limits) {
    const tenant = await createTenant();
    await database.db.orm.execute(
      sql`update entitlements set limits = ${JSON.stringify(more)}::jsonb where org_id = ${tenant.organization.id}::uuid`,
    );
    const { secret } = await createKey(database.db, tenant.organization.id, {
      scopes: ['usage:write', 'entitlements:read'],
    });
    const { slug } = tenant.product;
    let n = 0;
    return {
      ...tenant,
      reserve: (quantity: number, more: object = {}) =>
        post('/api/usage/reservations', secret, {
          productSlug: slug,
          metric: 'calls',
          quantity,
          idempotencyKey: `r${n++}`,
          ...more,
        }),
      settle: (id: unknown, body: object = {}) =>
        post(`/api/usage/reservations/${String(id)}/settle`, secret, body),
      check: (item: object) =>
        post('/api/entitlements/check', secret, { items: [{ productSlug: slug, ...item }] }),
    };
  }

  it('warn for the subject that exceeds them alone', async () => {
    const { event, send } = await createLimited();
    expect(
      (await send([event({ subject: 'ann', quantity: 10 }), event({ quantity: 99 })])).body.warnings,
    ).toEqual([]);
    const { body } = await send([event({ subject: 'ann' }), event({ subject: 'ben', quantity: 10 })]);
    expect(body.warnings).toEqual([
      {
        code: 'limit_exceeded',
        productSlug: expect.any(String),
        metric: 'calls',
        limit: { quantity: 10, window: 'PT1H', enforcement: 'block', per: 'subject' },
        subject: 'ann',
        used: 11,
      },
    ]);
  });

  it('hold reservations of each subject separately, and those without a subject not at all', async () => {
    const { reserve, settle, subjects, hours, drift } = await createLimited();
    const first = await reserve(6, { subject: 'ann', dimensions: { model: 'large' } });
    expect(first).toMatchObject({
      status: 201,
      body: {
        reservation: { subject: 'ann', dimensions: { model: 'large' } },
        limits: [{ quantity: 10, per: 'subject', subject: 'ann', used: 0, held: 6, remaining: 4 }],
      },
    });
    expect(await reserve(5, { subject: 'ann' })).toMatchObject({
      status: 409,
      body: { code: 'limit_reached', limit: { subject: 'ann', held: 6, remaining: 4 } },
    });
    expect(await reserve(10, { subject: 'ben' })).toMatchObject({ status: 201 });
    expect(await reserve(1000)).toMatchObject({ status: 201, body: { limits: [] } });
    const { id } = first.body.reservation as { id: string };
    expect(await settle(id, { quantity: 7 })).toMatchObject({
      status: 200,
      body: { accepted: 1, reservation: { subject: 'ann', dimensions: { model: 'large' } } },
    });
    expect(await subjects()).toEqual([{ subject: 'ann', quantity: '7', events: 1 }]);
    expect(await hours()).toEqual([{ dimensions: 'large', quantity: '7', events: 1 }]);
    expect(await reserve(4, { subject: 'ann' })).toMatchObject({ status: 409, body: { limit: { used: 7 } } });
    expect(await reserve(3, { subject: 'ann' })).toMatchObject({ status: 201 });
    expect(await drift()).toEqual(NONE);
  });

  it('never hold more than there is, for subjects and the whole Organization, when many ask at once', async () => {
    const both = [...limits, { quantity: '25', window: 'calendar_month', enforcement: 'block' as const }];
    const { reserve } = await createLimited(both as typeof limits);
    const replies = await Promise.all(
      Array.from({ length: 60 }, (_, i) => reserve(1, i % 4 === 3 ? {} : { subject: `s${i % 4}` })),
    );
    const held = replies.filter(({ status }) => status === 201);
    expect(held).toHaveLength(25);
    for (const subject of ['s0', 's1', 's2'])
      expect(
        held.filter(({ body }) => (body.reservation as { subject?: string }).subject === subject).length,
      ).toBeLessThanOrEqual(10);
  });

  it('are checked for an item that names a subject', async () => {
    const { check, event, send } = await createLimited();
    await send([event({ subject: 'ann', quantity: 8 })]);
    const results = async (item: object) => ((await check(item)).body.results as object[])[0];
    expect(await results({ subject: 'ann', quantity: 2 })).toMatchObject({
      allowed: true,
      limits: [{ subject: 'ann', used: 8, remaining: 2 }],
    });
    expect(await results({ subject: 'ann', quantity: 3 })).toMatchObject({
      allowed: false,
      reason: 'limit_reached',
    });
    expect(await results({ subject: 'ben', quantity: 3 })).toMatchObject({ allowed: true });
    expect(await results({ quantity: 3000 })).toMatchObject({ allowed: true, limits: [] });
    expect(await check({ dimensions: { size: 'a' } })).toMatchObject({
      status: 422,
      body: { code: 'unknown_dimension', errors: [{ pointer: '/items/0/dimensions' }] },
    });
  });

  it('have room again when the five minutes of the usage have left a rolling window', async () => {
    const { reserve, event, send } = await createLimited();
    await send([event({ subject: 'ann', quantity: 10 })]);
    expect(await reserve(1, { subject: 'ann' })).toMatchObject({ status: 409 });
    const start = Math.floor(service.clock.now() / 300_000) * 300_000;
    service.clock.advance(start + 3_600_000 + 300_000 - service.clock.now() - 1);
    expect(await reserve(1, { subject: 'ann' })).toMatchObject({ status: 409 });
    service.clock.advance(1);
    expect(await reserve(1, { subject: 'ann' })).toMatchObject({ status: 201 });
  });

  it('a repeated reservation must name the same subject and dimensions', async () => {
    const { reserve } = await createLimited();
    const body = { idempotencyKey: 'same', subject: 'ann', dimensions: { model: 'a' } };
    expect(await reserve(1, body)).toMatchObject({ status: 201 });
    expect(await reserve(1, body)).toMatchObject({ status: 200 });
    for (const other of [{ subject: 'ben' }, { dimensions: { model: 'b' } }, { dimensions: {} }])
      expect(await reserve(1, { ...body, ...other })).toMatchObject({
        status: 409,
        body: { code: 'idempotency_conflict' },
      });
    expect(await reserve(1, { dimensions: { size: 'a' } })).toMatchObject({
      status: 422,
      body: { code: 'unknown_dimension', errors: [{ pointer: '/dimensions' }] },
    });
  });
});
