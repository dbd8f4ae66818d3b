import { describe, expect, it } from 'vitest';
import type { components } from '../../src/client/api.js';
import { createGaugeClient, OtherModeError, withReservation } from '../../src/client/client.js';
import { createKey, createOrganization, createServiceKey } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { useService } from '../support/use.js';

const { database, service } = useService();

async function entitled() {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db);
  await grant(database.db, organization.id, product.id);
  const { secret } = await createKey(database.db, organization.id);
  return { product, client: createGaugeClient({ baseUrl: service.url, apiKey: secret }) };
}

// `npm run types` checks that the lines marked `@ts-expect-error` do not compile.
describe('a client with the generated types', () => {
  it('sends events and narrows the answer by its status', async () => {
    const { client, product } = await entitled();
    const event = { productSlug: product.slug, metric: 'calls', idempotencyKey: 'a' };
    const { data, error } = await client.POST('/api/usage/events', { body: { events: [event] } });
    expect([data?.accepted, data?.deduped, error]).toEqual([1, 0, undefined]);
    // @ts-expect-error responses have no such field
    expect(data?.recorded).toBeUndefined();
  });

  it('throws if a live event reuses the key of a test event, and returns the outcome of the others', async () => {
    const organization = await createOrganization(database.db);
    const product = await createProduct(database.db);
    await grant(database.db, organization.id, product.id);
    const record = async (livemode: boolean, ...keys: string[]) => {
      const { secret } = await createKey(database.db, organization.id, { livemode });
      const client = createGaugeClient({ baseUrl: service.url, apiKey: secret });
      const events = keys.map((idempotencyKey) => ({
        productSlug: product.slug,
        metric: 'calls',
        idempotencyKey,
      }));
      return client.POST('/api/usage/events', { body: { events } });
    };
    expect((await record(false, 'a', 'b')).data?.accepted).toBe(2);
    const failure: unknown = await record(true, 'c', 'a', 'b').catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(OtherModeError);
    expect(failure).toMatchObject({ indexes: [1, 2], answer: { accepted: 1, deduped: 2 } });
    expect((await record(true, 'c')).data).toMatchObject({ deduped: 1, warnings: [] });
  });

  it('does not compile with a field unknown to the route, which the service also refuses', async () => {
    const { client, product } = await entitled();
    const event = {
      productSlug: product.slug,
      metric: 'calls',
      idempotencyKey: 'a',
      // @ts-expect-error the field is called quantity
      amount: 1,
    } satisfies components['schemas']['UsageEvent'];
    const { error } = await client.POST('/api/usage/events', { body: { events: [event] } });
    expect(error?.errors).toMatchObject([{ pointer: '/events/0/amount' }]);
  });

  it('does not compile with a field of the wrong type, a missing required field, or an unknown route', async () => {
    const { client, product } = await entitled();
    const event = { productSlug: product.slug, metric: 'calls', idempotencyKey: 'a' };
    const wrong = { ...event, quantity: '1' };
    // @ts-expect-error a quantity is a number
    const { error } = await client.POST('/api/usage/events', { body: { events: [wrong] } });
    expect(error?.code).toBe('invalid_request');
    // @ts-expect-error a required field is missing
    await client.POST('/api/usage/events', { body: { events: [{ productSlug: product.slug }] } });
    // @ts-expect-error there is no such route
    await client.GET('/api/usage/totals');
  });

  it('reads usage by the dimensions of a product', async () => {
    const organization = await createOrganization(database.db);
    const product = await createProduct(database.db, { dimensions: ['model'] });
    await grant(database.db, organization.id, product.id);
    const { secret } = await createKey(database.db, organization.id, {
      scopes: ['usage:write', 'usage:read'],
    });
    const client = createGaugeClient({ baseUrl: service.url, apiKey: secret });
    const events = ['small', 'large'].map((model) => ({
      productSlug: product.slug,
      metric: 'calls',
      idempotencyKey: model,
      dimensions: { model },
    }));
    await client.POST('/api/usage/events', { body: { events } });
    const from = new Date(service.clock.now()).toISOString().slice(0, 10);
    const to = new Date(Date.parse(from) + 86_400_000).toISOString().slice(0, 10);
    const query = { from, to, productSlug: product.slug };
    const { data } = await client.GET('/api/usage', {
      params: { query: { ...query, 'dimension.model': 'large' } },
    });
    expect(data?.series.map(({ total }) => total)).toEqual([1]);
    // @ts-expect-error a dimension value is a string
    await client.GET('/api/usage', { params: { query: { ...query, 'dimension.model': 1 } } });
  });

  it('knows which codes an error of the route may have', async () => {
    const { client } = await entitled();
    const params = { path: { productSlug: 'unknown' } };
    const { error, response } = await client.GET('/api/entitlements/{productSlug}', { params });
    expect([response.status, error?.code]).toEqual([404, 'entitlement_not_found']);
    // @ts-expect-error this route never returns that code
    expect(error?.code === 'unknown_metric').toBe(false);
  });
});

