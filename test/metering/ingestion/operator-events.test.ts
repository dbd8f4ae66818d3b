import { sql } from 'drizzle-orm';
import { beforeAll, expect, it } from 'vitest';
import { auditLog } from '../../../src/accounts/audit/table.js';
import { selectRows } from '../../../src/core/db/sql.js';
import { DAY_MS } from '../../../src/core/time.js';
import { OPERATOR_KEY_ID, usageArchives } from '../../../src/metering/ingestion/table.js';
import { compare } from '../../../src/metering/reconciliation/reconcile.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { createListener, readWebhookMessages } from '../../support/webhook-messages.js';
import { useService } from '../../support/use.js';
import { addGrant } from '../support/credits.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';

const { database, service } = useService();
const operate = operatorClient(() => service);
const NONE = { totals: [], hours: [], subjects: [], settlements: [] };
const now = '2031-03-20T12:00:00.000Z';
const daysAgo = (days: number) => new Date(Date.parse(now) - days * DAY_MS).toISOString();
beforeAll(() => {
  service.clock.set(now);
});

async function arrive(product: object = {}) {
  const { db } = database;
  const tenant = await createTenant(db);
  const {
    organization,
    product: { slug },
  } = tenant;
  const settings = { name: 'Calls', usageMetric: 'calls', ...product };
  expect((await operate('PUT', `/products/${slug}`, settings)).status).toBe(200);
  const reader = await createKey(db, organization.id, { scopes: ['usage:read', 'entitlements:read'] });
  const send = (events: object[], query = '', headers = {}) =>
    operate('POST', `/organizations/${organization.slug}/usage/events${query}`, { events }, headers);
  const read = async (path: string) => {
    const headers = { authorization: `Bearer ${reader.secret}` };
    return (await fetch(`${service.url}/api${path}`, { headers })).json() as Promise<Record<string, any>>;
  };
  const event = (key: string, days: number, more: object = {}) =>
    usageEvent(slug, key, { occurredAt: daysAgo(days), ...more });
  const month = async (from: string, to: string, more = '') =>
    (await read(`/usage?from=${from}&to=${to}&granularity=month${more}`)).series.map(
      (one: { total: number }) => one.total,
    );
  const drift = () => compare(db.orm, { orgId: organization.id });
  return { ...tenant, slug, send, read, event, month, drift };
}

it('an old event is counted once, in its own month, before the answer, whoever repeats it', async () => {
  const { organization, send, event, read, month, key, drift } = await arrive();
  const old = event('a', 60, { quantity: 123456789012.0625 });
  expect(await send([old, event('b', 399.9)])).toMatchObject({
    status: 202,
    body: { accepted: 2, deduped: 0, warnings: [] },
  });
  expect(await month('2031-01-01', '2031-02-01')).toEqual([123456789012.0625]);
  expect(await month('2030-02-01', '2030-03-01')).toEqual([1]);
  expect(await read('/usage/events/a')).toMatchObject({ apiKeyId: OPERATOR_KEY_ID, livemode: true });
  expect((await send([old, { ...old, quantity: 4 }])).body).toMatchObject({
    accepted: 0,
    deduped: 2,
    warnings: [{ code: 'duplicate_mismatch', index: 1 }],
  });
  const untimed = { ...old, occurredAt: undefined };
  const byKey = await sendUsage(service.url, key.secret, [untimed, usageEvent(old.productSlug, 'new')]);
  expect(byKey.body).toMatchObject({ accepted: 1, deduped: 1, warnings: [] });
  expect((await send([usageEvent(old.productSlug, 'new')])).body).toMatchObject({ accepted: 0, deduped: 1 });
  expect(await drift()).toEqual(NONE);
  const rows = await database.db.orm
    .select({ actor: auditLog.actor, target: auditLog.target, details: auditLog.details })
    .from(auditLog)
    .where(sql`${auditLog.orgId} = ${organization.id}::uuid and ${auditLog.action} = 'usage.events_sent'`)
    .orderBy(auditLog.seq);
  expect(rows).toEqual([
    { actor: 'operator', target: 'a', details: { livemode: true, events: 2, repeats: 0 } },
    { actor: 'operator', target: 'a', details: { livemode: true, events: 0, repeats: 2 } },
    { actor: 'operator', target: 'new', details: { livemode: true, events: 0, repeats: 1 } },
  ]);
});

it('counts subjects, dimensions, test usage and CloudEvents, and a dry run records nothing', async () => {
  const { organization, slug, send, event, read, month, drift } = await arrive({
    dimensions: ['model'],
    countsSubjects: true,
  });
  const full = { subject: 'ann', dimensions: { model: 'large' }, quantity: 3 };
  expect((await send([event('dry', 50, full)], '?dryRun=true')).body).toMatchObject({ accepted: 1 });
  expect(await month('2031-01-01', '2031-02-01')).toEqual([]);
  expect((await send([event('a', 50, full), event('b', 50)])).body).toMatchObject({ accepted: 2 });
  expect((await send([event('t', 50, { quantity: 7 })], '?livemode=false')).body).toMatchObject({
    accepted: 1,
  });
  expect(await month('2031-01-01', '2031-02-01')).toEqual([4]);
  expect(await month('2031-01-01', '2031-02-01', `&productSlug=${slug}&dimension.model=large`)).toEqual([3]);
  expect(await read('/usage/events/a')).toMatchObject({ subject: 'ann', dimensions: { model: 'large' } });
  const cloudEvent = {
    specversion: '1.0',
    id: '1',
    source: '/a',
    type: 'calls',
    subject: slug,
    time: daysAgo(50),
  };
  const path = `/organizations/${organization.slug}/usage/events`;
  const type = { 'content-type': 'application/cloudevents+json' };
  expect((await operate('POST', path, cloudEvent, type)).body).toMatchObject({ accepted: 1 });
  expect(await month('2031-01-01', '2031-02-01')).toEqual([5]);
  expect(await drift()).toEqual(NONE);
});

