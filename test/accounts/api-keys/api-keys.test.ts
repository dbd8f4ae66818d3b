import { randomUUID } from 'node:crypto';
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { createApiKey } from '../../../src/accounts/api-keys/api-keys.js';
import { hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { isEmbedded } from '../../support/database.js';
import { Browser, signedIn } from '../../support/accounts.js';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../../metering/support/products.js';
import { byService } from '../../../src/accounts/audit/audit.js';
import { useService } from '../../support/use.js';
import { auditOf } from '../../support/audit.js';

const { database, service } = useService();

const PATH = '/dashboard/api-keys';
const owner = () => signedIn(database.db, service.url);
const create = (browser: Browser, input: object = {}) =>
  browser.send('POST', PATH, { json: { name: 'billing runtime', livemode: true, ...input } });
const rotate = (browser: Browser, id: string, json?: unknown) =>
  browser.send('POST', `${PATH}/${id}/rotate`, json === undefined ? {} : { json });
const revoke = (browser: Browser, id: string) => browser.send('DELETE', `${PATH}/${id}`);
const read = async (browser: Browser, id: string) => (await browser.get(`${PATH}/${id}`)).body.apiKey;

const keyFields = [
  'id',
  'name',
  'prefix',
  'scopes',
  'livemode',
  'state',
  'lastUsedAt',
  'expiresAt',
  'revokedAt',
  'createdAt',
  'createdBy',
  'rotatedFromId',
];

describe.runIf(isEmbedded)('creating a key', () => {
  it('returns the key and its secret, which is never shown again', async () => {
    const { browser, user, organization } = await owner();
    const answer = await create(browser);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    const { apiKey, secret } = answer.body;
    expect(Object.keys(answer.body).toSorted()).toEqual(['apiKey', 'secret']);
    expect(Object.keys(apiKey).toSorted()).toEqual(keyFields.toSorted());
    expect(secret).toMatch(/^org_live_[0-9A-Za-z]{32}$/);
    expect(apiKey).toMatchObject({
      id: expect.stringMatching(/^[\da-f]{8}-[\da-f]{4}-7/),
      name: 'billing runtime',
      prefix: secret.slice(0, 12),
      scopes: ['usage:write'],
      livemode: true,
      state: 'active',
      lastUsedAt: null,
      expiresAt: null,
      revokedAt: null,
      createdAt: new Date(service.clock.now()).toISOString(),
      createdBy: user.id,
      rotatedFromId: null,
    });
    const [row] = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.id, apiKey.id));
    expect(row).toMatchObject({ orgId: organization.id, hashedSecret: hashSecret(secret) });
    expect(JSON.stringify(row)).not.toContain(secret);
    expect(await read(browser, apiKey.id)).toEqual(apiKey);
    expect((await browser.get(PATH)).text).not.toContain(secret);
  });

  it('accepts scopes, test mode and an expiry with any offset', async () => {
    const { browser } = await owner();
    const answer = await create(browser, {
      livemode: false,
      scopes: ['usage:read', 'entitlements:read'],
      expiresAt: '2999-01-31T12:00:00+05:30',
    });
    expect(answer.body.secret).toMatch(/^org_test_/);
    expect(answer.body.apiKey).toMatchObject({
      livemode: false,
      scopes: ['usage:read', 'entitlements:read'],
      expiresAt: '2999-01-31T06:30:00.000Z',
    });
    expect((await create(browser, { expiresAt: null })).body.apiKey.expiresAt).toBeNull();
  });

  it('accepts a name in any script and returns it unchanged', async () => {
    const { browser } = await owner();
    const name = '__proto__ <script>alert("x")</script> 日本語 👩‍🚀 ‏عربي';
    expect((await create(browser, { name })).body.apiKey.name).toBe(name);
    expect((await create(browser, { name: '👾'.repeat(100) })).status).toBe(201);
  });

  it.each([
    ['/name', { name: undefined }],
    ['/name', { name: '' }],
    ['/name', { name: '   ' }],
    ['/name', { name: 5 }],
    ['/name', { name: 'x'.repeat(300) }],
    ['/name', { name: 'a\0b' }],
    ['/name', { name: 'a\nb' }],
    ['/name', { name: '\ud83d' }],
    ['/livemode', { livemode: undefined }],
    ['/livemode', { livemode: 'true' }],
    ['/scopes', { scopes: [] }],
    ['/scopes', { scopes: 'usage:write' }],
    ['/scopes', { scopes: ['usage:write', 'usage:write'] }],
    ['/scopes/0', { scopes: ['admin'] }],
    ['/scopes/0', { scopes: ['__proto__'] }],
    ['/expiresAt', { expiresAt: '2999-01-31T12:00:00' }],
    ['/expiresAt', { expiresAt: '2999-02-30T12:00:00Z' }],
    ['/expiresAt', { expiresAt: '2020-01-01T00:00:00Z' }],
    ['/expiresAt', { expiresAt: 4_102_444_800_000 }],
    ['/expiresAt', { expiresAt: '9999-12-31T23:59:59-12:00' }],
    ['/expiresAt', { expiresAt: '0000-01-01T00:00:00+14:00' }],
    ['/orgId', { orgId: randomUUID() }],
    ['/createdBy', { createdBy: randomUUID() }],
  ])('rejects invalid input at %s: %j', async (pointer, input) => {
    const { browser, organization } = await owner();
    const answer = await create(browser, input);
    expect(answer).toMatchObject({
      status: 400,
      body: { code: 'invalid_request', errors: [{ pointer, code: 'invalid_request' }] },
    });
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
    expect(await auditOf(database.db, organization.id)).toEqual([]);
  });

  it('rejects an expiry at the current time', async () => {
    const { browser } = await owner();
    const answer = await create(browser, { expiresAt: new Date(service.clock.now()).toISOString() });
    expect(answer).toMatchObject({ status: 400, body: { errors: [{ pointer: '/expiresAt' }] } });
  });

  it('rejects a body that is not JSON, not an object, or too large', async () => {
    const { browser } = await owner();
    const send = (json: unknown) => browser.send('POST', PATH, { json });
    for (const body of [null, [], 'x', 5]) expect((await send(body)).body.code).toBe('invalid_request');
    expect((await create(browser, { name: 'x'.repeat(20_000) })).status).toBe(413);
    expect(await browser.send('POST', PATH, { form: { name: 'x' } })).toMatchObject({ status: 415 });
    const proto = await browser.send('POST', PATH, {
      json: JSON.parse('{"name":"x","livemode":true,"__proto__":{"scopes":["usage:correct"]}}'),
    });
    expect(proto).toMatchObject({ status: 400, body: { errors: [{ pointer: '/__proto__' }] } });
  });

  it('creates another key when repeated, because no secret is shown twice', async () => {
    const { browser } = await owner();
    const [first, second] = [await create(browser), await create(browser)];
    expect(second.body.apiKey.id).not.toBe(first.body.apiKey.id);
    expect(second.body.secret).not.toBe(first.body.secret);
  });

  it('by the system records no creator', async () => {
    const organization = await createOrganization(database.db);
    const actor = { orgId: organization.id, userId: null, by: byService };
    const { key } = await createApiKey(service.context, actor, { name: 'made here', livemode: false });
    expect(key.createdBy).toBeNull();
    expect(await auditOf(database.db, organization.id)).toMatchObject([
      { actor: 'system', action: 'api_key.created' },
    ]);
  });
});

