import { eq } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pino } from 'pino';
import { v7 as uuid } from 'uuid';
import { createSecretBox } from '../../../src/core/secret-box.js';
import { auditLog } from '../../../src/accounts/audit/table.js';
import {
  webhookAttempts,
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from '../../../src/accounts/webhooks/table.js';
import { createDispatcher } from '../../../src/accounts/webhooks/dispatcher.js';
import { disableEndpoint, resealWebhookSecrets } from '../../../src/accounts/webhooks/endpoints.js';
import { deleteOldWebhooks, tendWebhooks } from '../../../src/accounts/webhooks/upkeep.js';
import { addMember, Browser, createUser, signedIn } from '../../support/accounts.js';
import { hostileTexts } from '../../support/hostile-texts.js';
import { startReceiver, verifyBySpecification, chat } from '../../support/webhooks.js';
import { hostileSlugs, operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const DAY_MS = 86_400_000;
const PATH = '/dashboard/webhooks';
const input = { url: 'https://hooks.example.com/', types: ['api_key.created'], livemode: true };

const { database, service } = useService();
let receiver: Awaited<ReturnType<typeof startReceiver>>;
let status = 200;
beforeAll(async () => {
  receiver = await startReceiver((_req, res) => void res.writeHead(status).end('thanks'));
});
afterAll(async () => {
  await receiver.stop();
});

async function owner() {
  const { browser, organization } = await signedIn(database.db, service.url);
  const create = async (more: object = {}) => {
    const answer = await browser.send('POST', PATH, { json: { ...input, ...more } });
    expect([answer.status, answer.text]).toEqual([201, answer.text]);
    return answer.body as { webhook: { id: string }; secret: string };
  };
  return { browser, orgId: organization.id, create };
}

async function sweep() {
  const dispatcher = createDispatcher(service.context, chat);
  await dispatcher.sweep();
  await dispatcher.stop();
}

const call = operatorClient(() => service);

const actionsOf = async (orgId: string) => {
  const rows = await auditOf(database.db, orgId);
  return rows.map(({ action }) => action).filter((action) => action.startsWith('webhook.'));
};

describe('endpoints', () => {
  it('can be created, read, changed and deleted, with one audit row each; an identical update changes nothing', async () => {
    const { browser, orgId, create } = await owner();
    const { webhook, secret } = await create();
    const path = `${PATH}/${webhook.id}`;
    for (const answer of [await browser.get(PATH), await browser.get(path)])
      expect(answer.text).not.toContain(secret);
    const changed = { ...input, url: 'https://hooks.example.com/other', isEnabled: false };
    for (let n = 0; n < 2; n++)
      expect((await browser.send('PUT', path, { json: changed })).body.webhook).toMatchObject(changed);
    expect((await browser.send('DELETE', path)).status).toBe(200);
    expect((await browser.send('DELETE', path)).status).toBe(404);
    expect(await actionsOf(orgId)).toEqual(['webhook.created', 'webhook.updated', 'webhook.deleted']);
    const [row] = await database.db.orm.select().from(auditLog).where(eq(auditLog.action, 'webhook.created'));
    expect(JSON.stringify(row)).not.toContain(secret);
  });

  it('are limited to 20, even if created concurrently', async () => {
    const { browser } = await owner();
    const answers = await Promise.all(
      Array.from({ length: 24 }, () => browser.send('POST', PATH, { json: input })),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(20);
    for (const answer of answers.filter((answer) => answer.status !== 201))
      expect(answer.body).toMatchObject({
        code: 'invalid_request',
        detail: 'An Organization can have at most 20 endpoints.',
      });
  });

  it('are created once by a form sent twice', async () => {
    const { browser } = await owner();
    const form = {
      id: uuid({ msecs: service.clock.now() }),
      url: input.url,
      types: 'api_key.created',
      livemode: 'true',
    };
    const headers = { accept: 'text/html' };
    expect((await browser.send('POST', PATH, { form, headers })).status).toBe(201);
    const again = await browser.send('POST', PATH, { form, headers });
    expect([again.status, again.headers.get('location')]).toEqual([303, `${PATH}/${form.id}?done=exists`]);
    expect((await browser.get(PATH)).body.webhooks).toHaveLength(1);
  });

  it.each([
    ['/url', { url: 'http://example.com/' }],
    ['/url', { url: 'https://[::ffff:10.0.0.1]/' }],
    ['/url', { url: 'https://10.1:8080/' }],
    ['/url', { url: '' }],
    ['/url', { url: `https://example.com/${'x'.repeat(2_000)}` }],
    ['/url', { url: 'https://example.com/\u0000' }],
    ['/url', { url: 7 }],
    ['/types', { types: [] }],
    ['/types', { types: ['api_key.created', 'api_key.created'] }],
    ['/types/0', { types: ['webhook.test'] }],
    ['/types/0', { types: ['constructor'] }],
    ['/livemode', { livemode: 'true' }],
    ['/isEnabled', { isEnabled: 1 }],
    ['/secret', { secret: 'whsec_of_my_own' }],
  ])('reject %s in %j', async (pointer, wrong) => {
    const { browser } = await owner();
    const answer = await browser.send('POST', PATH, { json: { ...input, ...wrong } });
    expect(answer.status).toBe(400);
    expect(answer.body.errors[0]).toMatchObject({ pointer, code: 'invalid_request' });
  });

  it('are in the navigation of those who may manage them, and encrypted in the database', async () => {
    const { browser, orgId, create } = await owner();
    const { webhook, secret } = await create();
    const member = await createUser(database.db);
    await addMember(database.db, orgId, member.id, 'member');
    const theirs = new Browser(service.url);
    await theirs.signIn(member.email);
    expect((await theirs.get('/dashboard', { accept: 'text/html' })).text).not.toContain(PATH);
    expect((await browser.get('/dashboard', { accept: 'text/html' })).text).toContain(PATH);
    const [row] = await database.db.orm
      .select()
      .from(webhookEndpoints)
      .where(eq(webhookEndpoints.id, webhook.id));
    expect(row!.secret).toMatch(/^v1\./);
    expect(createSecretBox(['secret-key-of-the-tests'], 'webhook secret').open(webhook.id, row!.secret)).toBe(
      secret,
    );
    // The secret is bound to its endpoint.
    expect(() =>
      createSecretBox(['secret-key-of-the-tests'], 'webhook secret').open(uuid(), row!.secret),
    ).toThrow();
  });
});

describe('deliveries', () => {
  it('are listed in pages and by status, and shown with body and response', async () => {
    const { browser, create } = await owner();
    const { webhook, secret } = await create({ url: receiver.url });
    const path = `${PATH}/${webhook.id}`;
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.unshift((await browser.send('POST', `${path}/test`)).body.messageId);
    // A new endpoint gets four deliveries at a time.
    for (let n = 0; n < 2; n++) await sweep();
    const pages: string[][] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const page = await browser.get(`${path}/deliveries?limit=2${cursor && `&cursor=${cursor}`}`);
      pages.push(page.body.deliveries.map(({ messageId }: { messageId: string }) => messageId));
      cursor = page.body.nextCursor;
    }
    expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
    const count = async (query: string) =>
      (await browser.get(`${path}/deliveries?${query}`)).body.deliveries.length;
    expect(await count('status=delivered')).toBe(5);
    expect(await count('status=failed')).toBe(0);
    expect(await count('type=webhook.test')).toBe(5);
    expect(await count('type=api_key.created')).toBe(0);
    const { delivery } = (await browser.get(`${path}/deliveries/${ids[0]}`)).body;
    expect(delivery.attemptLog).toMatchObject([
      { attempt: 1, statusCode: 200, error: null, answer: 'thanks' },
    ]);
    const sent = receiver.received.find(({ headers }) => headers['webhook-id'] === ids[0])!;
    expect(sent.body).toBe(delivery.body);
    verifyBySpecification(secret, sent, service.clock.now());
  });

  it.each([
    'status=gone',
    'type=%00',
    'limit=0',
    'limit=101',
    'cursor=../../..',
    `cursor=${encodeURIComponent(hostileTexts[0]!)}`,
  ])('reject listing by %s', async (query) => {
    const { browser, create } = await owner();
    const { webhook } = await create();
    expect((await browser.get(`${PATH}/${webhook.id}/deliveries?${query}`)).status).toBe(400);
  });
});

describe('upkeep', () => {
  it('gives up deliveries of disabled or deleted endpoints and measures the rest', async () => {
    const { browser, orgId, create } = await owner();
    const endpoints = [await create(), await create(), await create()];
    const [kept, disabled, deleted] = endpoints.map(({ webhook }) => `${PATH}/${webhook.id}`);
    for (const path of [kept, disabled, deleted]) await browser.send('POST', `${path}/test`);
    await browser.send('PUT', disabled!, { json: { ...input, isEnabled: false } });
    await browser.send('DELETE', deleted!);
    service.clock.advance(90_000);
    await tendWebhooks(service.context);
    const rows = await database.db.orm
      .select()
      .from(webhookDeliveries)
      .where(eq(webhookDeliveries.orgId, orgId));
    const statusOf = (n: number) => rows.find((row) => row.endpointId === endpoints[n]!.webhook.id)!.status;
    expect([statusOf(0), statusOf(1), statusOf(2)]).toEqual(['waiting', 'failed', 'failed']);
    const { webhooksWaiting, webhooksOverdue } = service.context.metrics;
    expect((await webhooksWaiting.get()).values[0]!.value).toBeGreaterThanOrEqual(1);
    expect((await webhooksOverdue.get()).values[0]!.value).toBeGreaterThanOrEqual(90);
    // Nothing is written for a disabled endpoint.
    expect((await browser.send('POST', `${disabled}/test`)).body).toMatchObject({
      code: 'invalid_request',
      detail: 'This endpoint is disabled. Enable it first.',
    });
  });

  it('deletes messages after 30 days, or 100 days if they have a once key', async () => {
    const { browser, orgId, create } = await owner();
    const { webhook } = await create({ url: receiver.url });
    await browser.send('POST', `${PATH}/${webhook.id}/test`);
    await database.db.orm
      .update(webhookMessages)
      .set({ onceKey: 'once' })
      .where(eq(webhookMessages.orgId, orgId));
    await browser.send('POST', `${PATH}/${webhook.id}/test`);
    await sweep();
    const tables = [webhookAttempts, webhookDeliveries, webhookMessages];
    const counts = async () => {
      await deleteOldWebhooks(service.context);
      const rows = tables.map((table) => database.db.orm.select().from(table).where(eq(table.orgId, orgId)));
      return (await Promise.all(rows)).map(({ length }) => length);
    };
    service.clock.advance(29 * DAY_MS);
    expect(await counts()).toEqual([2, 2, 2]);
    service.clock.advance(DAY_MS + 1);
    expect(await counts()).toEqual([0, 0, 1]);
    service.clock.advance(70 * DAY_MS);
    expect(await counts()).toEqual([0, 0, 0]);
  });

  it('disables an endpoint once and notifies once', async () => {
    const { orgId, create } = await owner();
    const { id } = (await create()).webhook;
    const lines: string[] = [];
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(line) });
    for (let n = 0; n < 2; n++)
      await disableEndpoint({ ...service.context, log }, { orgId, id, reason: 'gone' });
    expect(lines).toHaveLength(1);
    expect(await actionsOf(orgId)).toEqual(['webhook.created', 'webhook.disabled']);
  });

  it('re-encrypts secrets under a newer key, and they still sign', async () => {
    const { create, browser } = await owner();
    const { webhook, secret } = await create({ url: receiver.url });
    const path = `${PATH}/${webhook.id}`;
    await browser.send('POST', `${path}/rotate`, { json: { graceMinutes: 60 } });
    const { config } = service.context;
    const secretKeys = ['a newer key of the tests', ...config.secretKeys];
    await resealWebhookSecrets({ ...service.context, config: { ...config, secretKeys } });
    const [row] = await database.db.orm
      .select()
      .from(webhookEndpoints)
      .where(eq(webhookEndpoints.id, webhook.id));
    const box = createSecretBox(['a newer key of the tests'], 'webhook secret');
    expect(box.open(webhook.id, row!.previousSecret!)).toBe(secret);
    expect(box.open(webhook.id, row!.secret)).toMatch(/^whsec_/);
    // Without the key that encrypts the endpoint's secret, nothing can be signed, so the delivery is retried.
    await browser.send('POST', `${path}/test`);
    status = 200;
    await sweep();
    const { deliveries } = (await browser.get(`${path}/deliveries`)).body;
    expect(deliveries[0]).toMatchObject({
      status: 'waiting',
      statusCode: null,
      error: 'The message could not be signed.',
    });
    await resealWebhookSecrets({
      ...service.context,
      config: { ...config, secretKeys: [...config.secretKeys, 'a newer key of the tests'] },
    });
  });
});

