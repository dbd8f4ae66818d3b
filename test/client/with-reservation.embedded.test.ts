import { expect, it } from 'vitest';
import {
  createGaugeClient,
  CreditsExhaustedError,
  listCreditEntries,
  RefusedError,
  withReservation,
  type CreditsOverdrawn,
} from '../../src/client/client.js';
import { createKey, createOrganization } from '../support/fixtures.js';
import { addGrant } from '../metering/support/credits.js';
import { createProduct, grant } from '../metering/support/products.js';
import { readUsage } from '../metering/support/usage.js';
import { useService } from '../support/use.js';

const { database, service } = useService();

/** @param lost numbers of the calls whose responses are lost */
async function tenant(lost: number[] = []) {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db);
  const limits = [{ quantity: '10', window: 'PT1H', enforcement: 'block' as const }];
  await grant(database.db, organization.id, product.id, { limits });
  const { secret } = await createKey(database.db, organization.id);
  let calls = 0;
  const client = createGaugeClient({
    baseUrl: service.url,
    apiKey: secret,
    fetch: async (request) => {
      const answer = await globalThis.fetch(request);
      if (lost.includes(calls++)) throw new TypeError('the connection was lost');
      return answer;
    },
  });
  const input = { productSlug: product.slug, metric: 'calls', quantity: 8, idempotencyKey: 'work' };
  const list = async () => (await client.GET('/api/usage/reservations', {})).data!.reservations;
  return { orgId: organization.id, client, input, list };
}

it('reserves, runs and records the units used, even if answers are lost', async () => {
  const { orgId, client, input, list } = await tenant([0, 2]);
  const result = await withReservation(client, input, async ({ status }) => {
    expect(status).toBe('held');
    return Promise.resolve({ used: 3.5, result: 'done' });
  });
  expect(result).toBe('done');
  expect(await list()).toMatchObject([{ status: 'settled', settledQuantity: 3.5 }]);
  const { events } = await readUsage(database.db, orgId);
  expect(events.map(({ key, quantity }) => [key, quantity])).toEqual([['work', '3.5']]);
});

it.each([
  ['fails', () => Promise.reject(new Error('the model is away'))],
  [
    'throws before it returns a promise',
    () => {
      throw new Error('the model is away');
    },
  ],
])('releases the hold if the work %s', async (_how, run) => {
  const { orgId, client, input, list } = await tenant();
  await expect(withReservation(client, input, run)).rejects.toThrow('the model is away');
  expect(await list()).toMatchObject([{ status: 'released' }]);
  expect((await readUsage(database.db, orgId)).events).toEqual([]);
});

it('does not run the work if there is no headroom', async () => {
  const { client, input } = await tenant();
  const refused = withReservation(client, { ...input, quantity: 11 }, () =>
    Promise.reject(new Error('was run')),
  );
  await expect(refused).rejects.toThrow(RefusedError);
  await expect(refused).rejects.toMatchObject({
    problem: { code: 'limit_reached', limit: { remaining: 10 } },
  });
});

it('names the credits that are missing, and lists the ledger page by page', async () => {
  const { db } = database;
  const { id: orgId } = await createOrganization(db);
  const product = await createProduct(db, { creditPrice: '0.25', creditEnforcement: 'block' });
  await grant(db, orgId, product.id);
  await addGrant(db, orgId, { amount: '1' }, new Date(service.clock.now()));
  const { secret } = await createKey(db, orgId, { scopes: ['usage:write', 'usage:read'] });
  const client = createGaugeClient({ baseUrl: service.url, apiKey: secret });
  const call = { productSlug: product.slug, metric: 'calls' };
  const refused = withReservation(client, { ...call, quantity: 5, idempotencyKey: 'work' }, () =>
    Promise.reject(new Error('was run')),
  );
  await expect(refused).rejects.toThrow(CreditsExhaustedError);
  await expect(refused).rejects.toMatchObject({ required: 1.25, available: 1 });
  for (const idempotencyKey of ['a', 'b', 'c']) {
    service.clock.advance(1_000);
    const { data } = await client.POST('/api/usage/events', {
      body: { events: [{ ...call, idempotencyKey }] },
    });
    expect(data?.warnings).toEqual([]);
  }
  const { data } = await client.POST('/api/usage/events', {
    body: { events: [{ ...call, quantity: 2, idempotencyKey: 'd' }] },
  });
  const isOverdrawn = (one: { code: string }): one is CreditsOverdrawn => one.code === 'credits_overdrawn';
  expect(data?.warnings.filter(isOverdrawn).map(({ overdraft }) => overdraft)).toEqual([0.25]);
  const entries = [];
  for await (const { kind, amount } of listCreditEntries(client, { limit: 2 })) entries.push([kind, amount]);
  // The last two events were received at the same time, so they share one entry.
  expect(entries).toHaveLength(4);
  expect(entries).toContainEqual(['burn', 0.5]);
});

it('also pauses if Retry-After is a date', async () => {
  const calledAt: number[] = [];
  const client = createGaugeClient({
    baseUrl: service.url,
    apiKey: 'org_live_any',
    fetch: () => {
      calledAt.push(Date.now());
      const isFirst = calledAt.length === 1;
      const headers = { 'retry-after': new Date().toUTCString() };
      return Promise.resolve(
        Response.json({ code: 'key_revoked' }, isFirst ? { status: 503, headers } : { status: 401 }),
      );
    },
  });
  const input = { productSlug: 'any', metric: 'any', quantity: 1, idempotencyKey: 'any' };
  await expect(withReservation(client, input, () => Promise.reject(new Error()))).rejects.toThrow(
    RefusedError,
  );
  expect(calledAt[1]! - calledAt[0]!).toBeGreaterThan(90);
});
