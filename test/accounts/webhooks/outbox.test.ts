import { eq } from 'drizzle-orm';
import { expect, it } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import type { Template } from '../../../src/core/db/client.js';
import { newId } from '../../../src/core/ids.js';
import {
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from '../../../src/accounts/webhooks/table.js';
import { queueInStatement, queueWebhook } from '../../../src/accounts/webhooks/outbox.js';
import { createOrganization } from '../../support/fixtures.js';
import { useDatabase } from '../../support/use.js';
import { exampleOf } from '../../support/webhook-examples.js';

const database = useDatabase();

const at = new Date('2026-05-04T10:00:00.000Z');
const type = 'api_key.created';
const data = exampleOf(type);

async function createListeners(...changes: Partial<typeof webhookEndpoints.$inferInsert>[]) {
  const { orm } = database.db;
  const org = await createOrganization(database.db);
  const ids: string[] = [];
  for (const change of changes) {
    const id = newId(at.getTime());
    ids.push(id);
    await orm.insert(webhookEndpoints).values({
      orgId: org.id,
      id,
      url: 'https://example.com/',
      types: [type],
      livemode: true,
      secret: '',
      createdAt: at,
      ...change,
    });
  }
  return { orgId: org.id, ids };
}

const messagesOf = (orgId: string) =>
  database.db.orm.select().from(webhookMessages).where(eq(webhookMessages.orgId, orgId));
const deliveriesOf = (orgId: string) =>
  database.db.orm.select().from(webhookDeliveries).where(eq(webhookDeliveries.orgId, orgId));

const inStatement: Template = {
  name: 'test_tell',
  text: (t) => `
${t.with} told as materialized (
  select org_id, true as livemode, '${type}' as type, '${JSON.stringify(data)}'::jsonb as data, once_key
  from unnest($1::uuid[], $2::text[]) as x (org_id, once_key)${t.held}
), ${queueInStatement(t, 'told', '$3::timestamptz')}
select count(*)::text from webhook_message`,
};

const ways: [string, (orgId: string, onceKey?: string) => Promise<unknown>][] = [
  [
    'a transaction',
    (orgId, onceKey) =>
      change({ db: database.db, clock: { now: () => at.getTime() } }, byService, (tx) =>
        queueWebhook(tx, { orgId, livemode: true, type, data, at, ...(onceKey ? { onceKey } : {}) }),
      ),
  ],
  [
    'a hot statement',
    async (orgId, onceKey) => {
      const group = await database.db.shards.locateOrganization(orgId);
      await group.run(inStatement, [[orgId], [onceKey ?? null], at.toISOString()]);
    },
  ],
];

it.each(ways)('%s notifies each enabled endpoint of its mode that chose the type', async (_, tell) => {
  const { orgId, ids } = await createListeners(
    {},
    {},
    { isEnabled: false },
    { livemode: false },
    { types: ['trade.filled'] },
  );
  await tell(orgId);
  const [message, ...others] = await messagesOf(orgId);
  expect(others).toEqual([]);
  expect(message).toMatchObject({ type, data, livemode: true, createdAt: at, onceKey: null });
  expect(message!.id).toMatch(/^019df26e-2d00-7[0-9a-f]{3}-[89ab]/);
  const deliveries = await deliveriesOf(orgId);
  expect(deliveries.map(({ endpointId }) => endpointId).sort()).toEqual(ids.slice(0, 2).sort());
  for (const delivery of deliveries)
    expect(delivery).toMatchObject({
      messageId: message!.id,
      status: 'waiting',
      nextAttemptAt: at,
      attempts: 0,
    });
});

it.each(ways)('%s writes nothing if no endpoint listens', async (_, tell) => {
  const { orgId } = await createListeners({ isEnabled: false });
  await tell(orgId);
  expect(await messagesOf(orgId)).toEqual([]);
});

it.each(ways)('%s sends an Organization only one message per once key', async (_, tell) => {
  const { orgId } = await createListeners({});
  const other = await createListeners({});
  await Promise.all([1, 2, 3].map(() => tell(orgId, 'cap 80')));
  await tell(orgId, 'cap 100');
  await tell(other.orgId, 'cap 80');
  expect(new Set((await messagesOf(orgId)).map(({ onceKey }) => onceKey))).toEqual(
    new Set(['cap 80', 'cap 100']),
  );
  expect(await deliveriesOf(orgId)).toHaveLength(2);
  expect(await messagesOf(other.orgId)).toHaveLength(1);
});

it('a rollback leaves no message', async () => {
  const { orgId } = await createListeners({});
  const failed = change({ db: database.db, clock: { now: () => at.getTime() } }, byService, async (tx) => {
    await queueWebhook(tx, { orgId, livemode: true, type, data, at });
    throw new Error('rolled back');
  });
  await expect(failed).rejects.toThrow('rolled back');
  expect(await messagesOf(orgId)).toEqual([]);
  expect(await deliveriesOf(orgId)).toEqual([]);
});