describe('listing keys', () => {
  it('shows the newest first, page by page, each key once', async () => {
    const { browser, organization } = await owner();
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) {
      const actor = { orgId: organization.id, userId: null, by: byService };
      const { key } = await createApiKey(service.context, actor, { name: `key ${i}`, livemode: true });
      ids.unshift(key.id);
      if (i % 3 === 0) service.clock.advance(10);
    }
    const first = await browser.get(`${PATH}?limit=3`);
    expect(first.status).toBe(200);
    expect(Object.keys(first.body)).toEqual(['apiKeys', 'nextCursor']);
    // A key created between two page requests must not shift the later pages.
    await createApiKey(
      service.context,
      { orgId: organization.id, userId: null, by: byService },
      { name: 'x', livemode: true },
    );
    const second = await browser.get(`${PATH}?limit=3&cursor=${first.body.nextCursor}`);
    const third = await browser.get(`${PATH}?limit=3&cursor=${second.body.nextCursor}`);
    expect(third.body.nextCursor).toBeNull();
    const seen = [first, second, third].flatMap(({ body }) =>
      body.apiKeys.map(({ id }: { id: string }) => id),
    );
    expect(seen).toEqual(ids);
    expect(Object.keys(first.body.apiKeys[0]).toSorted()).toEqual(keyFields.toSorted());
    const all = await browser.get(PATH);
    expect(all.body.apiKeys).toHaveLength(8);
    expect(all.body.nextCursor).toBeNull();
    expect((await browser.get(`${PATH}?limit=8`)).body.nextCursor).toBeNull();
  });

  it('never shows another Organization’s keys, even with a cursor from there', async () => {
    const mine = await owner();
    const { browser: theirs } = await owner();
    await createKey(database.db, mine.organization.id);
    await createKey(database.db, mine.organization.id);
    const { nextCursor } = (await mine.browser.get(`${PATH}?limit=1`)).body;
    expect((await theirs.get(PATH)).body).toEqual({ apiKeys: [], nextCursor: null });
    expect((await theirs.get(`${PATH}?cursor=${nextCursor}`)).body.apiKeys).toEqual([]);
  });

  it.each([
    'limit=0',
    'limit=501',
    'limit=-1',
    'limit=x',
    'limit=',
    'limit=1&limit=2',
    'cursor=',
    'cursor=%00',
  ])('rejects ?%s', async (query) => {
    const { browser } = await owner();
    expect(await browser.get(`${PATH}?${query}`)).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
  });

  it('shows when a key was last used', async () => {
    const { browser, organization } = await owner();
    const key = await createKey(database.db, organization.id);
    const product = await createProduct(database.db);
    await grant(database.db, organization.id, product.id);
    await useKey(key.secret, product.slug);
    await service.services.keyUse.flush();
    expect((await read(browser, key.id)).lastUsedAt).toBe(new Date(service.clock.now()).toISOString());
  });
});

