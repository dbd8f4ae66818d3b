import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createKey, createOrganization, createProduct, grant } from '../support/fixtures.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { startTestService, type TestService } from '../support/service.js';

let database: TestDatabase;
let service: TestService;
beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

interface Answer {
  status: number;
  body: any;
  headers: Headers;
}

async function send(
  secret: string,
  events: unknown,
  headers: Record<string, string> = {},
  query = '',
): Promise<Answer> {
  const response = await fetch(`${service.url}/api/usage/events${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ events }),
  });
  return { status: response.status, body: await response.json(), headers: response.headers };
}

async function entitled(cap: string | null = null) {
  const organization = await createOrganization(database.db);
  const product = await createProduct(database.db, { unitCap: cap });
  await grant(database.db, organization.id, product.id);
  const key = await createKey(database.db, organization.id);
  return { organization, product, key };
}

const event = (productSlug: string, idempotencyKey: string, more: object = {}) => ({
  productSlug,
  metric: 'calls',
  idempotencyKey,
  ...more,
});

describe('POST /api/usage/events', () => {
  it('counts a repeated event once', async () => {
    const { product, key } = await entitled();
    const first = await send(key.secret, [
      event(product.slug, 'a'),
      event(product.slug, 'b', { quantity: 2.5 }),
      event(product.slug, 'a'),
    ]);
    expect(first).toMatchObject({ status: 202, body: { accepted: 2, deduped: 1, warnings: [] } });
    const again = await send(key.secret, [
      event(product.slug, 'a'),
      event(product.slug, 'b', { quantity: 3 }),
    ]);
    expect(again.body).toEqual({
      accepted: 0,
      deduped: 2,
      warnings: [{ code: 'duplicate_mismatch', index: 1 }],
    });
  });

  it('warns above the cap with the exact total', async () => {
    const { product, key } = await entitled('10');
    const answer = await send(key.secret, [
      event(product.slug, 'a', { quantity: 10.1 }),
      event(product.slug, 'b', { quantity: 0.2 }),
    ]);
    expect(answer.body).toMatchObject({
      accepted: 2,
      warnings: [{ code: 'unit_cap_exceeded', unitCap: 10, used: 10.3 }],
    });
  });

  it('refuses a strict batch whole and lists every broken rule', async () => {
    const { product, key } = await entitled();
    const answer = await send(key.secret, [
      event(product.slug, 'a'),
      event('unknown', 'b'),
      event(product.slug, 'c', { metric: 'bytes' }),
      event(product.slug, 'd', { occurredAt: '2020-01-01T00:00:00Z' }),
    ]);
    expect(answer.status).toBe(403);
    expect(answer.body).toMatchObject({
      code: 'entitlement_required',
      errors: [{ index: 1 }, { index: 2, code: 'unknown_metric' }, { index: 3 }],
    });
    const lenient = await send(key.secret, [event(product.slug, 'a'), event('unknown', 'b')], {
      prefer: 'handling=lenient',
    });
    expect(lenient.body).toMatchObject({
      accepted: 1,
      deduped: 0,
      rejected: [{ index: 1, code: 'entitlement_required' }],
    });
  });

  it('a dry run records nothing', async () => {
    const { product, key } = await entitled();
    expect((await send(key.secret, [event(product.slug, 'a')], {}, '?dryRun=true')).body.accepted).toBe(1);
    expect((await send(key.secret, [event(product.slug, 'a')])).body.accepted).toBe(1);
  });
});
