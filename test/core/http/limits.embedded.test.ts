import { describe, expect, it } from 'vitest';
import { generateSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../../metering/support/products.js';
import { useService } from '../../support/use.js';

const { database, service } = useService({
  env: { LIMIT_USAGE_PER_MINUTE: '5', LIMIT_ENTITLEMENTS_PER_MINUTE: '3' },
});

async function createSender(scopes?: string[]) {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db);
  await grant(database.db, organization.id, product.id);
  const key = await createKey(database.db, organization.id, scopes ? { scopes } : {});
  const event = { productSlug: product.slug, metric: 'calls', idempotencyKey: 'a' };
  const body = JSON.stringify({ events: [event] });
  return {
    organization,
    secret: key.secret,
    send: (init: RequestInit = {}) =>
      fetch(`${service.url}/api/usage/events`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key.secret}`, 'content-type': 'application/json' },
        body,
        ...init,
      }),
  };
}

const callWith = (headers: Record<string, string>) =>
  fetch(`${service.url}/api/usage/events`, { method: 'POST', headers, body: '{}' });
const withUnknownKey = () => callWith({ authorization: `Bearer ${generateSecret(true)}` });

describe('the limit of each API key', () => {
  it('admits exactly the limit, then answers 429 with the time to retry', async () => {
    const { send } = await createSender();
    for (let left = 4; left >= 0; left--) {
      const response = await send();
      expect(response.status).toBe(202);
      expect(response.headers.get('ratelimit')).toMatch(new RegExp(`^"usage"; r=${left}; t=(60|5\\d)$`));
      expect(response.headers.get('ratelimit-policy')).toMatch(/^"usage"; q=5; w=60$/);
      expect(response.headers.get('retry-after')).toBeNull();
    }
    const refused = await send();
    expect(refused.status).toBe(429);
    expect(refused.headers.get('content-type')).toContain('application/problem+json');
    expect(refused.headers.get('ratelimit')).toMatch(/^"usage"; r=0; t=\d+$/);
    expect(refused.headers.get('ratelimit-policy')).toContain('q=5; w=60');
    const retryAfter = refused.headers.get('retry-after');
    expect(retryAfter).toMatch(/^[1-9]\d*$/);
    expect(Number(retryAfter)).toBeLessThanOrEqual(60);
    expect(await refused.json()).toMatchObject({
      status: 429,
      code: 'rate_limited',
      detail: `This key can make 5 usage calls a minute. Try again in ${retryAfter} s.`,
    });
  });

  it('admits exactly the limit if all calls arrive at once', async () => {
    const { send } = await createSender();
    const statuses = await Promise.all(Array.from({ length: 12 }, async () => (await send()).status));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([
      ...Array<number>(5).fill(202),
      ...Array<number>(7).fill(429),
    ]);
  });

  it('counts each key of an Organization separately', async () => {
    const first = await createSender();
    for (let i = 0; i < 6; i++) await first.send();
    const other = await createKey(database.db, first.organization.id);
    const response = await first.send({
      headers: { authorization: `Bearer ${other.secret}`, 'content-type': 'application/json' },
    });
    expect(response.status).toBe(202);
    expect((await first.send()).status).toBe(429);
  });

  it('includes calls that are refused for their content or scope', async () => {
    const { send } = await createSender();
    expect((await send({ body: 'not json' })).headers.get('ratelimit')).toContain('r=4');
    expect((await send()).headers.get('ratelimit')).toContain('r=3');
    const reader = await createSender(['entitlements:read']);
    const statuses = [];
    for (let i = 0; i < 6; i++) statuses.push((await reader.send()).status);
    expect(statuses).toEqual([403, 403, 403, 403, 403, 429]);
  });

  it('counts the entitlement routes together, and separately from usage', async () => {
    const { secret, send } = await createSender();
    expect((await send()).headers.get('ratelimit')).toContain('r=4');
    const read = (path: string, init: RequestInit = {}) =>
      fetch(`${service.url}/api/entitlements${path}`, {
        headers: { authorization: `Bearer ${secret}` },
        ...init,
      });
    const answers = [
      await read(''),
      await read('/unknown'),
      await read('/check', { method: 'POST' }),
      await read(''),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 404, 415, 429]);
    expect(answers[0]!.headers.get('ratelimit-policy')).toContain('"entitlements"; q=3; w=60');
    expect((await send()).headers.get('ratelimit')).toContain('r=3');
  });

  it('counts nothing against a key for calls that do not carry it', async () => {
    const { secret, send } = await createSender();
    const attempts: Record<string, string>[] = [
      {},
      { authorization: secret },
      { authorization: `Bearer ${secret} x` },
      { authorization: `Bearer ${secret.slice(0, -1)}` },
      { authorization: 'Bearer __proto__' },
      { authorization: `Bearer ${secret}`, cookie: 'gauge_session=1' },
    ];
    const statuses = [];
    for (const headers of attempts) statuses.push((await callWith(headers)).status);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 400]);
    expect((await send()).headers.get('ratelimit')).toContain('r=4');
  });
});

describe('the guard against guessed keys', () => {
  it('refuses unseen keys from an address after 300 invalid ones, and no key that is in use', async () => {
    const inUse = await createSender();
    expect((await inUse.send()).status).toBe(202);
    const newcomer = await createSender();
    service.clock.advance(60_000);
    const first = await withUnknownKey();
    expect(first.status).toBe(401);
    expect(first.headers.get('ratelimit')).toBe('"bad-keys"; r=299; t=60');
    expect(first.headers.get('ratelimit-policy')).toBe('"bad-keys"; q=300; w=60');
    const revoked = await createKey(database.db, inUse.organization.id, { revokedAt: new Date() });
    expect((await callWith({ authorization: `Bearer ${revoked.secret}` })).status).toBe(401);
    for (let i = 0; i < 298; i += 10) {
      const count = Math.min(10, 298 - i);
      const others = await Promise.all(Array.from({ length: count }, withUnknownKey));
      expect(new Set(others.map(({ status }) => status))).toEqual(new Set([401]));
    }

    const refused = await withUnknownKey();
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ code: 'rate_limited' });
    expect(refused.headers.get('ratelimit')).toBe('"bad-keys"; r=0; t=60');
    expect(refused.headers.get('retry-after')).toBe('60');
    expect((await inUse.send()).status).toBe(202);
    expect((await newcomer.send()).status).toBe(429);
    expect((await callWith({})).status).toBe(401);

    service.clock.advance(60_000);
    expect((await newcomer.send()).status).toBe(202);
    expect((await withUnknownKey()).headers.get('ratelimit')).toContain('r=299');
  });

  it('does not refuse valid keys, however many new ones call at once', async () => {
    service.clock.advance(60_000);
    const organization = await createOrganization(database.db);
    const keys = await Promise.all(
      Array.from({ length: 320 }, () => createKey(database.db, organization.id)),
    );
    const statuses = await Promise.all(
      keys.map(async ({ secret }) => (await callWith({ authorization: `Bearer ${secret}` })).status),
    );
    // Each key is valid: the call fails only because it lacks a content type.
    expect(new Set(statuses)).toEqual(new Set([415]));
  });
});
