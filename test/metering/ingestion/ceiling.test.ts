import { sql } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import type { Run } from '../../../src/core/db/client.js';
import type { ErrorPlace } from '../../../src/core/errors.js';
import type { RejectedEvent } from '../../../src/metering/ingestion/answer.js';
import { toBatch } from '../../../src/metering/ingestion/batch.js';
import { recordBatches } from '../../../src/metering/ingestion/flush.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();

/** Creates an Organization with a product whose maximum quantity per event is 10, and one with the default maximum. */
async function setUp() {
  const organization = await createOrganization(database.db);
  const low = await createProduct(database.db, { maxQuantity: '10' });
  const usual = await createProduct(database.db);
  for (const { id } of [low, usual]) await grant(database.db, organization.id, id);
  const key = await createKey(database.db, organization.id);
  const event = (idempotencyKey: string, quantity: number, product = low) => ({
    productSlug: product.slug,
    metric: 'calls',
    idempotencyKey,
    quantity,
  });
  return { organization, low, usual, key, event };
}

async function send(secret: string, events: unknown[] | string, { prefer = '', query = '' } = {}) {
  const response = await fetch(`${service.url}/api/usage/events${query}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      ...(prefer ? { prefer } : {}),
    },
    body: typeof events === 'string' ? events : JSON.stringify({ events }),
  });
  return { status: response.status, body: (await response.json()) as Record<string, any> };
}

async function recorded(orgId: string) {
  const { rows } = (await database.db.orm.execute(sql`
    select (select coalesce(sum(quantity), 0)::text from usage_events where org_id = ${orgId}) as events,
      (select coalesce(sum(quantity), 0)::text from usage_totals where org_id = ${orgId}) as totals,
      (select coalesce(sum(quantity), 0)::text from usage_hours where org_id = ${orgId}) as hours`)) as {
    rows: { events: string; totals: string; hours: string }[];
  };
  const { events, totals, hours } = rows[0]!;
  expect([totals, hours]).toEqual([events, events]);
  return Number(events);
}

it("an event above its product's ceiling refuses the batch, and every broken rule is listed", async () => {
  const { organization, low, usual, key, event } = await setUp();
  const answer = await send(key.secret, [
    event('a', 10),
    { ...event('b', 10.5), occurredAt: '2020-01-01T00:00:00Z' },
    event('c', 1e15, usual),
    event('d', 2e15, usual),
    event('e', 11),
  ]);
  expect(answer.status).toBe(422);
  expect(answer.body).toMatchObject({ code: 'timestamp_out_of_range' });
  expect(answer.body.errors.map(({ pointer, code }: ErrorPlace) => [pointer, code])).toEqual([
    ['/events/1/occurredAt', 'timestamp_out_of_range'],
    ['/events/1/quantity', 'quantity_out_of_range'],
    ['/events/3/quantity', 'quantity_out_of_range'],
    ['/events/4/quantity', 'quantity_out_of_range'],
  ]);
  expect(answer.body.errors[3].detail).toBe(`An event of the product ${low.slug} can count at most 10.`);
  expect(await send(key.secret, [event('a', 10), event('b', 11)])).toMatchObject({
    status: 422,
    body: { code: 'quantity_out_of_range', errors: [{ index: 1, pointer: '/events/1/quantity' }] },
  });
  expect(await recorded(organization.id)).toBe(0);
  expect((await send(key.secret, [event('a', 10), event('c', 1e15, usual)])).status).toBe(202);
});

it('compares exactly where a double would not', async () => {
  const { key, usual } = await setUp();
  const body = (quantity: string) =>
    `{"events":[{"productSlug":"${usual.slug}","metric":"calls","idempotencyKey":"k ${quantity}","quantity":${quantity}}]}`;
  const status = async (quantity: string) => (await send(key.secret, body(quantity))).status;
  expect(await status('1000000000000000.0000000000')).toBe(202);
  expect(await status('1000000000000000.0000000001')).toBe(422);
  expect(await status('10000000000000000e-1')).toBe(202);
  expect(await status('999999999999999.99999999999')).toBe(202);
  expect(await status('1e300')).toBe(422);
});

it('lenient handling excludes only that event, whatever the other events are', async () => {
  const { organization, usual, key, event } = await setUp();
  const events = [
    event('a', 3),
    event('b', 11),
    event('c', 4, usual),
    event('a', 3),
    event('d', 1e16, usual),
  ];
  const answer = await send(key.secret, events, { prefer: 'handling=lenient' });
  expect(answer).toMatchObject({ status: 202, body: { accepted: 2, deduped: 1, warnings: [] } });
  expect(answer.body.rejected.map(({ index, code }: RejectedEvent) => [index, code])).toEqual([
    [1, 'quantity_out_of_range'],
    [4, 'quantity_out_of_range'],
  ]);
  expect(await recorded(organization.id)).toBe(7);
  expect((await send(key.secret, events, { prefer: 'handling=lenient' })).body).toMatchObject({
    accepted: 0,
    deduped: 3,
  });
});

it('a dry run gives the same answer', async () => {
  const { organization, key, event } = await setUp();
  const events = [event('a', 3), event('b', 11)];
  const query = '?dryRun=true';
  expect((await send(key.secret, events, { query })).body.code).toBe('quantity_out_of_range');
  expect((await send(key.secret, events, { query, prefer: 'handling=lenient' })).body).toMatchObject({
    accepted: 1,
    rejected: [{ index: 1 }],
  });
  expect(await recorded(organization.id)).toBe(0);
});

it('a batch above the ceiling does not affect others in the same flush', async () => {
  const { organization, usual, key, event } = await setUp();
  const other = await setUp();
  const nowMs = service.clock.now();
  const batch = (events: ReturnType<typeof event>[], isLenient = false, secret = key.secret) =>
    toBatch({
      events,
      exactQuantities: new Map(),
      hashedSecret: hashSecret(secret),
      isLenient,
      receivedAtMs: nowMs,
      bytes: 1,
    });
  let statements = 0;
  const run: Run = async (template, values) => {
    statements++;
    return (await database.db.shards.locate(hashSecret(key.secret))).run(template, values);
  };
  const flush = [
    batch([event('a', 1)]),
    batch([event('b', 11), event('c', 1)]),
    batch([event('d', 2)]),
    batch([event('e', 4), event('f', 12)], true),
    batch([event('g', 8), event('h', 16, usual)]),
    batch([event('i', 32, usual), event('j', 99)], true),
    batch([other.event('k', 5)], false, other.key.secret),
  ];
  const outcomes = await recordBatches(run, flush, nowMs);
  expect(outcomes.map(({ aboveCeiling }) => [...aboveCeiling])).toEqual([
    [],
    [[0, '10']],
    [],
    [[1, '10']],
    [],
    [[1, '10']],
    [],
  ]);
  expect(outcomes.flatMap(({ repeats }) => repeats)).toEqual([]);
  expect(await recorded(organization.id)).toBe(1 + 2 + 4 + 8 + 16 + 32);
  expect(await recorded(other.organization.id)).toBe(5);
  expect(statements).toBe(2);
  statements = 0;
  await recordBatches(run, [batch([event('l', 1)]), batch([event('m', 10)])], nowMs);
  expect(statements).toBe(1);
});

it('a new ceiling applies to the next request, and 40 concurrent senders each get their own answer', async () => {
  const { organization, low, key, event } = await setUp();
  await database.db.orm.execute(sql`update products set max_quantity = 5 where id = ${low.id}`);
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, i) => send(key.secret, [event(`p${i}`, i % 4 === 0 ? 6 : 5)])),
  );
  expect(answers.map(({ status }) => status)).toEqual(
    Array.from({ length: 40 }, (_, i) => (i % 4 === 0 ? 422 : 202)),
  );
  for (const { status, body } of answers) if (status === 202) expect(body.accepted).toBe(1);
  expect(await recorded(organization.id)).toBe(150);
});
