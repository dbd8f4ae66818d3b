import type { ServerResponse } from 'node:http';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { Webhook } from 'standardwebhooks';
import { byService, change } from '../../../src/accounts/audit/audit.js';
import { auditLog } from '../../../src/accounts/audit/table.js';
import {
  webhookDeliveries,
  webhookEndpoints,
  webhookMessages,
} from '../../../src/accounts/webhooks/table.js';
import { createDispatcher } from '../../../src/accounts/webhooks/dispatcher.js';
import {
  resendDelivery,
  resendFailed,
  rotateSecret,
  testEndpoint,
} from '../../../src/accounts/webhooks/endpoints.js';
import { queueWebhook } from '../../../src/accounts/webhooks/outbox.js';
import { findEndpoint } from '../../../src/accounts/webhooks/queries.js';
import { isCitus, isEmbedded, itOnPostgres } from '../../support/database.js';
import { createOrganization } from '../../support/fixtures.js';
import { until } from '../../support/until.js';
import {
  actorOf,
  attemptsOf,
  deliveriesOf,
  listen,
  startReceiver,
  verifyBySpecification,
  chat,
} from '../../support/webhooks.js';
import { useService } from '../../support/use.js';
import { exampleOf } from '../../support/webhook-examples.js';

const SECOND_MS = 1_000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

const { database, service } = useService();

const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  await Promise.all(closing.map((close) => close()));
});
beforeEach(async () => {
  const { orm } = database.db;
  for (const table of [webhookDeliveries, webhookMessages, webhookEndpoints]) await orm.delete(table);
});

async function receive(...args: Parameters<typeof startReceiver>) {
  const receiver = await startReceiver(...args);
  closing.push(receiver.stop);
  return receiver;
}

const data = exampleOf('api_key.created');
const tell = (orgId: string) =>
  change(service.context, byService, (tx) =>
    queueWebhook(tx, {
      orgId,
      livemode: true,
      type: 'api_key.created',
      data,
      at: new Date(service.clock.now()),
    }),
  );
const sweep = async () => {
  const dispatcher = createDispatcher(service.context, chat);
  await dispatcher.sweep();
  await dispatcher.stop();
};

async function organizationWith(url: string, count = 1) {
  const { id: orgId } = await createOrganization(database.db);
  const { endpoint, secret } = await listen(service.context, orgId, { url });
  for (let n = 0; n < count; n++) await tell(orgId);
  return { orgId, endpointId: endpoint.id, secret };
}

describe('a delivery', () => {
  it('passes verification by an independent receiver and by the official library', async () => {
    const { url, received } = await receive();
    const { orgId, secret } = await organizationWith(url);
    await sweep();
    expect(received).toHaveLength(1);
    const [one] = received;
    const body = verifyBySpecification(secret, one!, service.clock.now());
    expect(body).toEqual({
      type: 'api_key.created',
      timestamp: new Date(service.clock.now()).toISOString(),
      data,
    });
    const headers = one!.headers as Record<string, string>;
    expect(new Webhook(secret).verify(one!.body, headers)).toEqual(body);
    const [delivery] = await deliveriesOf(service.context, orgId);
    expect(delivery).toMatchObject({ status: 'delivered', attempts: 1, messageId: headers['webhook-id'] });
    expect(headers).toMatchObject({ 'content-type': 'application/json' });
  });

  it('fails verification with another secret, an old time or a changed body', async () => {
    const { url, received } = await receive();
    const { secret } = await organizationWith(url);
    const other = await organizationWith(url);
    await sweep();
    const one = received.find(({ body, headers }) => {
      try {
        verifyBySpecification(secret, { body, headers }, service.clock.now());
        return true;
      } catch {
        return false;
      }
    })!;
    const headers = one.headers as Record<string, string>;
    const now = service.clock.now();
    expect(() => verifyBySpecification(other.secret, one, now)).toThrow('no signature fits');
    expect(() => new Webhook(other.secret).verify(one.body, headers)).toThrow('No matching signature');
    const changed = one.body.replace('Runtime', 'Runtine');
    expect(() => verifyBySpecification(secret, { ...one, body: changed }, now)).toThrow('no signature fits');
    expect(() => new Webhook(secret).verify(changed, headers)).toThrow('No matching signature');
    expect(() => verifyBySpecification(secret, one, now + 6 * MINUTE_MS)).toThrow('too old');
    const later = { ...headers, 'webhook-timestamp': String(Number(headers['webhook-timestamp']) - 301) };
    expect(() => new Webhook(secret).verify(one.body, later)).toThrow();
  });

  it('is signed with both secrets during a rotation, then only with the new one', async () => {
    const { url, received } = await receive();
    const { orgId, endpointId, secret } = await organizationWith(url);
    const { secret: next } = await rotateSecret(service.context, actorOf(orgId), endpointId, 60);
    await sweep();
    for (const each of [secret, next]) verifyBySpecification(each, received[0]!, service.clock.now());
    expect(received[0]!.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/);
    service.clock.advance(HOUR_MS + 1);
    await tell(orgId);
    await sweep();
    verifyBySpecification(next, received[1]!, service.clock.now());
    expect(() => verifyBySpecification(secret, received[1]!, service.clock.now())).toThrow();
    // Without a grace period, a leaked secret stops signing immediately.
    const { secret: last } = await rotateSecret(service.context, actorOf(orgId), endpointId, 0);
    await tell(orgId);
    await sweep();
    verifyBySpecification(last, received[2]!, service.clock.now());
    expect(() => verifyBySpecification(next, received[2]!, service.clock.now())).toThrow();
  });

  it('keeps every digit of a number', async () => {
    const { url, received } = await receive();
    const { id: orgId } = await createOrganization(database.db);
    await listen(service.context, orgId, { url });
    const exact = JSON.parse('{"apiKey": {}}') as typeof data;
    await change(service.context, byService, (tx) =>
      queueWebhook(tx, {
        orgId,
        livemode: true,
        type: 'api_key.created',
        data: exact,
        at: new Date(service.clock.now()),
      }),
    );
    await database.db.orm.execute(
      `update webhook_messages set data = '{"used": 12345678901234567890.123456789}'`,
    );
    await sweep();
    expect(received[0]!.body).toContain('12345678901234567890.123456789');
  });
});

