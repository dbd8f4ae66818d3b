import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { eq, sql } from 'drizzle-orm';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { selectRows } from '../../../src/core/db/sql.js';
import { archiveMonth, eachOpenMonth, readBack } from '../../../src/metering/archive/archive.js';
import { listArchives } from '../../../src/metering/archive/queries.js';
import { usageHours, usageSubjects } from '../../../src/metering/ingestion/table.js';
import { compare, repair } from '../../../src/metering/reconciliation/reconcile.js';
import { asMaintained } from '../../support/database.js';
import { createKey, createOrganization, uniqueSlug } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
const dir = mkdtempSync(join(tmpdir(), 'gauge-subjects-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
beforeAll(() => {
  service.clock.set('2031-03-20T12:00:00Z');
});

const operate = operatorClient(() => service);
const NONE = { totals: [], hours: [], subjects: [], settlements: [] };
const settings = { name: 'Models', usageMetric: 'calls' };

async function arrive(product: object = { dimensions: ['model'], countsSubjects: true }) {
  const { orm } = database.db;
  const organization = await createOrganization(database.db);
  const slug = uniqueSlug('product');
  const put = (more: object) => operate('PUT', `/products/${slug}`, { ...settings, ...more });
  expect((await put(product)).status).toBe(201);
  const entitlement = `/organizations/${organization.slug}/entitlements/${slug}`;
  await operate('PUT', entitlement, { kind: 'live' });
  const { secret } = await createKey(database.db, organization.id, {
    scopes: ['usage:write', 'usage:read', 'usage:correct', 'entitlements:read'],
  });
  const call = async (method: string, path: string, body?: object, headers = {}) => {
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', ...headers },
      ...(body ? { body: JSON.stringify(body) } : {}),
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  const drift = () => compare(orm, { orgId: organization.id });
  const sums = async () => {
    const hours = await selectRows<{ name: string; quantity: string }>(
      orm,
      sql`select dimensions as name, trim_scale(sum(quantity))::text as quantity from usage_hours where org_id = ${organization.id}::uuid group by 1 order by 1`,
    );
    const subjects = await selectRows<{ name: string; quantity: string }>(
      orm,
      sql`select subject as name, trim_scale(sum(quantity))::text as quantity from usage_subjects where org_id = ${organization.id}::uuid group by 1 order by 1`,
    );
    const toText = (rows: { name: string; quantity: string }[]) =>
      rows.map((row) => `${row.name} ${row.quantity}`);
    return { hours: toText(hours), subjects: toText(subjects) };
  };
  return {
    organization,
    slug,
    put,
    entitlement,
    call,
    drift,
    sums,
    event: (key: string, more: object = {}) => usageEvent(slug, key, more),
    send: (...events: object[]) => sendUsage(service.url, secret, events),
  };
}

it('a correction moves the sums of its event’s subject and dimensions', async () => {
  const { event, send, call, sums, drift } = await arrive();
  await send(
    event('a', { subject: 'ann', dimensions: { model: 'large' }, quantity: 10 }),
    event('b', { quantity: 5 }),
  );
  const correct = (idempotencyKey: string, quantity: number) =>
    call('POST', '/api/usage/corrections', {
      corrections: [
        { idempotencyKey, quantity, reason: 'Wrong', correctionKey: `${idempotencyKey} ${quantity}` },
      ],
    });
  expect(await correct('a', 4)).toMatchObject({ status: 200, body: { applied: 1 } });
  expect(await correct('b', 0)).toMatchObject({ status: 200 });
  expect(await correct('a', 12.5)).toMatchObject({ status: 200 });
  expect(await sums()).toEqual({ hours: [' 0', 'large 12.5'], subjects: ['ann 12.5'] });
  expect(await call('GET', '/api/usage/events/a')).toMatchObject({
    body: { subject: 'ann', dimensions: { model: 'large' }, quantity: 10 },
  });
  expect(Object.keys((await call('GET', '/api/usage/events/b')).body)).not.toContain('subject');
  expect(await drift()).toEqual(NONE);
});

it('a dimension that is added later changes no recorded combination, and the order of names cannot change', async () => {
  const { event, send, put, sums, call, drift } = await arrive();
  await send(event('a', { dimensions: { model: 'large' } }));
  expect(await put({ dimensions: ['model', 'region'] })).toMatchObject({
    status: 200,
    body: { dimensions: ['model', 'region'], countsSubjects: true },
  });
  expect(await put({})).toMatchObject({ status: 200, body: { dimensions: ['model', 'region'] } });
  expect((await send(event('a', { dimensions: { model: 'large' } }))).body).toMatchObject({
    deduped: 1,
    warnings: [],
  });
  await send(
    event('b', { dimensions: { model: 'large' } }),
    event('c', { dimensions: { region: 'eu', model: 'large' } }),
  );
  expect((await sums()).hours).toEqual(['large 2', 'large\u001feu 1']);
  expect((await call('GET', '/api/usage/events/c')).body.dimensions).toEqual({
    model: 'large',
    region: 'eu',
  });
  for (const [more, field] of [
    [{ dimensions: ['region', 'model'] }, 'dimensions'],
    [{ dimensions: ['model'] }, 'dimensions'],
    [{ dimensions: ['model', 'region', 'model'] }, 'dimensions'],
    [{ dimensions: ['model', 'region', 'a', 'b', 'c'] }, 'dimensions'],
    [{ dimensions: ['model', 'region', 'subject'] }, 'dimensions/2'],
    [{ dimensions: ['model', 'region', '__proto__'] }, 'dimensions/2'],
    [{ countsSubjects: false }, 'countsSubjects'],
  ] as const)
    expect(await put(more)).toMatchObject({ status: 400, body: { errors: [{ pointer: `/${field}` }] } });
  expect(await drift()).toEqual(NONE);
});

it('subjects of an existing product count from a minute after the change, and the sums stay equal', async () => {
  const { event, send, put, sums, call, drift } = await arrive({});
  await send(event('a', { subject: 'ann', quantity: 2 }));
  expect(await put({ countsSubjects: true })).toMatchObject({ status: 200, body: { countsSubjects: true } });
  service.clock.advance(59_999);
  await send(event('b', { subject: 'ann', quantity: 4 }));
  expect((await sums()).subjects).toEqual([]);
  service.clock.advance(1);
  await send(event('c', { subject: 'ann', quantity: 8 }));
  await call('POST', '/api/usage/corrections', {
    corrections: ['a', 'c'].map((key) => ({
      idempotencyKey: key,
      quantity: 1,
      reason: 'Wrong',
      correctionKey: key,
    })),
  });
  expect((await sums()).subjects).toEqual(['ann 1']);
  expect(await drift()).toEqual(NONE);
});

it('a limit per subject needs a product that counts subjects, and an hour', async () => {
  const plain = await arrive({});
  const limits = [{ quantity: 5, window: 'calendar_day', per: 'subject' }];
  expect(await operate('PUT', plain.entitlement, { kind: 'live', limits })).toMatchObject({
    status: 400,
    body: { errors: [{ pointer: '/limits/0/per' }] },
  });
  const { entitlement, call, slug } = await arrive();
  const tooShort = [{ ...limits[0], window: 'PT59M' }];
  expect(await operate('PUT', entitlement, { kind: 'live', limits: tooShort })).toMatchObject({
    status: 400,
    body: { errors: [{ pointer: '/limits/0/window' }] },
  });
  const both = [...limits, { quantity: 9, window: 'PT1H' }];
  expect(await operate('PUT', entitlement, { kind: 'live', limits: both })).toMatchObject({
    status: 200,
    body: { limits: [{ ...limits[0], enforcement: 'warn' }, { quantity: 9 }] },
  });
  expect(await call('GET', `/api/entitlements/${slug}`)).toMatchObject({
    body: {
      limits: [{ quantity: 9, used: 0 }],
      limitsPerSubject: [{ ...limits[0], enforcement: 'warn' }],
    },
  });
});

it('an archived month keeps its sums, and its file has the subjects and dimensions', async () => {
  const { organization, event, send, sums, drift } = await arrive();
  await send(
    event('a', { subject: 'ann', dimensions: { model: 'large' }, quantity: 3 }),
    event('b', { dimensions: { model: 'small' } }),
    event('c'),
  );
  // Simulates a list of combinations that was already full before the second event.
  await database.db.orm.execute(
    sql`delete from usage_combinations where org_id = ${organization.id}::uuid and dimensions = 'small'`,
  );
  await repair(asMaintained(database), service.clock, { orgId: organization.id });
  const before = await sums();
  expect(before.hours).toEqual([' 1', '\u001e 1', 'large 3']);
  expect(await drift()).toEqual(NONE);
  const deps = {
    orm: database.db.orm,
    clock: service.clock,
    dir,
    chunkSize: 2,
    rest: 0,
    signal: new AbortController().signal,
    onEvents: () => undefined,
  };
  for await (const month of eachOpenMonth(database.db.orm, '2031-04-01', organization.id))
    await archiveMonth(deps, month);
  const [archive] = await listArchives(database.db.orm, organization.id);
  await readBack(deps, archive!);
  const lines = gunzipSync(readFileSync(join(dir, archive!.file)))
    .toString()
    .trimEnd()
    .split('\n');
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { idempotencyKey: 'a', subject: 'ann', dimensions: 'large' },
    { idempotencyKey: 'b', dimensions: 'small' },
    { idempotencyKey: 'c' },
  ]);
  expect(lines[2]).not.toMatch(/subject|dimensions/);
  expect(await sums()).toEqual(before);
  expect(await drift()).toEqual(NONE);
});

it('wrong sums of subjects and combinations are found and repaired', async () => {
  const { organization, event, send, drift, sums } = await arrive();
  await send(event('a', { subject: 'ann', dimensions: { model: 'large' }, quantity: 3 }));
  const { orm } = database.db;
  await orm.update(usageSubjects).set({ quantity: '9' }).where(eq(usageSubjects.orgId, organization.id));
  await orm.update(usageHours).set({ dimensions: 'small' }).where(eq(usageHours.orgId, organization.id));
  expect(await drift()).toMatchObject({
    totals: [],
    hours: [{ part: 'large' }, { part: 'small' }],
    subjects: [{ part: 'ann', recordedQuantity: '9', actualQuantity: '3' }],
  });
  expect(await repair(asMaintained(database), service.clock, { orgId: organization.id })).toMatchObject({
    hours: 2,
    subjects: 1,
  });
  expect(await sums()).toEqual({ hours: ['large 3'], subjects: ['ann 3'] });
  expect(await drift()).toEqual(NONE);
});

it('CloudEvents carry the subject and dimensions in their data', async () => {
  const { slug, call, drift } = await arrive();
  const cloudEvent = {
    specversion: '1.0',
    id: '1',
    source: 'test',
    type: 'calls',
    subject: slug,
    data: { subject: 'ann', dimensions: { model: 'large' } },
  };
  const response = await callAs('application/cloudevents+json', cloudEvent);
  expect(response).toMatchObject({ status: 202, body: { accepted: 1 } });
  const wrong = await callAs('application/cloudevents-batch+json', [
    { ...cloudEvent, id: '2', data: { dimensions: { size: 'a' } } },
    { ...cloudEvent, id: '3' },
  ]);
  expect(wrong).toMatchObject({
    status: 422,
    body: { errors: [{ index: 0, pointer: '/0/data/dimensions' }] },
  });
  expect((await call('GET', '/api/usage/events/test%2F1')).body).toMatchObject({
    subject: 'ann',
    dimensions: { model: 'large' },
  });
  expect(await drift()).toEqual(NONE);

  async function callAs(type: string, body: object) {
    return call('POST', '/api/usage/events', body, { 'content-type': type });
  }
});
