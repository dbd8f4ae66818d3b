import { and, eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { hashFor, hashSecret } from '../../../src/accounts/api-keys/bearer-key.js';
import { apiKeys } from '../../../src/accounts/api-keys/table.js';
import { auditLog, operatorLog } from '../../../src/accounts/audit/table.js';
import { organizations } from '../../../src/accounts/organizations/table.js';
import { serviceKeys } from '../../../src/accounts/service-keys/table.js';
import { newFormId } from '../../../src/core/ids.js';
import { DAY_MS, MINUTE_MS } from '../../../src/core/time.js';
import { createTenant, usageEvent } from '../../metering/support/usage.js';
import { createOrganization } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { signedInOperator } from '../../support/operators.js';
import { useService, useServiceOn } from '../../support/use.js';

const { database, service } = useService();
const limited = useServiceOn(() => database.db, {
  env: { LIMIT_USAGE_PER_MINUTE: '2', LIMIT_SERVICE_PER_MINUTE: '6' },
});
const operate = operatorClient(() => service);

async function makeKey(scopes: string[], more: object = {}) {
  const { status, body } = await operate('POST', '/service-keys', {
    name: 'gateway',
    livemode: true,
    scopes,
    ...more,
  });
  expect(status).toBe(201);
  return body as { secret: string; serviceKey: { id: string } };
}

async function call(
  secret: string | undefined,
  method: string,
  path: string,
  body?: object,
  headers: object = {},
  url = service.url,
) {
  const response = await fetch(url + path, {
    method,
    headers: {
      ...(secret === undefined ? {} : { authorization: `Bearer ${secret}` }),
      ...(body ? { 'content-type': 'application/json' } : {}),
      ...headers,
    },
    ...(body ? { body: JSON.stringify(body) } : {}),
  });
  return {
    status: response.status,
    body: (await response.json()) as Record<string, any>,
    headers: response.headers,
  };
}

const at = (slug: string, path: string) => `/service/organizations/${slug}${path}`;
const events = (...list: object[]) => ({ events: list });

async function arrive(scopes = ['usage:write', 'usage:read', 'entitlements:read']) {
  const tenant = await createTenant(database.db);
  const { secret, serviceKey } = await makeKey(scopes);
  const { slug } = tenant.organization;
  const event = (key: string, more: object = {}) => usageEvent(tenant.product.slug, key, more);
  const send = (...list: object[]) => call(secret, 'POST', at(slug, '/usage/events'), events(...list));
  return { ...tenant, secret, id: serviceKey.id, slug, event, send };
}

describe('a service key', () => {
  it('reports for an Organization, counts once with its own keys, and is in the balance at once', async () => {
    const { slug, send, event, secret, key, product } = await arrive();
    expect(await send(event('a', { quantity: 2 }))).toMatchObject({ status: 202, body: { accepted: 1 } });
    const own = await call(key.secret, 'POST', '/api/usage/events', events(event('a', { quantity: 2 })));
    expect(own).toMatchObject({ status: 202, body: { accepted: 0, deduped: 1 } });
    const check = { productSlugs: [product.slug] };
    expect((await call(secret, 'POST', at(slug, '/entitlements/check'), check)).body.results[0].used).toBe(2);
    expect((await call(secret, 'GET', at(slug, '/usage/events/a'))).body).toMatchObject({ quantity: 2 });
  });

  it('has one row and one audit row in each Organization, made at its first use', async () => {
    const { organization, slug, id, secret } = await arrive();
    await Promise.all(['a', 'b', 'c'].map(() => call(secret, 'GET', at(slug, '/entitlements'))));
    const rows = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.serviceKeyId, id));
    expect(rows).toMatchObject([
      { orgId: organization.id, hashedSecret: hashFor(hashSecret(secret), slug), createdBy: null },
    ]);
    const isFirstUse = and(
      eq(auditLog.orgId, organization.id),
      eq(auditLog.action, 'service_key.first_used'),
    );
    expect(await database.db.orm.select().from(auditLog).where(isFirstUse)).toMatchObject([
      { actor: `service_key:${id}`, target: rows[0]!.id },
    ]);
  });

  it('stays out of the keys that the Organization manages', async () => {
    const { slug, secret, organization } = await arrive();
    await call(secret, 'GET', at(slug, '/entitlements'));
    const own = await database.db.orm.select().from(apiKeys).where(eq(apiKeys.orgId, organization.id));
    expect(own.filter(({ serviceKeyId }) => serviceKeyId !== null)).toHaveLength(1);
    const answer = await operate('GET', `/organizations/${slug}`);
    expect(answer.status).toBe(200);
  });

  it.each([
    ['an unknown Organization', () => 'nobody', 404, 'not_found'],
    ['a slug that cannot be one', () => '%20', 404, 'not_found'],
  ])('is refused for %s', async (_what, slugOf, status, code) => {
    const { secret } = await arrive();
    expect(await call(secret, 'GET', at(slugOf(), '/entitlements'))).toMatchObject({
      status,
      body: { code },
    });
  });

  it('is refused for an archived Organization, whether it used it before or not', async () => {
    const { secret, slug } = await arrive();
    const other = await createOrganization(database.db);
    expect((await call(secret, 'GET', at(slug, '/entitlements'))).status).toBe(200);
    for (const archived of [slug, other.slug]) {
      const { body } = await operate('GET', `/organizations/${archived}`);
      const { name } = body as { name: string };
      expect((await operate('PUT', `/organizations/${archived}`, { name, archived: true })).status).toBe(200);
      expect(await call(secret, 'GET', at(archived, '/entitlements'))).toMatchObject({
        status: 404,
        body: { code: 'not_found' },
      });
    }
    const isOther = eq(apiKeys.orgId, other.id);
    expect(await database.db.orm.select().from(apiKeys).where(isOther)).toEqual([]);
  });

  it('learns nothing about the Organizations without a valid secret', async () => {
    const { slug } = await arrive();
    const unknown = `service_live_${'x'.repeat(32)}`;
    for (const one of [slug, 'nobody'])
      expect(await call(unknown, 'GET', at(one, '/entitlements'))).toMatchObject({
        status: 401,
        body: { code: 'invalid_key' },
      });
  });

  it('and the key of an Organization each name the address of the other', async () => {
    const { secret, key, slug } = await arrive();
    expect((await call(secret, 'GET', '/api/entitlements')).body).toMatchObject({
      code: 'invalid_key',
      detail: expect.stringContaining('/service/organizations/{slug}/'),
    });
    for (const path of [at(slug, '/entitlements'), '/service/usage/events', '/service/keys/verify'])
      expect(
        (await call(key.secret, path.includes('organizations') ? 'GET' : 'POST', path)).body,
      ).toMatchObject({
        code: 'invalid_key',
        detail: expect.stringContaining('/api/'),
      });
  });

  it('is limited for each Organization, and as a whole', async () => {
    const { slug, secret } = await arrive();
    const { slug: other } = await createOrganization(database.db);
    const calls = async (one: string, count: number) => {
      const codes: unknown[] = [];
      for (let i = 0; i < count; i++)
        codes.push(
          (await call(secret, 'GET', at(one, '/usage/events/none'), undefined, {}, limited.url)).body.code,
        );
      return codes;
    };
    expect(await calls(slug, 3)).toEqual(['event_not_found', 'event_not_found', 'rate_limited']);
    expect(await calls(other, 3)).toEqual(['event_not_found', 'event_not_found', 'rate_limited']);
    const last = await call(secret, 'GET', at(other, '/entitlements'), undefined, {}, limited.url);
    expect(last.body.detail).toMatch(/^This service key can make 6 calls a minute/);
  });

  it('has its scopes only', async () => {
    const { slug, send, event } = await arrive(['entitlements:read']);
    expect(await send(event('a'))).toMatchObject({ status: 403, body: { code: 'insufficient_scope' } });
    const { secret } = await makeKey(['usage:write']);
    expect(await call(secret, 'GET', at(slug, '/entitlements'))).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
  });

  it('may correct for an Organization that may not', async () => {
    const { slug, secret, send, event, organization } = await arrive(['usage:write', 'usage:correct']);
    await database.db.orm
      .update(organizations)
      .set({ mayCorrect: false })
      .where(eq(organizations.id, organization.id));
    await send(event('wrong', { quantity: 5 }));
    const corrections = [
      { idempotencyKey: 'wrong', quantity: 1, reason: 'Counted twice', correctionKey: 'c1' },
    ];
    const answer = await call(secret, 'POST', at(slug, '/usage/corrections'), { corrections });
    expect(answer).toMatchObject({ status: 200, body: { applied: 1 } });
  });

  it('sends events up to 400 days old with usage:backfill alone', async () => {
    const old = { occurredAt: new Date(service.clock.now() - 60 * DAY_MS).toISOString() };
    const narrow = await arrive();
    expect(await narrow.send(narrow.event('old', old))).toMatchObject({
      status: 422,
      body: { code: 'timestamp_out_of_range' },
    });
    const { send, event, key, secret, slug } = await arrive(['usage:write', 'usage:read', 'usage:backfill']);
    expect(await send(event('old', old), event('new'))).toMatchObject({ status: 202, body: { accepted: 2 } });
    expect(await send(event('old', old))).toMatchObject({ status: 202, body: { deduped: 1 } });
    const tooOld = { occurredAt: new Date(service.clock.now() - 401 * DAY_MS).toISOString() };
    expect(await send(event('older', tooOld))).toMatchObject({
      status: 422,
      body: { code: 'timestamp_out_of_range' },
    });
    expect((await call(key.secret, 'POST', '/api/usage/events', events(event('own', old)))).status).toBe(422);
    const { apiKeyId } = (await call(secret, 'GET', at(slug, '/usage/events/old'))).body;
    const isKey = eq(apiKeys.id, apiKeyId as string);
    expect(await database.db.orm.select().from(apiKeys).where(isKey)).toMatchObject([{ name: 'gateway' }]);
  });
});