describe('rotating a key', () => {
  it('creates a key with the same settings and keeps the old one valid for 60 minutes', async () => {
    const { browser, user } = await owner();
    const { apiKey: old, secret: oldSecret } = (await create(browser, { scopes: ['entitlements:read'] }))
      .body;
    const answer = await rotate(browser, old.id);
    expect(answer.status).toBe(201);
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(Object.keys(answer.body).toSorted()).toEqual(['apiKey', 'previous', 'secret']);
    const { apiKey, secret, previous } = answer.body;
    expect(secret).not.toBe(oldSecret);
    expect(apiKey).toMatchObject({
      name: old.name,
      scopes: ['entitlements:read'],
      livemode: true,
      expiresAt: null,
      state: 'active',
      rotatedFromId: old.id,
      createdBy: user.id,
      prefix: secret.slice(0, 12),
    });
    const graceEnd = new Date(service.clock.now() + 60 * 60_000).toISOString();
    expect(previous).toEqual({ ...old, state: 'grace', expiresAt: graceEnd });
    expect(await read(browser, old.id)).toEqual(previous);
    expect(await read(browser, apiKey.id)).toEqual(apiKey);
  });

  it('uses the given grace period, accepts zero, and accepts an empty body', async () => {
    const { browser } = await owner();
    const make = async () => (await create(browser)).body.apiKey.id as string;
    const week = await rotate(browser, await make(), { graceMinutes: 10_080 });
    expect(Date.parse(week.body.previous.expiresAt)).toBe(service.clock.now() + 7 * 24 * 3_600_000);
    const none = await rotate(browser, await make(), { graceMinutes: 0 });
    expect(none.body.previous.state).toBe('expired');
    expect((await rotate(browser, await make(), {})).body.previous.state).toBe('grace');
  });

  it('keeps the old key’s expiry for both keys if it comes first', async () => {
    const { browser } = await owner();
    const soon = new Date(service.clock.now() + 10 * 60_000).toISOString();
    const late = new Date(service.clock.now() + 300 * 60_000).toISOString();
    const first = await rotate(browser, (await create(browser, { expiresAt: soon })).body.apiKey.id);
    expect(first.body).toMatchObject({ apiKey: { expiresAt: soon }, previous: { expiresAt: soon } });
    const second = await rotate(browser, (await create(browser, { expiresAt: late })).body.apiKey.id);
    const graceEnd = new Date(service.clock.now() + 60 * 60_000).toISOString();
    expect(second.body).toMatchObject({ apiKey: { expiresAt: late }, previous: { expiresAt: graceEnd } });
  });

  it('fails with key_already_rotated during grace and with key_not_active once revoked or expired', async () => {
    const { browser, organization } = await owner();
    const inGrace = (await create(browser)).body.apiKey.id;
    await rotate(browser, inGrace);
    expect(await rotate(browser, inGrace)).toMatchObject({
      status: 409,
      body: { code: 'key_already_rotated' },
    });
    const revoked = (await createKey(database.db, organization.id, { revokedAt: new Date() })).id;
    const expired = (await createKey(database.db, organization.id, { expiresAt: new Date('2021-01-01') })).id;
    const rotatedAway = (await create(browser)).body.apiKey.id;
    await rotate(browser, rotatedAway, { graceMinutes: 0 });
    const before = (await auditOf(database.db, organization.id)).length;
    for (const id of [revoked, expired, rotatedAway])
      expect(await rotate(browser, id)).toMatchObject({ status: 409, body: { code: 'key_not_active' } });
    expect(await auditOf(database.db, organization.id)).toHaveLength(before);
  });

  it('works on the successor', async () => {
    const { browser } = await owner();
    const first = (await create(browser)).body.apiKey;
    const second = (await rotate(browser, first.id)).body.apiKey;
    const third = (await rotate(browser, second.id)).body.apiKey;
    expect(third.rotatedFromId).toBe(second.id);
    const states = (await browser.get(PATH)).body.apiKeys.map(({ state }: { state: string }) => state);
    expect(states).toEqual(['active', 'grace', 'grace']);
  });

  it.each([
    { graceMinutes: -1 },
    { graceMinutes: 10_081 },
    { graceMinutes: 1.5 },
    { graceMinutes: '60' },
    { graceMinutes: 5, name: 'x' },
    [],
    null,
  ])('rejects %j with 400 and leaves the key unchanged', async (json) => {
    const { browser, organization } = await owner();
    const key = await createKey(database.db, organization.id);
    expect(await rotate(browser, key.id, json)).toMatchObject({
      status: 400,
      body: { code: 'invalid_request' },
    });
    expect((await read(browser, key.id)).state).toBe('active');
  });

  it('twice concurrently creates one successor', async () => {
    const { browser, organization } = await owner();
    const { id } = await createKey(database.db, organization.id);
    const answers = await Promise.all(Array.from({ length: 5 }, () => rotate(browser, id)));
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ body }) => body.code === 'key_already_rotated')).toHaveLength(4);
    const successors = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.rotatedFromId, id));
    expect(successors).toHaveLength(1);
    expect(await auditOf(database.db, organization.id)).toHaveLength(1);
  });
});