describe('a failing receiver', () => {
  it('is retried on schedule with the same id, and then given up', async () => {
    const { url, received } = await receive((_req, res) => void res.writeHead(500).end('not today'));
    const { orgId, endpointId } = await organizationWith(url);
    const pauses: number[] = [];
    for (;;) {
      await sweep();
      const [delivery] = await deliveriesOf(service.context, orgId);
      if (delivery!.status === 'failed') break;
      const waitMs = delivery!.nextAttemptAt.getTime() - service.clock.now();
      pauses.push(waitMs);
      service.clock.advance(waitMs - 1);
      await sweep();
      expect(received).toHaveLength(pauses.length);
      service.clock.advance(1);
    }
    expect(pauses).toEqual([
      5 * SECOND_MS,
      5 * MINUTE_MS,
      30 * MINUTE_MS,
      ...[2, 5, 10, 14, 20, 24].map((hours) => hours * HOUR_MS),
    ]);
    expect(received).toHaveLength(10);
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(new Set(received.map(({ headers }) => headers['webhook-timestamp'])).size).toBe(10);
    const attempts = await attemptsOf(service.context, orgId);
    expect(
      attempts.map(({ attempt, statusCode, answer, error }) => ({ attempt, statusCode, answer, error })),
    ).toEqual(
      Array.from({ length: 10 }, (_, n) => ({
        attempt: n + 1,
        statusCode: 500,
        answer: 'not today',
        error: null,
      })),
    );
    // Resending manually restarts the retry schedule.
    await resendDelivery(service.context, actorOf(orgId), endpointId, attempts[0]!.messageId);
    await sweep();
    expect(received).toHaveLength(11);
    expect((await deliveriesOf(service.context, orgId))[0]).toMatchObject({
      status: 'waiting',
      failures: 1,
      attempts: 11,
    });
  });

  it('is disabled at once if it answers 410, and other endpoints are notified', async () => {
    const gone = await receive((_req, res) => void res.writeHead(410).end());
    const other = await receive();
    const { orgId, endpointId } = await organizationWith(gone.url, 0);
    const { secret } = await listen(service.context, orgId, { url: other.url, livemode: false });
    await tell(orgId);
    await sweep();
    expect(await findEndpoint(database.db.orm, orgId, endpointId)).toMatchObject({
      isEnabled: false,
      disabledReason: 'gone',
    });
    const deliveries = await deliveriesOf(service.context, orgId);
    expect(deliveries.find((delivery) => delivery.endpointId === endpointId)).toMatchObject({
      status: 'failed',
      attempts: 1,
    });
    await sweep();
    expect(verifyBySpecification(secret, other.received[0]!, service.clock.now())).toMatchObject({
      type: 'webhook.disabled',
      data: { endpointId, url: gone.url, reason: 'gone' },
    });
    const actions = await database.db.orm
      .select({ orgId: auditLog.orgId, action: auditLog.action })
      .from(auditLog)
      .orderBy(auditLog.seq);
    expect(actions.filter((row) => row.orgId === orgId).map(({ action }) => action)).toContain(
      'webhook.disabled',
    );
    // The endpoint is now disabled and receives nothing more.
    await tell(orgId);
    await sweep();
    expect(gone.received).toHaveLength(1);
  });

  it('is disabled after five days of failures only, but not if one delivery succeeded', async () => {
    let status = 500;
    const { url } = await receive((_req, res) => void res.writeHead(status).end());
    const { orgId, endpointId } = await organizationWith(url);
    const isEnabled = async () => (await findEndpoint(database.db.orm, orgId, endpointId))!.isEnabled;
    const failFor = async (days: number) => {
      for (let day = 0; day < days; day++) {
        service.clock.advance(DAY_MS);
        await tell(orgId);
        await sweep();
      }
    };
    await sweep();
    await failFor(4);
    expect(await isEnabled()).toBe(true);
    status = 200;
    await tell(orgId);
    await sweep();
    status = 500;
    await tell(orgId);
    await sweep();
    await failFor(4);
    expect(await isEnabled()).toBe(true);
    await failFor(1);
    expect(await isEnabled()).toBe(false);
    expect(await findEndpoint(database.db.orm, orgId, endpointId)).toMatchObject({
      disabledReason: 'failing',
    });
  });

  it('does not become failing or well by a test message', async () => {
    let status = 500;
    const { url } = await receive((_req, res) => void res.writeHead(status).end());
    const { orgId, endpointId } = await organizationWith(url, 0);
    const test = async () => {
      await testEndpoint(service.context, actorOf(orgId), endpointId);
      await sweep();
      return (await findEndpoint(database.db.orm, orgId, endpointId))!;
    };
    expect(await test()).toMatchObject({ failingSince: null });
    await tell(orgId);
    await sweep();
    status = 200;
    expect(await test()).toMatchObject({ failingSince: expect.any(Date) });
  });

  it('gets failed messages since a given time again, with their original ids', async () => {
    let status = 410;
    const { url, received } = await receive((_req, res) => void res.writeHead(status).end());
    const { orgId, endpointId } = await organizationWith(url, 3);
    await sweep();
    const since = new Date(service.clock.now());
    service.clock.advance(1_000);
    const ids = new Set(received.map(({ headers }) => headers['webhook-id']));
    await expect(resendFailed(service.context, actorOf(orgId), endpointId, since)).rejects.toThrow(
      'disabled',
    );
    await database.db.orm.update(webhookEndpoints).set({ isEnabled: true, disabledReason: null });
    status = 200;
    expect(
      await resendFailed(service.context, actorOf(orgId), endpointId, new Date(service.clock.now())),
    ).toBe(0);
    expect(await resendFailed(service.context, actorOf(orgId), endpointId, since)).toBe(3);
    await sweep();
    expect(received).toHaveLength(6);
    expect(new Set(received.slice(3).map(({ headers }) => headers['webhook-id']))).toEqual(ids);
    for (const { status } of await deliveriesOf(service.context, orgId)) expect(status).toBe('delivered');
  });

  // Receivers behave the same with every database, so testing with the embedded one is enough.
  it.runIf(isEmbedded)(
    'does not delay others if it is down, sends a byte a second, answers 500, sends 10 MB, or redirects',
    { timeout: 120_000 },
    async () => {
      const inner = await receive();
      const drip = (res: ServerResponse) => {
        res.writeHead(200);
        const timer = setInterval(() => res.write('x'), 1_000);
        res.on('close', () => clearInterval(timer));
      };
      const slow = await receive((_req, res) => drip(res));
      const failing = await receive((_req, res) => void res.writeHead(500).end());
      const big = await receive((_req, res) => void res.writeHead(200).end('y'.repeat(10_000_000)));
      const away = await receive((_req, res) => void res.writeHead(302, { location: inner.url }).end());
      const good = await receive();
      const of = {
        down: await organizationWith('http://127.0.0.1:9/', 5),
        slow: await organizationWith(slow.url, 20),
        failing: await organizationWith(failing.url, 5),
        big: await organizationWith(big.url, 5),
        away: await organizationWith(away.url, 5),
        good: await organizationWith(good.url, 50),
      };
      const dispatcher = createDispatcher(service.context, chat);
      dispatcher.start();
      await until(() => good.received.length === 50);
      // No slow delivery has ended yet, because each takes 15 seconds.
      expect(await attemptsOf(service.context, of.slow.orgId)).toEqual([]);
      const first = async (orgId: string) => (await attemptsOf(service.context, orgId))[0]!;
      await expect.poll(() => attemptsOf(service.context, of.slow.orgId), { interval: 100 }).not.toEqual([]);
      expect(await first(of.down.orgId)).toMatchObject({
        statusCode: null,
        error: 'The connection was refused.',
      });
      expect(await first(of.slow.orgId)).toMatchObject({
        statusCode: 200,
        error: 'No complete response within 15 seconds.',
      });
      const { durationMs, answer } = await first(of.slow.orgId);
      expect(durationMs).toBeGreaterThanOrEqual(14_900);
      expect(answer).toMatch(/^x{1,15}$/);
      expect(await first(of.failing.orgId)).toMatchObject({ statusCode: 500 });
      expect(await first(of.big.orgId)).toMatchObject({
        statusCode: 200,
        error: null,
        answer: 'y'.repeat(1024),
      });
      expect(await first(of.away.orgId)).toMatchObject({ statusCode: 302 });
      expect(inner.received).toEqual([]);
      const statuses = async (orgId: string) =>
        new Set((await deliveriesOf(service.context, orgId)).map(({ status }) => status));
      expect(await statuses(of.good.orgId)).toEqual(new Set(['delivered']));
      expect(await statuses(of.big.orgId)).toEqual(new Set(['delivered']));
      for (const name of ['down', 'slow', 'failing', 'away'] as const)
        expect(await statuses(of[name].orgId), name).toEqual(new Set(['waiting']));
      await dispatcher.stop();
    },
  );
});