describe('endpoints by the operator', () => {
  const chatUrl = 'https://hooks.slack.example/services/T0ACME/B0USAGE/x4bXyZ';
  const shown = 'https://hooks.slack.example/…bXyZ';

  it('are changed like those of a member, with one audit row each, and a chat keeps its URL', async () => {
    const { browser, organization } = await signedIn(database.db, service.url);
    const list = `/organizations/${organization.slug}/webhooks`;
    const chatInput = { ...input, format: 'slack' };
    const { webhook, secret } = (await call('POST', list, { ...chatInput, url: chatUrl })).body;
    expect([webhook.url, secret]).toEqual([shown, null]);
    const changed = { ...chatInput, url: shown, isEnabled: false };
    for (let n = 0; n < 2; n++)
      expect(await call('PUT', `${list}/${webhook.id}`, changed)).toMatchObject({
        status: 200,
        body: { webhook: changed },
      });
    expect((await call('GET', list)).text).not.toContain('T0ACME');
    expect((await call('GET', list)).body).toEqual((await browser.get(PATH)).body);
    expect((await call('DELETE', `${list}/${webhook.id}`)).status).toBe(204);
    expect((await call('DELETE', `${list}/${webhook.id}`)).status).toBe(404);
    const rows = await auditOf(database.db, organization.id);
    expect(rows.map(({ action, actor }) => [action, actor])).toEqual([
      ['webhook.created', 'operator'],
      ['webhook.updated', 'operator'],
      ['webhook.deleted', 'operator'],
    ]);
  });

  it('are found only in their Organization', async () => {
    const [one, other] = [await signedIn(database.db, service.url), await signedIn(database.db, service.url)];
    const list = (slug: string) => `/organizations/${slug}/webhooks`;
    const { webhook, secret } = (await call('POST', list(one.organization.slug), input)).body;
    const elsewhere = `${list(other.organization.slug)}/${webhook.id}`;
    for (const path of [elsewhere, `${list(one.organization.slug)}/none`, `${list('none')}/${webhook.id}`]) {
      expect((await call('PUT', path, input)).status).toBe(404);
      expect((await call('DELETE', path)).status).toBe(404);
    }
    const { text, body } = await call('GET', list(one.organization.slug));
    expect(body.webhooks).toMatchObject([{ id: webhook.id }]);
    expect(text).not.toContain(secret);
  });

  it('reject hostile input', async () => {
    const { organization } = await signedIn(database.db, service.url);
    const list = `/organizations/${organization.slug}/webhooks`;
    for (const slug of hostileSlugs)
      expect((await call('GET', `/organizations/${slug}/webhooks`)).status).toBeOneOf([400, 404]);
    for (const url of ['', 'https://10.0.0.7/', 'http://example.com/', ...hostileTexts])
      expect((await call('POST', list, { ...input, url })).status).toBe(400);
    expect((await call('GET', list)).body).toEqual({ webhooks: [] });
  });
});
