import { and, eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { apiKeyCalls, apiKeys } from '../../../src/accounts/api-keys/table.js';
import { products } from '../../../src/metering/entitlements/table.js';
import { createKey } from '../../support/fixtures.js';
import { operatorClient } from '../../support/operator.js';
import { useService } from '../../support/use.js';
import { createTenant, sendUsage, usageEvent } from '../support/usage.js';

const { database, service } = useService();
const operate = operatorClient(() => service);

async function arrive(scopes = ['keys:verify']) {
  const { body } = await operate('POST', '/service-keys', { name: 'gateway', livemode: true, scopes });
  const { secret: own } = body as { secret: string };
  const tenant = await createTenant(database.db);
  const key = await createKey(database.db, tenant.organization.id, { scopes: ['usage:write'] });
  const verify = async (input: object, secret = own) => {
    const response = await fetch(`${service.url}/service/keys/verify`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      body: JSON.stringify(input),
    });
    return { status: response.status, body: (await response.json()) as Record<string, any> };
  };
  return { ...tenant, verify, key };
}

describe('verifying a key', () => {
  it('says whose it is, and counts as a use of it', async () => {
    const { verify, key, organization } = await arrive();
    expect(await verify({ secret: key.secret, scope: 'usage:write' })).toMatchObject({
      status: 200,
      body: {
        valid: true,
        code: null,
        organization: organization.slug,
        keyId: key.id,
        scopes: ['usage:write'],
        livemode: true,
        expiresAt: null,
      },
    });
    await service.services.keyUse.flush();
    const isKey = and(eq(apiKeyCalls.orgId, organization.id), eq(apiKeyCalls.apiKeyId, key.id));
    expect(await database.db.orm.select().from(apiKeyCalls).where(isKey)).toMatchObject([{ calls: 1 }]);
  });

  it('is false from the next call after a revocation', async () => {
    const { verify, key, organization } = await arrive();
    expect((await verify({ secret: key.secret })).body.valid).toBe(true);
    const isKey = and(eq(apiKeys.orgId, organization.id), eq(apiKeys.id, key.id));
    await database.db.orm
      .update(apiKeys)
      .set({ revokedAt: new Date(service.clock.now()) })
      .where(isKey);
    expect((await verify({ secret: key.secret })).body).toMatchObject({
      valid: false,
      code: 'key_revoked',
      keyId: key.id,
    });
  });

  it.each(['nonsense', `org_live_${'x'.repeat(32)}`, `service_live_${'x'.repeat(32)}`])(
    '%s is no key',
    async (secret) => {
      const { verify } = await arrive();
      expect(await verify({ secret })).toEqual({
        status: 200,
        body: {
          valid: false,
          code: 'invalid_key',
          organization: null,
          keyId: null,
          name: null,
          scopes: [],
          livemode: null,
          expiresAt: null,
        },
      });
    },
  );

  it('names what the key lacks', async () => {
    const { verify, key, product } = await arrive();
    expect((await verify({ secret: key.secret, scope: 'usage:read' })).body).toMatchObject({
      valid: false,
      code: 'insufficient_scope',
    });
    expect((await verify({ secret: key.secret, productSlug: 'other' })).body).toMatchObject({
      valid: false,
      code: 'entitlement_required',
      entitlement: { productSlug: 'other', allowed: false },
    });
    expect((await verify({ secret: key.secret, productSlug: product.slug })).body).toMatchObject({
      valid: true,
      entitlement: { allowed: true },
    });
  });

  it('judges the quantity as a check does', async () => {
    const { verify, key, product, organization } = await arrive();
    const limits = [
      { quantity: 10, window: 'PT1H', enforcement: 'block' },
      { quantity: 4, window: 'PT1H', enforcement: 'block', per: 'subject' },
    ];
    const isProduct = eq(products.id, product.id);
    await database.db.orm
      .update(products)
      .set({ subjectsSince: new Date(0) })
      .where(isProduct);
    const put = await operate('PUT', `/organizations/${organization.slug}/entitlements/${product.slug}`, {
      kind: 'live',
      limits,
    });
    expect(put.body).toMatchObject({ limits });
    await sendUsage(service.url, key.secret, [usageEvent(product.slug, 'a', { quantity: 7 })]);
    const ask = async (more: object) =>
      (await verify({ secret: key.secret, productSlug: product.slug, ...more })).body;
    expect(await ask({ quantity: 3 })).toMatchObject({ valid: true });
    expect(await ask({ quantity: 3.0001 })).toMatchObject({
      valid: false,
      code: 'limit_reached',
      entitlement: { used: 7 },
    });
    expect(await ask({ quantity: 3, subject: 'ann' })).toMatchObject({ valid: true });
    await sendUsage(service.url, key.secret, [
      usageEvent(product.slug, 'b', { quantity: 2, subject: 'ann' }),
    ]);
    expect(await ask({ quantity: 1, subject: 'ann' })).toMatchObject({
      valid: true,
      entitlement: { limits: [{ used: 9 }, { used: 2, subject: 'ann' }] },
    });
    expect(await ask({ quantity: 3, subject: 'ann' })).toMatchObject({ valid: false, code: 'limit_reached' });
  });

  it('tells a caller without a valid service key nothing', async () => {
    const { verify, key } = await arrive(['usage:write']);
    expect(await verify({ secret: key.secret })).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
    expect(await verify({ secret: key.secret }, `service_live_${'y'.repeat(32)}`)).toMatchObject({
      status: 401,
      body: { code: 'invalid_key' },
    });
    expect(await verify({ nothing: 1 }, `service_live_${'y'.repeat(32)}`)).toMatchObject({ status: 401 });
  });

  it.each([
    [{}, '/secret'],
    [{ secret: 'a', quantity: 1 }, '/productSlug'],
    [{ secret: 'a', productSlug: 'p', quantity: -1 }, '/quantity'],
    [{ secret: 'a', scope: 'keys:verify' }, '/scope'],
  ])('refuses %j', async (input, pointer) => {
    const { verify } = await arrive();
    expect(await verify(input)).toMatchObject({ status: 400, body: { errors: [{ pointer }] } });
  });
});
