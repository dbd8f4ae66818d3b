import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { v7 as uuid } from 'uuid';
import { selectRows } from '../../../src/core/db/sql.js';
import {
  archiveMonth,
  eachOpenMonth,
  readBack,
  type ArchiveDeps,
} from '../../../src/metering/archive/archive.js';
import { listArchives } from '../../../src/metering/archive/queries.js';
import { compareCredits } from '../../../src/metering/reconciliation/credits.js';
import { createKey, createOrganization, uniqueSlug } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { createProduct } from '../support/products.js';
import { fillUsage } from '../support/usage-events.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
const dir = mkdtempSync(join(tmpdir(), 'gauge-archived-credits-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
beforeAll(() => service.clock.set('2031-03-20T12:00:00Z'));

const deps = (signal = new AbortController().signal): ArchiveDeps => ({
  orm: database.db.orm,
  clock: service.clock,
  dir,
  chunkSize: 7,
  rest: 0,
  signal,
  onEvents: () => undefined,
});

async function archiveAll(orgId: string, own = deps()): Promise<void> {
  for await (const month of eachOpenMonth(database.db.orm, '2030-02-01', orgId))
    await archiveMonth(own, month);
}

const rows = (query: string) => selectRows<Record<string, unknown>>(database.db.orm, sql.raw(query));

/**
 * Creates events around the end of January 2030 at two prices, every third of them free. Each event burns credits
 * separately, half an hour after it occurred.
 */
async function burned(count: number) {
  const { id: orgId } = await createOrganization(database.db);
  const product = await createProduct(database.db);
  const key = await createKey(database.db, orgId);
  const grantId = uuid();
  await fillUsage(database.db, {
    orgId,
    productId: product.id,
    apiKeyId: key.id,
    count,
    prefix: 'e ',
    from: '2030-01-31T20:00:00.123456Z',
    everyMs: (8 * 3_600_000) / count,
    quantity: 'i + 0.5',
  });
  const own = `org_id = '${orgId}'`;
  await rows(`update usage_events set credit_price = case right(idempotency_key, 1)::int % 3 when 0 then 0 when 1 then 0.10 else 2.000000000001 end,
    received_at = (occurred_at at time zone 'UTC' + interval '30 minutes') at time zone 'UTC' where ${own}`);
  await rows(`insert into credit_entries (org_id, livemode, product_id, at, hour, grant_id, kind, amount)
    select org_id, livemode, product_id, received_at, date_trunc('hour', occurred_at at time zone 'UTC') at time zone 'UTC', '${grantId}'::uuid, 'burn', quantity * credit_price
    from usage_events where credit_price > 0 and ${own}`);
  await rows(`insert into credit_grants (org_id, id, starts_at, created_at, livemode, priority, grant_key, amount, reason, actor, request)
    select '${orgId}'::uuid, '${grantId}'::uuid, '2030-01-01Z', '2030-01-01Z', true, 50, 'g', sum(amount), 'test', 'system', '{}' from credit_entries where ${own}`);
  expect(await compareCredits(database.db.orm, orgId)).toEqual([]);
  return { orgId, own };
}

const linesOf = async (orgId: string) => {
  const [archive] = await listArchives(database.db.orm, orgId);
  const text = gunzipSync(readFileSync(join(dir, archive!.file))).toString();
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { creditPrice?: string });
};

it('keeps the prices in the file and the sum of burned credits, wherever it is interrupted, and sums up the ledger per day', async () => {
  const { orgId, own } = await burned(60);
  const total = `select sum(amount)::text as sum from credit_entries where ${own}`;
  const before = await rows(total);
  const later = `select * from credit_entries where ${own} and hour >= '2030-02-01Z' order by at`;
  const kept = await rows(later);
  for (let ends = 1, isDone = false; !isDone; ends++) {
    const controller = new AbortController();
    let left = ends;
    await archiveAll(orgId, {
      ...deps(controller.signal),
      onEvents: () => void (--left <= 0 && controller.abort()),
    }).then(
      () => (isDone = true),
      (error: Error) => expect(error.message).toMatch(/interrupted/),
    );
    expect(await compareCredits(database.db.orm, orgId)).toEqual([]);
    expect(await rows(total)).toEqual(before);
  }
  const [archive] = await listArchives(database.db.orm, orgId);
  expect(archive).toMatchObject({ state: 'archived', events: 30 });
  await readBack(deps(), archive!);
  expect((await linesOf(orgId)).slice(0, 3)).toEqual([
    expect.not.objectContaining({ creditPrice: expect.anything() }),
    expect.objectContaining({ creditPrice: '0.1' }),
    expect.objectContaining({ creditPrice: '2.000000000001' }),
  ]);
  // The last events of January were received in February, so their burn entry is dated February.
  const days = await rows(`select left(at::text, 10) as at, left(hour::text, 10) as hour from credit_entries
    where ${own} and hour < '2030-02-01Z' and at = date_bin('1 day', at, '2000-01-01Z') and hour = '2030-01-31Z' order by 1`);
  expect(days).toEqual([
    { at: '2030-01-31', hour: '2030-01-31' },
    { at: '2030-02-01', hour: '2030-01-31' },
  ]);
  expect(await rows(`select 1 from credit_entries where ${own}`)).toHaveLength(kept.length + 2);
  expect(await rows(later)).toEqual(kept);
  expect(kept.length).toBeGreaterThan(15);
});

it('leaves entries as they are while events of their product and month are left', async () => {
  const { orgId, own } = await burned(20);
  const entries = `select at, amount from credit_entries where ${own} and hour < '2030-02-01Z' order by at`;
  const before = await rows(entries);
  const controller = new AbortController();
  let left = 25;
  const onEvents = (count: number) => void ((left -= count) <= 0 && controller.abort());
  await expect(archiveAll(orgId, { ...deps(controller.signal), onEvents })).rejects.toThrow(/interrupted/);
  const deleted = `select deleted_events::int as events from usage_archived_totals where ${own}`;
  expect(await rows(deleted)).toEqual([{ events: 7 }]);
  // Adds an event that is not in the file, as could happen with a wrong clock.
  await rows(`insert into usage_events (org_id, product_id, api_key_id, occurred_at, received_at, livemode, idempotency_key, metric, quantity)
    select org_id, product_id, api_key_id, '2030-01-31T23:59:59Z', received_at, livemode, 'late', metric, quantity
    from usage_events where ${own} limit 1`);
  await archiveAll(orgId);
  expect(await rows(deleted)).toEqual([{ events: 10 }]);
  expect(await rows(entries)).toEqual(before);
});

it('deletes nothing while the sums of subjects differ from their events', async () => {
  const operate = operatorClient(() => service);
  const { id: orgId, slug: organization } = await createOrganization(database.db);
  const slug = uniqueSlug('product');
  service.clock.set('2030-01-10T09:00:00Z');
  await operate('PUT', `/products/${slug}`, { name: 'Models', usageMetric: 'calls', countsSubjects: true });
  await operate('PUT', `/organizations/${organization}/entitlements/${slug}`, { kind: 'live' });
  const { secret } = await createKey(database.db, orgId, { scopes: ['usage:write', 'usage:correct'] });
  const send = async (...events: object[]) =>
    expect((await sendUsage(service.url, secret, events)).status).toBe(202);
  const event = (key: string, more: object) => usageEvent(slug, key, { quantity: 2, ...more });
  for (const time of ['2030-01-10T10:04:59Z', '2030-01-10T10:05:00Z', '2030-01-12T23:59:59Z']) {
    service.clock.set(time);
    await send(
      event(`a ${time}`, { subject: 'ann', occurredAt: time }),
      event(`b ${time}`, { subject: 'ann b', metric: 'calls' }),
      event(`c ${time}`, {}),
    );
  }
  const correct = await fetch(`${service.url}/api/usage/corrections`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      corrections: [
        { idempotencyKey: 'a 2030-01-10T10:05:00Z', quantity: 7.5, reason: 'Wrong', correctionKey: 'c' },
      ],
    }),
  });
  expect(correct.status).toBe(200);
  service.clock.set('2031-03-20T12:00:00Z');
  const own = `org_id = '${orgId}'`;
  const row = (subject: string, slot: string) =>
    `insert into usage_subjects (org_id, product_id, livemode, subject, slot, metric, quantity, events)
    select org_id, product_id, livemode, '${subject}', ${slot}, metric, quantity, events from usage_subjects where ${own} and subject = 'ann b'`;
  const added = `delete from usage_subjects where ${own} and subject = 'other'`;
  for (const [wrong, right] of [
    [
      `update usage_subjects set quantity = quantity + 1 where ${own} and subject = 'ann'`,
      `update usage_subjects set quantity = quantity - 1 where ${own} and subject = 'ann'`,
    ],
    [
      `update usage_subjects set events = events + 1 where ${own}`,
      `update usage_subjects set events = events - 1 where ${own}`,
    ],
    [row('other', `slot + interval '9 days'`), added],
  ] as const) {
    await rows(wrong);
    await expect(archiveAll(orgId)).rejects.toThrow(/^The subjects of the product .* are not the sums/);
    expect(await rows(`select 1 from usage_events where ${own}`)).toHaveLength(9);
    await rows(right);
  }
  await archiveAll(orgId);
  expect(await rows(`select 1 from usage_events where ${own}`)).toEqual([]);
});
