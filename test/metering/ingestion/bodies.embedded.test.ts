import { request } from 'node:http';
import { eq } from 'drizzle-orm';
import { beforeAll, describe, expect, it } from 'vitest';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { MAX_BODY_BYTES, MAX_EVENTS } from '../../../src/metering/ingestion/schema.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
let secret: string;
beforeAll(async () => {
  secret = (await createKey(database.db, (await createOrganization(database.db)).id)).secret;
});

async function post(path: string, body: string, key = secret) {
  const response = await fetch(`${service.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body,
  });
  const text = await response.text();
  return {
    status: response.status,
    bytes: text.length,
    problem: JSON.parse(text) as { code: string; detail: string; errors?: { pointer: string }[] },
  };
}

const send = (events: unknown[]) => post('/api/usage/events', JSON.stringify({ events }));
const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 1]));

describe('an expensive body', () => {
  it('with 380,000 unknown fields is refused at once, in a few words', async () => {
    const body = JSON.stringify({ events: [fields(380_000)] });
    expect(body.length).toBeGreaterThan(4_000_000);
    const { status, bytes, problem } = await post('/api/usage/events', body);
    expect(`${status} ${problem.code}`).toBe('400 invalid_request');
    expect(problem.detail).toBe('An object in the body has more than 100 fields.');
    expect(bytes).toBeLessThan(1_000);
  });

  it('with a hundred errors names them all, and with more names a hundred and says that there are more', async () => {
    const exactly = await send(Array.from({ length: 50 }, () => ({ ...event('a'), x: 1, y: 2 })));
    expect(exactly.problem.errors).toHaveLength(100);
    expect(exactly.problem.detail).toMatch(/\(and 99 more, see errors\)$/);
    const more = await send(Array.from({ length: 500 }, () => fields(30)));
    expect(more.problem.errors).toHaveLength(100);
    expect(more.problem.detail).toMatch(/\(and at least 100 more; errors lists the first 100\)$/);
    expect(more.bytes).toBeLessThan(20_000);
  });

  it('with a field name of megabytes gets that name back truncated', async () => {
    const { problem, bytes } = await send([{ ...event('a'), ['n'.repeat(3_000_000)]: 1 }]);
    expect(problem.errors).toMatchObject([{ pointer: `/events/0/${'n'.repeat(255)}…` }]);
    expect(bytes).toBeLessThan(2_000);
  });

  it('that is nested too deeply is refused, and so is a list of millions', async () => {
    const nested = `{"events":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    expect((await post('/api/usage/events', nested)).problem.detail).toMatch(/more than 32 levels deep/);
    const long = `{"events":[${'1,'.repeat(1_000_000)}1]}`;
    const answer = await post('/api/usage/events', long);
    expect(`${answer.status} ${answer.problem.code}`).toBe('413 batch_too_large');
  });
});

