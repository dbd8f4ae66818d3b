import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { auditLog } from '../../../src/accounts/audit/table.js';
import { createDispatcher } from '../../../src/accounts/webhooks/dispatcher.js';
import { rotateSecret, updateEndpoint } from '../../../src/accounts/webhooks/endpoints.js';
import { queueWebhook } from '../../../src/accounts/webhooks/outbox.js';
import {
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from '../../../src/accounts/webhooks/table.js';
import { createOrganization } from '../../support/fixtures.js';
import { useService } from '../../support/use.js';
import { actorOf, attemptsOf, chat, deliveriesOf, listen, startReceiver } from '../../support/webhooks.js';
import { exampleOf } from '../../support/webhook-examples.js';

const { database, service } = useService();
const closing: (() => Promise<void>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));
beforeEach(async () => {
  const { orm } = database.db;
  for (const table of [webhookDeliveries, webhookMessages, webhookEndpoints]) await orm.delete(table);
});

async function useChat(answer?: (req: IncomingMessage, res: ServerResponse) => void) {
  const receiver = await startReceiver(answer);
  closing.push(receiver.stop);
  const { id: orgId } = await createOrganization(database.db);
  const url = `${receiver.url}/T0/B0/a-secret-path`;
  const { endpoint, secret } = await listen(service.context, orgId, { format: 'slack', url });
  return { receiver, orgId, endpoint, secret, url };
}

const tell = (orgId: string, name: string) =>
  change(service.context, byService, (tx) =>
    queueWebhook(tx, {
      orgId,
      livemode: true,
      type: 'api_key.created',
      data: { apiKey: { ...exampleOf('api_key.created').apiKey, name } },
      at: new Date(service.clock.now()),
    }),
  );

const sweep = async () => {
  const dispatcher = createDispatcher(service.context, chat);
  await dispatcher.sweep();
  await dispatcher.stop();
};

const textsOf = (received: { body: string }[]) =>
  received.map(({ body }) => (JSON.parse(body) as { text: string }).text);

describe('a chat', () => {
  it('gets a sentence without a signature', async () => {
    const { receiver, orgId } = await useChat();
    await tell(orgId, 'Runtime');
    await sweep();
    expect(textsOf(receiver.received)).toEqual([
      'The API key “Runtime” (org_live_7Hq…) was created. <https://gauge.example/dashboard/api-keys|Open>',
    ]);
    expect(Object.keys(receiver.received[0]!.headers)).not.toContain('webhook-signature');
    expect(await deliveriesOf(service.context, orgId)).toMatchObject([{ status: 'delivered', attempts: 1 }]);
  });

  it('gets many messages as few posts, with a pause between posts that all instances keep', async () => {
    const { receiver, orgId } = await useChat();
    for (let i = 0; i < 25; i++) await tell(orgId, `Key ${i}`);
    const counts: number[] = [];
    for (let half = 0; half < 4; half++) {
      // Three instances sweep at the same time, and one of them sweeps again just before the pause ends.
      await Promise.all([sweep(), sweep(), sweep()]);
      service.clock.advance(499);
      await sweep();
      service.clock.advance(1);
      counts.push(receiver.received.length);
    }
    expect(counts).toEqual([1, 2, 3, 3]);
    const lines = textsOf(receiver.received).flatMap((text) => text.split('\n'));
    expect(lines).toHaveLength(25);
    expect(new Set(lines).size).toBe(25);
    expect((await attemptsOf(service.context, orgId)).map(({ statusCode }) => statusCode)).toEqual(
      Array.from({ length: 25 }, () => 204),
    );
  });

  it('that answers 429 gets nothing before the pause that it asks for', async () => {
    let isBusy = true;
    const { receiver, orgId } = await useChat((_req, res) => {
      if (isBusy) res.writeHead(429, { 'retry-after': '30' }).end('rate_limited');
      else res.writeHead(200).end('ok');
    });
    await tell(orgId, 'First');
    await sweep();
    await tell(orgId, 'Second');
    service.clock.advance(29_000);
    await sweep();
    expect(receiver.received).toHaveLength(1);
    isBusy = false;
    service.clock.advance(1_000);
    await sweep();
    expect(receiver.received).toHaveLength(2);
    expect(textsOf(receiver.received)[1]!.split('\n')).toHaveLength(2);
    expect(await deliveriesOf(service.context, orgId)).toMatchObject([
      { status: 'delivered' },
      { status: 'delivered' },
    ]);
  });

  it('that hangs delays no other endpoint', async () => {
    const hanging = await useChat(() => undefined);
    const quick = await useChat();
    await tell(hanging.orgId, 'Late');
    await tell(quick.orgId, 'Now');
    const dispatcher = createDispatcher(service.context, chat);
    const swept = dispatcher.sweep();
    await expect.poll(() => quick.receiver.received.length).toBe(1);
    await hanging.receiver.stop();
    await swept;
    await dispatcher.stop();
  });
});

describe('the URL of a chat', () => {
  it('is stored encrypted and shown masked, also in the audit log', async () => {
    const { orgId, endpoint, secret, url } = await useChat();
    expect(secret).toBe('');
    expect(endpoint.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/…path$/);
    const stored = await database.db.orm.select().from(webhookEndpoints);
    const audited = await database.db.orm.select().from(auditLog).orderBy(auditLog.seq);
    expect(JSON.stringify([stored, audited, endpoint])).not.toContain('a-secret-path');
    expect(JSON.stringify(audited)).toContain(endpoint.url);
    expect(url).toContain('a-secret-path');
    expect(orgId).toBeDefined();
  });

  it('stays when the masked one is sent back, and changes with a new one', async () => {
    const { receiver, orgId, endpoint } = await useChat();
    const { format, livemode } = endpoint;
    const change = (url: string, isEnabled = true) =>
      updateEndpoint(service.context, actorOf(orgId), endpoint.id, {
        format,
        types: ['api_key.created'],
        livemode,
        url,
        isEnabled,
      });
    await change(endpoint.url, false);
    await change(endpoint.url);
    await tell(orgId, 'Old');
    await sweep();
    expect(receiver.received).toHaveLength(1);
    const other = await startReceiver();
    closing.push(other.stop);
    expect((await change(`${other.url}/new-secret`)).url).toMatch(/…cret$/);
    await tell(orgId, 'New');
    service.clock.advance(1_000);
    await sweep();
    expect([receiver.received.length, other.received.length]).toEqual([1, 1]);
  });

  it('cannot be rotated, and the format cannot change', async () => {
    const { orgId, endpoint } = await useChat();
    const actor = actorOf(orgId);
    await expect(rotateSecret(service.context, actor, endpoint.id, 0)).rejects.toThrow('has no secret');
    await expect(
      updateEndpoint(service.context, actor, endpoint.id, {
        ...endpoint,
        types: ['api_key.created'],
        format: 'discord',
      }),
    ).rejects.toMatchObject({ code: 'invalid_request' });
    await expect(
      listen(service.context, orgId, { format: 'slack', url: 'https://10.0.0.7/hook' }),
    ).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });
});