describe('revoking a key', () => {
  it('takes effect at once; repeating it changes nothing and writes no second audit row', async () => {
    const { browser, organization } = await owner();
    const { apiKey } = (await create(browser)).body;
    const first = await revoke(browser, apiKey.id);
    const revokedAt = new Date(service.clock.now()).toISOString();
    expect(first).toMatchObject({
      status: 200,
      body: { apiKey: { ...apiKey, state: 'revoked', revokedAt } },
    });
    service.clock.advance(5_000);
    const again = await revoke(browser, apiKey.id);
    expect(again.status).toBe(200);
    expect(again.body).toEqual(first.body);
    const actions = (await auditOf(database.db, organization.id)).map(({ action }) => action);
    expect(actions).toEqual(['api_key.created', 'api_key.revoked']);
  });

  it('five times concurrently writes one audit row', async () => {
    const { browser, organization } = await owner();
    const { id } = await createKey(database.db, organization.id);
    const answers = await Promise.all(Array.from({ length: 5 }, () => revoke(browser, id)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    expect(await auditOf(database.db, organization.id)).toHaveLength(1);
  });

  it('ends a key in grace and marks an expired one; the successor stays valid', async () => {
    const { browser, organization } = await owner();
    const old = (await create(browser)).body.apiKey.id;
    const next = (await rotate(browser, old)).body.apiKey.id;
    expect((await revoke(browser, old)).body.apiKey.state).toBe('revoked');
    expect((await read(browser, next)).state).toBe('active');
    const expired = await createKey(database.db, organization.id, { expiresAt: new Date('2021-01-01') });
    expect((await read(browser, expired.id)).state).toBe('expired');
    expect((await revoke(browser, expired.id)).body.apiKey.state).toBe('revoked');
  });
});

describe.runIf(isEmbedded)('permissions', () => {
  it.each(['member', 'billing'] as const)('let a %s read keys but not change them', async (role) => {
    const { browser, organization } = await signedIn(database.db, service.url, role);
    const { id } = await createKey(database.db, organization.id);
    expect((await browser.get(PATH)).body.apiKeys).toHaveLength(1);
    expect((await browser.get(`${PATH}/${id}`)).status).toBe(200);
    for (const answer of [await create(browser), await rotate(browser, id), await revoke(browser, id)])
      expect(answer).toMatchObject({ status: 403, body: { code: 'forbidden_role' } });
    expect((await browser.get(PATH)).body.apiKeys).toMatchObject([{ id, state: 'active' }]);
    expect(await auditOf(database.db, organization.id)).toEqual([]);
  });

  it('let an admin create, rotate and revoke keys', async () => {
    const { browser } = await signedIn(database.db, service.url, 'admin');
    const { id } = (await create(browser)).body.apiKey;
    expect((await rotate(browser, id)).status).toBe(201);
    expect((await revoke(browser, id)).status).toBe(200);
  });

  it('require a session; an API key is not enough', async () => {
    const { organization } = await owner();
    const { id, secret } = await createKey(database.db, organization.id);
    const stranger = new Browser(service.url);
    const headers = { authorization: `Bearer ${secret}` };
    for (const [method, path] of [
      ['GET', PATH],
      ['GET', `${PATH}/${id}`],
      ['POST', PATH],
      ['POST', `${PATH}/${id}/rotate`],
      ['DELETE', `${PATH}/${id}`],
    ] as const)
      expect(await stranger.send(method, path, { headers })).toMatchObject({
        status: 401,
        body: { code: 'not_signed_in' },
      });
  });

  it('hide other Organizations’ keys: they return 404, as does a malformed id', async () => {
    const { browser } = await owner();
    const foreign = await createKey(database.db, (await createOrganization(database.db)).id);
    const ids = [foreign.id, randomUUID(), 'x', '%01', '__proto__', '%F0%9F%91%BE', `${foreign.id}x`];
    for (const id of ids)
      for (const answer of [
        await browser.get(`${PATH}/${id}`),
        await rotate(browser, id),
        await revoke(browser, id),
      ])
        expect(answer).toMatchObject({ status: 404, body: { code: 'not_found' } });
    const [row] = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.id, foreign.id));
    expect(row).toMatchObject({ revokedAt: null, expiresAt: null });
  });
});