describe('a change of a service key', () => {
  it('ends it for every Organization at once', async () => {
    const { secret, id, slug } = await arrive();
    const other = await createTenant(database.db);
    for (const one of [slug, other.organization.slug])
      expect((await call(secret, 'GET', at(one, '/entitlements'))).status).toBe(200);
    expect(await operate('DELETE', `/service-keys/${id}`)).toMatchObject({
      status: 200,
      body: { serviceKey: { state: 'revoked' } },
    });
    const third = await createOrganization(database.db);
    for (const one of [slug, other.organization.slug, third.slug])
      expect(await call(secret, 'GET', at(one, '/entitlements'))).toMatchObject({
        status: 401,
        body: { code: 'key_revoked' },
      });
    expect((await call(secret, 'POST', '/service/usage/events', events({ organization: slug }))).status).toBe(
      401,
    );
    expect(await operate('DELETE', `/service-keys/${id}`)).toMatchObject({ status: 200 });
    const rows = await database.db.orm.select().from(operatorLog).where(eq(operatorLog.target, id));
    expect(rows.map(({ action }) => action)).toEqual(['service_key.created', 'service_key.revoked']);
    expect(JSON.stringify(rows)).not.toContain(secret);
  });

  it('also ends what first uses are just opening', async () => {
    const { secret, id } = await arrive();
    const tenants = await Promise.all(Array.from({ length: 20 }, () => createTenant(database.db)));
    const use = ({ organization, product }: (typeof tenants)[number], key: string) =>
      call(secret, 'POST', at(organization.slug, '/usage/events'), events(usageEvent(product.slug, key)));
    const uses = tenants.map((tenant) => use(tenant, 'first'));
    const revoked = await operate('DELETE', `/service-keys/${id}`);
    expect(revoked.status).toBe(200);
    const later = await Promise.all(tenants.map((tenant) => use(tenant, 'later')));
    expect(later.map(({ status, body }) => [status, body.code])).toEqual(
      tenants.map(() => [401, 'key_revoked']),
    );
    for (const { status } of await Promise.all(uses)) expect([202, 401]).toContain(status);
  });

  it('gives the old key its grace, in every Organization', async () => {
    const { secret, id, slug } = await arrive();
    const read = (one: string) => call(one, 'GET', at(slug, '/entitlements'));
    expect((await read(secret)).status).toBe(200);
    const rotated = await operate('POST', `/service-keys/${id}/rotate`, { graceMinutes: 5 });
    expect(rotated).toMatchObject({ status: 201, body: { previous: { id, state: 'grace' } } });
    const { secret: next } = rotated.body as { secret: string };
    for (const one of [secret, next]) expect((await read(one)).status).toBe(200);
    expect(await operate('POST', `/service-keys/${id}/rotate`)).toMatchObject({
      status: 409,
      body: { code: 'key_already_rotated' },
    });
    service.clock.advance(5 * MINUTE_MS);
    expect(await read(secret)).toMatchObject({ status: 401, body: { code: 'key_expired' } });
    expect((await read(next)).status).toBe(200);
  });

  it('stores the hash of the secret, and lists what is not secret', async () => {
    const expiresAt = new Date(service.clock.now() + DAY_MS).toISOString();
    const { secret, serviceKey } = await makeKey(['keys:verify'], { expiresAt });
    expect(secret).toMatch(/^service_live_[0-9A-Za-z]{32}$/);
    const [row] = await database.db.orm.select().from(serviceKeys).where(eq(serviceKeys.id, serviceKey.id));
    expect(row).toMatchObject({ hashedSecret: hashSecret(secret), prefix: secret.slice(0, 16) });
    const list = await operate('GET', '/service-keys?limit=1');
    expect(list.body).toMatchObject({ serviceKeys: [{ id: serviceKey.id, state: 'active', expiresAt }] });
    expect(JSON.stringify(list.body)).not.toContain(secret.slice(16));
  });

  it.each([
    [{ scopes: [] }, '/scopes'],
    [{ scopes: ['usage:write', 'usage:write'] }, '/scopes'],
    [{ scopes: ['trading:write'] }, '/scopes/0'],
    [{ expiresAt: '2001-01-01T00:00:00Z' }, '/expiresAt'],
    [{ name: ' ' }, '/name'],
    [{ livemode: undefined }, '/livemode'],
  ])('refuses %o', async (bad, pointer) => {
    const input = { name: 'gateway', livemode: true, scopes: ['usage:write'], ...bad };
    const { status, body } = await operate('POST', '/service-keys', input);
    expect({ status, body }).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  });
});

