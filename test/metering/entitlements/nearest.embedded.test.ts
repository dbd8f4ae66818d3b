import { beforeAll, describe, expect, it } from 'vitest';
import { createKey, createOrganization } from '../../support/fixtures.js';
import { createProduct, grant } from '../support/products.js';
import { sendUsage, usageEvent } from '../support/usage.js';
import { useService } from '../../support/use.js';

const { database, service } = useService();
let secret: string;

beforeAll(async () => {
  const [ours, theirs] = [await createOrganization(database.db), await createOrganization(database.db)];
  const [forecast, radar, archive] = [
    await createProduct(database.db, { slug: 'forecast-api' }),
    await createProduct(database.db, { slug: 'radar-tiles' }),
    await createProduct(database.db, { slug: 'old-archive' }),
  ];
  await grant(database.db, ours.id, forecast.id);
  await grant(database.db, ours.id, archive.id, { kind: 'read_only' });
  await grant(database.db, theirs.id, radar.id);
  ({ secret } = await createKey(database.db, ours.id));
});

async function ask(path: string, authorization?: string) {
  const response = await fetch(service.url + path, { headers: authorization ? { authorization } : {} });
  return {
    status: response.status,
    ...((await response.json()) as { code: string; detail: string }),
  };
}

describe("a product slug close to one of the Organization's own", () => {
  it('is refused with a question that names the intended slug', async () => {
    const answer = await ask('/api/entitlements/forcast-api', `Bearer ${secret}`);
    expect(answer).toMatchObject({
      code: 'entitlement_not_found',
      detail: 'No entitlement for the product forcast-api is in effect. Did you mean "forecast-api"?',
    });
  });

  it('gets the question in a refused batch, in a lenient one and in a dry run', async () => {
    const detail = 'There is no live entitlement for the product Forecast-APi. Did you mean "forecast-api"?';
    const events = [usageEvent('Forecast-APi', 'nearest')];
    const strict = await sendUsage(service.url, secret, events);
    expect([strict.status, strict.body.errors[0].detail]).toEqual([403, detail]);
    expect(strict.body.detail).toBe(`Nothing was recorded. Event 0: ${detail}`);
    for (const options of [{ lenient: true }, { lenient: true, dryRun: true }]) {
      const { body } = await sendUsage(service.url, secret, events, options);
      expect(body.rejected).toEqual([{ index: 0, code: 'entitlement_required', detail }]);
    }
  });

  it('gets no question if another Organization owns it, none is close, or it cannot be used', async () => {
    for (const slug of ['radar-tile', 'radar-tiles', 'storage', 'f', 'x'.repeat(255)]) {
      const { detail } = await ask(`/api/entitlements/${slug}`, `Bearer ${secret}`);
      expect(detail).toBe(`No entitlement for the product ${slug} is in effect.`);
    }
    const { body } = await sendUsage(service.url, secret, [usageEvent('old-archiv', 'none')]);
    expect(body.errors[0].detail).toBe('There is no live entitlement for the product old-archiv.');
  });

  it('reveals nothing to a caller without a valid key', async () => {
    const unknown = `org_live_${'0'.repeat(32)}`;
    for (const authorization of [undefined, `Bearer ${unknown}`]) {
      const answer = await ask('/api/entitlements/forcast-api', authorization);
      expect([answer.status, JSON.stringify(answer).includes('forecast-api')]).toEqual([401, false]);
    }
    const { body } = await sendUsage(service.url, unknown, [usageEvent('forcast-api', 'unknown')]);
    expect(JSON.stringify(body)).not.toContain('forecast-api');
  });
});

describe('an Authorization header without the word Bearer', () => {
  it.each(['/api/entitlements', '/api/key', '/portfolio'])('is explained at %s', async (path) => {
    for (const authorization of [secret, `Basic ${secret}`, 'anything']) {
      expect(await ask(path, authorization)).toMatchObject({
        status: 401,
        code: 'invalid_key',
        detail: 'Send the API key as `Authorization: Bearer org_live_…`. The word Bearer is missing.',
      });
    }
    expect((await ask(path, 'Bearer nonsense')).detail).toBe('There is no such key.');
  });

  it('is explained to the operator', async () => {
    expect(await ask('/operator/products', 'operator-token-of-the-tests-0123456789')).toMatchObject({
      code: 'invalid_key',
      detail: 'Send the operator token as `Authorization: Bearer …`. The word Bearer is missing.',
    });
  });
});