describe('concurrent instances', () => {
  it('share the work and send each message once', async () => {
    const { url, received } = await receive();
    await organizationWith(url, 60);
    const dispatchers = [1, 2, 3].map(() => createDispatcher(service.context, chat));
    // Deliveries that do not fit into one sweep wait for the next sweep.
    while (received.length < 60) await Promise.all(dispatchers.map((dispatcher) => dispatcher.sweep()));
    expect(new Set(received.map(({ headers }) => headers['webhook-id'])).size).toBe(60);
    expect(received).toHaveLength(60);
    await Promise.all(dispatchers.map((dispatcher) => dispatcher.stop()));
  });

  it('claim nothing while they must not answer, and go on afterwards', async () => {
    const { url, received } = await receive();
    await organizationWith(url);
    let looks = 0;
    let isRefused = true;
    const lifecycle = {
      state: 'ready' as const,
      get refusal() {
        looks++;
        return isRefused ? { code: 'unavailable' as const, detail: 'too old' } : undefined;
      },
    };
    const dispatcher = createDispatcher({ ...service.context, lifecycle }, chat);
    dispatcher.start();
    await until(() => looks >= 3);
    expect(received).toEqual([]);
    isRefused = false;
    await until(() => received.length === 1);
    await dispatcher.stop();
  });

  it('resend what a dead instance was sending, with the same id', async () => {
    let answers = false;
    let hangUp = () => {};
    const { url, received } = await receive((_req, res) => {
      if (answers) res.writeHead(200).end();
      else hangUp = () => void res.destroy();
    });
    const { orgId } = await organizationWith(url);
    const killed = createDispatcher(service.context, chat);
    void killed.sweep();
    await until(() => received.length === 1);
    answers = true;
    await sweep();
    expect(received).toHaveLength(1);
    service.clock.advance(MINUTE_MS);
    await sweep();
    expect(received).toHaveLength(2);
    expect(received[1]!.headers['webhook-id']).toBe(received[0]!.headers['webhook-id']);
    expect((await deliveriesOf(service.context, orgId))[0]).toMatchObject({
      status: 'delivered',
      attempts: 2,
    });
    hangUp();
    await killed.stop();
  });

  it.skipIf(isCitus)('give back what they cannot finish when they stop', async () => {
    let answers = false;
    const { url, received } = await receive((_req, res) => void (answers && res.writeHead(200).end()));
    const { orgId } = await organizationWith(url);
    const stopped = createDispatcher(service.context, chat);
    stopped.start();
    await until(() => received.length === 1);
    await stopped.stop();
    expect(await attemptsOf(service.context, orgId)).toEqual([]);
    answers = true;
    await sweep();
    expect(received).toHaveLength(2);
    expect(received[1]!.headers['webhook-id']).toBe(received[0]!.headers['webhook-id']);
  });

  // Testing with one database is enough. On Citus, each shard group would have its own sweeps.
  (isCitus ? it.skip : itOnPostgres)(
    'deliver to a hundred receivers at once, and to more endpoints than one sweep takes',
    async () => {
      const receivers = await Promise.all(Array.from({ length: 100 }, () => receive()));
      for (let n = 0; n < 220; n++) await organizationWith(receivers[n % 100]!.url);
      await sweep();
      const counts = receivers.map(({ received }) => received.length);
      expect(counts).toEqual(Array.from({ length: 100 }, (_, n) => (n < 20 ? 3 : 2)));
    },
    240_000,
  );
});

it('a test message goes only to its endpoint, whatever types that has chosen', async () => {
  const { url, received } = await receive();
  const other = await receive();
  const { orgId, endpointId } = await organizationWith(url, 0);
  await listen(service.context, orgId, { url: other.url });
  await testEndpoint(service.context, actorOf(orgId), endpointId);
  await sweep();
  expect(JSON.parse(received[0]!.body)).toMatchObject({ type: 'webhook.test', data: { endpointId } });
  expect(other.received).toEqual([]);
});