it('shows the secret with a first call that the new key may make for a customer', async () => {
  const { browser } = await signedInOperator(service);
  const tenant = await createTenant(database.db);
  const create = async (scopes: string, livemode: string) => {
    const form = { id: newFormId(service.clock.now()), name: 'gateway', livemode, scopes, expiry: 'never' };
    const path = '/console/service-keys/new';
    return (await browser.send('POST', path, { form, headers: { accept: 'text/html' } })).text;
  };
  const headers = { accept: 'text/html' };
  const { text: blank } = await browser.get('/console/service-keys/new', headers);
  expect(blank).toMatch(/value="365"[^>]*checked/);
  expect(blank).toMatch(/value="gateway"[^>]*checked/);
  const chosen = {
    id: newFormId(service.clock.now()),
    name: 'billing',
    livemode: 'true',
    preset: 'billing',
    expiry: 'never',
  };
  await browser.send('POST', '/console/service-keys/new', { form: chosen, headers });
  const { text: list } = await browser.get('/console/service-keys', headers);
  expect(list).toMatch(/<bdi>billing<\/bdi>.*?usage:read.*?entitlements:read/s);
  const live = await create('usage:read', 'true');
  expect(live).toContain('Secret of the live key');
  const [, path] = /(\/service\/organizations\/[\w-]+\/usage\?from=[\d-]+&(?:amp;)?to=[\d-]+)/.exec(live)!;
  const secret = /service_live_\w+/.exec(live)![0];
  const asked = path!
    .replaceAll('&amp;', '&')
    .replace(/organizations\/[^/]+/, `organizations/${tenant.organization.slug}`);
  expect((await call(secret, 'GET', asked)).status).toBe(200);
  const test = await create('entitlements:read', 'false');
  expect(test).toContain('Secret of the test key');
  expect(test).toMatch(/\/service\/organizations\/[\w-]+\/entitlements/);
  expect(await create('keys:verify', 'true')).not.toContain('Try it');
});