describe('the size limit of a body', () => {
  it('admits 500 of the largest events, however they are written', async () => {
    const organization = await createOrganization(database.db);
    const slug = 'ab'.repeat(32);
    const product = await createProduct(database.db, { slug, usageMetric: '💥'.repeat(255) });
    await grant(database.db, organization.id, product.id);
    const key = await createKey(database.db, organization.id);
    const occurredAt = `${new Date(service.clock.now()).toISOString().slice(0, -1)}${'0'.repeat(30)}+00:00`;
    const events = Array.from({ length: MAX_EVENTS }, (_, i) => ({
      productSlug: slug,
      metric: '💥'.repeat(255),
      idempotencyKey: `${'💥'.repeat(252)}${String(i).padStart(3, '0')}`,
      occurredAt,
    }));
    const body = JSON.stringify({ events })
      .replaceAll(`"occurredAt"`, `"quantity":0.${'1'.repeat(98)},"occurredAt"`)
      .replace(/[\ud800-\udfff]/g, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
      .replaceAll('ab'.repeat(32), '\\u0061\\u0062'.repeat(32));
    expect(body.length).toBeGreaterThan(3_000_000);
    const answer = await post('/api/usage/events', body, key.secret);
    expect(answer).toMatchObject({ status: 202, problem: { accepted: MAX_EVENTS } });
  });

  it('admits the longest texts in their longest notation', () => {
    const text = '\\ud83d\\udca5'.repeat(255);
    const longest = `{"productSlug":"${text}","metric":"${text}","idempotencyKey":"${text}","quantity":0.${'1'.repeat(98)}e+10,"occurredAt":"2026-01-01T00:00:00.${'1'.repeat(60)}+00:00"},`;
    const value = '\\ud83d\\udca5'.repeat(64);
    const dimensions = ['a', 'b', 'c', 'd'].map((key) => `"${key.repeat(64)}":"${value}"`).join(',');
    const details = `"subject":"${'\\ud83d\\udca5'.repeat(128)}","dimensions":{${dimensions}},`;
    expect((longest.length + details.length) * MAX_EVENTS + '{"events":[]}'.length).toBeLessThanOrEqual(
      MAX_BODY_BYTES,
    );
  });
});

describe('a key that was valid when it was last seen', () => {
  it('is checked again before a large body is read', async () => {
    const organization = await createOrganization(database.db);
    const key = await createKey(database.db, organization.id);
    expect((await post('/api/usage/events', '{}', key.secret)).status).toBe(400);
    expect((await post('/api/entitlements/check', '{}', key.secret)).status).toBe(400);
    await database.db.orm.update(apiKeys).set({ revokedAt: new Date() }).where(eq(apiKeys.id, key.id));
    for (const path of ['/api/usage/events', '/api/entitlements/check'])
      expect(await readAnswerToPartialBody(path, key.secret)).toMatch(
        /^HTTP\/1.1 401 [^]*"code":"key_revoked"/,
      );
  });

  it('counts as unknown after a refusal, so not even a small body is read', async () => {
    const organization = await createOrganization(database.db);
    const key = await createKey(database.db, organization.id);
    expect((await post('/api/usage/events', '{}', key.secret)).status).toBe(400);
    await database.db.orm.update(apiKeys).set({ revokedAt: new Date() }).where(eq(apiKeys.id, key.id));
    expect((await post('/api/usage/events', '{}', key.secret)).status).toBe(401);
    expect(await readAnswerToPartialBody('/api/usage/events', key.secret, 1_000)).toMatch(/^HTTP\/1.1 401/);
  });
});

const event = (idempotencyKey: string) => ({ productSlug: 'p', metric: 'm', idempotencyKey });

/** Sends only part of a body and resolves to the response, which must arrive without the rest. */
function readAnswerToPartialBody(path: string, key: string, length = 200_000): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(`${service.url}${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'content-length': String(length),
      },
    });
    outgoing.on('response', (answer) => {
      let text = `HTTP/1.1 ${answer.statusCode} `;
      answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
      answer.on('end', () => {
        outgoing.destroy();
        resolve(text);
      });
    });
    outgoing.on('error', reject);
    outgoing.write('{"events":[');
  });
}

describe('a body as people have it', () => {
  const tenant = async () => {
    const { id } = await createOrganization(database.db);
    const product = await createProduct(database.db);
    await grant(database.db, id, product.id);
    const { secret: key } = await createKey(database.db, id);
    return {
      key,
      call: (idempotencyKey: string, more = {}) => ({
        ...event(idempotencyKey),
        productSlug: product.slug,
        metric: 'calls',
        ...more,
      }),
    };
  };

  it('may begin with a byte order mark', async () => {
    const { key, call } = await tenant();
    const { status } = await post(
      '/api/usage/events',
      `\uFEFF${JSON.stringify({ events: [call('a')] })}`,
      key,
    );
    expect(status).toBe(202);
  });

  it('may have null for an optional field, but not for a required one', async () => {
    const { key, call } = await tenant();
    const nothing = { quantity: null, occurredAt: null, subject: null, dimensions: null };
    const send = (more: object) =>
      post(
        '/api/usage/events',
        JSON.stringify({ events: [call('a'), call('b', { ...nothing, ...more })] }),
        key,
      );
    expect((await send({ metric: null })).problem).toMatchObject({ code: 'invalid_request' });
    expect((await send({})).status).toBe(202);
    const reservation = { ...call('c'), quantity: 1, subject: null, ttlSeconds: null };
    expect((await post('/api/usage/reservations', JSON.stringify(reservation), key)).status).toBe(201);
  });

  it('with half a surrogate pair in a key is told so, and a lenient batch records the others', async () => {
    const { key, call } = await tenant();
    const body = JSON.stringify({ events: [call('a'), call('\ud83d'), call('a', { quantity: 2 })] });
    const { problem } = await post('/api/usage/events', body, key);
    expect(problem.detail).toBe(
      '/events/1/idempotencyKey contains half of a surrogate pair, which UTF-8 cannot encode',
    );
    const response = await fetch(`${service.url}/api/usage/events`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        prefer: 'handling=lenient',
      },
      body,
    });
    expect(await response.json()).toMatchObject({
      accepted: 1,
      deduped: 1,
      warnings: [{ code: 'duplicate_mismatch', index: 2 }],
      rejected: [{ index: 1, code: 'invalid_request', detail: problem.detail.replace('/events/1/', '') }],
    });
  });
});