describe('a client with a service key', () => {
  async function serving(livemode = true) {
    const [organization, other] = [
      await createOrganization(database.db),
      await createOrganization(database.db),
    ];
    const product = await createProduct(database.db);
    for (const { id } of [organization, other]) await grant(database.db, id, product.id);
    const scopes = ['usage:write', 'usage:read', 'entitlements:read', 'keys:verify'];
    const { secret } = await createServiceKey(database.db, scopes, livemode);
    // A base URL may be written in several ways.
    const baseUrl = `${service.url.replace('http:', 'HTTP:')}/`;
    const gauge = createGaugeClient({ baseUrl, serviceKey: secret });
    const event = (idempotencyKey: string) => ({
      productSlug: product.slug,
      metric: 'calls',
      idempotencyKey,
    });
    return { gauge, acme: organization, globex: other, product, event };
  }

  it('acts for the Organization that a call names, with the types of its own calls', async () => {
    const { gauge, acme, globex, product, event } = await serving();
    const own = gauge.forOrganization(acme.slug);
    const { data } = await own.POST('/api/usage/events', { body: { events: [event('a'), event('b')] } });
    expect(data?.accepted).toBe(2);
    const params = { path: { idempotencyKey: 'a' } };
    expect((await own.GET('/api/usage/events/{idempotencyKey}', { params })).response.status).toBe(200);
    const other = gauge.forOrganization(globex.slug);
    expect((await other.GET('/api/usage/events/{idempotencyKey}', { params })).response.status).toBe(404);
    const input = { ...event('work'), quantity: 5 };
    expect(await withReservation(other, input, async () => ({ used: 3, result: 'done' }))).toBe('done');
    const used = async (client: typeof own) => {
      const path = { productSlug: product.slug };
      return (await client.GET('/api/entitlements/{productSlug}', { params: { path } })).data?.used;
    };
    expect([await used(own), await used(other)]).toEqual([2, 3]);
    const { error } = await gauge.forOrganization('no/body').GET('/api/credits');
    expect(error).toMatchObject({ code: 'not_found', detail: 'There is no Organization "no/body".' });
  });

  it('sends events of many Organizations, and verifies keys', async () => {
    const { gauge, acme, globex, event } = await serving();
    const events = [acme.slug, globex.slug, 'nobody'].map((organization) => ({
      ...event('a'),
      organization,
    }));
    const { data } = await gauge.POST('/service/usage/events', { body: { events } });
    expect(data).toMatchObject({ accepted: 2, refused: [{ organization: 'nobody', status: 404 }] });
    const { secret } = await createKey(database.db, acme.id);
    const body = { secret, scope: 'usage:read' } as const;
    const verified = await gauge.POST('/service/keys/verify', { body });
    expect(verified.data).toMatchObject({
      valid: false,
      code: 'insufficient_scope',
      organization: acme.slug,
    });
    const { error } = await gauge.GET('/api/entitlements');
    expect(error).toMatchObject({
      code: 'invalid_key',
      detail: expect.stringContaining('/service/organizations'),
    });
  });

  it('throws if a live event reuses the key of a test event, and names warnings by Organization', async () => {
    const { acme, product, event } = await serving();
    for (const livemode of [false, true]) {
      const { secret } = await createServiceKey(database.db, ['usage:write'], livemode);
      const gauge = createGaugeClient({ baseUrl: service.url, serviceKey: secret });
      const events = ['a', `${livemode}`].map((key) => ({ ...event(key), organization: acme.slug }));
      const sent = gauge.POST('/service/usage/events', { body: { events } });
      if (!livemode) expect((await sent).data?.accepted).toBe(2);
      else await expect(sent).rejects.toMatchObject({ name: 'OtherModeError', indexes: [0] });
      const again = gauge.POST('/service/usage/events', {
        body: { events: [{ ...events[1]!, quantity: 7, productSlug: product.slug }] },
      });
      const [warning] = (await again).data!.warnings;
      expect([warning?.organization, warning?.code]).toEqual([acme.slug, 'duplicate_mismatch']);
    }
  });
});