describe.runIf(isEmbedded)('the audit row', () => {
  it('records the change, the key, the author and the origin, but never the secret', async () => {
    const { browser, user, organization } = await owner();
    const headers = { 'x-request-id': 'request-of-the-test' };
    const created = await browser.send('POST', PATH, { json: { name: 'a name', livemode: false }, headers });
    const rotated = await rotate(browser, created.body.apiKey.id, { graceMinutes: 5 });
    await revoke(browser, created.body.apiKey.id);
    const rows = await auditOf(database.db, organization.id);
    const common = { actor: user.id, ip: '127.0.0.1' };
    const details = { name: 'a name', scopes: ['usage:write'], livemode: false };
    const { id, prefix } = created.body.apiKey;
    const successor = rotated.body.apiKey;
    expect(rows).toMatchObject([
      {
        ...common,
        action: 'api_key.created',
        target: id,
        requestId: 'request-of-the-test',
        details: { ...details, prefix },
      },
      {
        ...common,
        action: 'api_key.rotated',
        target: successor.id,
        details: { ...details, prefix: successor.prefix, previousId: id, graceMinutes: 5 },
      },
      { ...common, action: 'api_key.revoked', target: id, details: { ...details, prefix, state: 'grace' } },
    ]);
    const written = JSON.stringify(rows);
    for (const { secret } of [created.body, rotated.body]) expect(written).not.toContain(secret);
  });
});

async function useKey(secret: string, productSlug: string, url = service.url): Promise<number> {
  const response = await fetch(`${url}/api/usage/events`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ events: [{ productSlug, metric: 'calls', idempotencyKey: randomUUID() }] }),
  });
  await response.arrayBuffer();
  return response.status;
}
