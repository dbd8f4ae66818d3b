import { describe, expect, it } from 'vitest';
import type { components } from '../../src/client/api.js';
import { createGaugeClient, OtherModeError } from '../../src/client/client.js';
import { createKey, createOrganization } from '../support/fixtures.js';
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