it('refuses an archived month and events of more than 400 days ago, and saves the others if asked to', async () => {
  const { organization, send, event, month } = await arrive();
  await database.db.orm.insert(usageArchives).values({
    orgId: organization.id,
    period: '2031-01-01',
    livemode: true,
    state: 'written',
    file: 'x',
    sha256: 'x',
    events: 0,
    writtenAt: new Date(now),
  });
  const events = [event('archived', 60), event('old', 401), event('future', -1), event('good', 30)];
  const refused = await send(events);
  expect(refused).toMatchObject({ status: 422, body: { code: 'timestamp_out_of_range' } });
  expect(
    refused.body.errors.map((one: { pointer: string; detail: string }) => [one.pointer, one.detail]),
  ).toEqual([
    ['/events/0/occurredAt', 'The month 2031-01 is archived. No events can be added to it.'],
    ['/events/1/occurredAt', 'occurredAt must be from 400 days before to 5 minutes after the receipt.'],
    ['/events/2/occurredAt', 'occurredAt must be from 400 days before to 5 minutes after the receipt.'],
  ]);
  expect(await month('2030-01-01', '2031-04-01')).toEqual([]);
  const lenient = await send(events, '', { prefer: 'handling=lenient' });
  expect(lenient.body).toMatchObject({ accepted: 1, rejected: [{ index: 0 }, { index: 1 }, { index: 2 }] });
  // Only the live month is archived.
  expect((await send([event('archived', 60)], '?livemode=false')).status).toBe(202);
});

it('burns the grants that are open today and end after the hour of the event', async () => {
  const { db } = database;
  const { organization, slug, send, event, drift } = await arrive();
  await operate('PUT', `/products/${slug}/price`, { price: 2 });
  const at = new Date(now);
  const startsAt = new Date(daysAgo(300));
  const before = await addGrant(
    db,
    organization.id,
    { amount: '100', startsAt, expiresAt: new Date(daysAgo(90)) },
    at,
  );
  const open = await addGrant(db, organization.id, { amount: '5' }, at);
  const answer = await send([event('a', 60, { quantity: 4 })]);
  expect(answer.body).toMatchObject({ accepted: 1 });
  const burned = await selectRows<{ grant: string; amount: string }>(
    db.orm,
    sql`select grant_id as grant, amount::text from credit_entries where org_id = ${organization.id}::uuid and kind = 'burn'`,
  );
  expect(before).not.toBe(open);
  expect(burned.filter((one) => one.grant === before)).toEqual([]);
  expect(await drift()).toEqual(NONE);
});

it('reports no threshold of a window that has passed', async () => {
  const { organization, slug, send, event } = await arrive();
  const limit = (window: string) => ({ quantity: 10, window, enforcement: 'warn' });
  const limits = ['calendar_day', 'calendar_week', 'calendar_month', 'P1D'].map(limit);
  await operate('PUT', `/organizations/${organization.slug}/entitlements/${slug}`, {
    kind: 'live',
    limits,
    thresholds: [100],
  });
  await createListener(database.db, organization.id, { types: ['usage.threshold_reached'] });
  const told = async () => {
    await service.services.thresholds.evaluateAll();
    const messages = await readWebhookMessages(database.db, organization.id, 'usage.threshold_reached');
    return messages.map(({ data }) => `${data.limit.window} ${data.windowStart.slice(0, 10)}`).sort();
  };
  await send([event('past', 60, { quantity: 20 })]);
  expect(await told()).toEqual([]);
  // The month of ten days ago is this one; its day and its week have passed.
  await send([event('this month', 10, { quantity: 20 })]);
  expect(await told()).toEqual(['calendar_month 2031-03-01']);
  await send([event('now', 0, { quantity: 20 })]);
  expect((await told()).map((one) => one.split(' ')[0])).toEqual([
    'P1D',
    'calendar_day',
    'calendar_month',
    'calendar_week',
  ]);
});

it('an Organization that is archived or unknown does not exist', async () => {
  const { organization, send, event } = await arrive();
  await operate('PUT', `/organizations/${organization.slug}`, { name: 'Gone', archived: true });
  expect(await send([event('a', 60)])).toMatchObject({ status: 404, body: { code: 'not_found' } });
  expect(
    (await operate('POST', '/organizations/nobody/usage/events', { events: [event('a', 60)] })).status,
  ).toBe(404);
});
