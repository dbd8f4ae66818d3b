import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { routeDescriptions } from '../../src/reference.js';
import { signedIn } from '../support/accounts.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { createKey, createProduct, grant } from '../support/fixtures.js';
import { startTestService, type TestService } from '../support/service.js';

let database: TestDatabase;
let service: TestService;
let cookie: string;
let secret: string;

beforeAll(async () => {
  database = await createTestDatabase();
  service = await startTestService(database.db);
  await service.trading.refresher.refresh();
  const { organization, browser } = await signedIn(database.db, service.url, 'member');
  const product = await createProduct(database.db, {
    slug: 'own-product',
    usageMetric: 'requests',
    maxQuantity: '50',
  });
  await grant(database.db, organization.id, product.id);
  const scopes = ['usage:write', 'entitlements:read', 'trading:read', 'trading:write'];
  ({ secret } = await createKey(database.db, organization.id, { scopes }));
  cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
});
afterAll(async () => {
  await service.stop();
  await database.remove();
});

const read = (path: string) => fetch(service.url + path, { headers: { cookie } });

const unescape = (html: string) =>
  html
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** The requests that the forms of a page offer, each with its method. */
async function readRequests(path: string) {
  const html = await (await read(path)).text();
  return [...html.matchAll(/<form class="try[^>]*data-method="(\w+)"[\s\S]*?<\/form>/g)].flatMap(
    ([form, method]) =>
      [...form.matchAll(/<option value="([^"]*)">/g)].map(([, value]) => ({
        method: method!,
        ...(JSON.parse(unescape(value!)) as { path: string; headers: Record<string, string>; body: string }),
      })),
  );
}

describe('to a member of an Organization the documentation shows', () => {
  it('their own product, key prefix and time, and never a secret', async () => {
    const response = await read('/docs/start');
    const html = unescape(await response.text());
    expect(response.headers.get('cache-control')).toBe('private, no-cache');
    expect(html).toContain(`Bearer ${secret.slice(0, 12)}…`);
    expect(html).toContain('"productSlug":"own-product","metric":"requests"');
    expect(html).toContain(new Date(service.clock.now()).toISOString().slice(0, 10));
    expect(html).not.toContain(secret);
    expect(html).not.toMatch(/api-calls|2026-01-31T/);
  });

  it.each(['entitlements', 'usage', 'trading', 'market-data', 'api-keys'])(
    'requests that are answered with 2xx: %s',
    async (group) => {
      // The trade that is read is one that has been made.
      for (const visit of group === 'trading' ? ['first', 'second'] : ['only'])
        for (const { method, path, headers, body } of await readRequests(`/docs/reference/${group}`)) {
          const stop = new AbortController();
          const response = await fetch(service.url + path, {
            method,
            headers: {
              ...headers,
              authorization: `Bearer ${secret}`,
              ...(body ? { 'content-type': 'application/json' } : {}),
            },
            ...(body ? { body } : {}),
            signal: stop.signal,
          });
          const isTradeToCome = visit === 'first' && path.startsWith('/trades/');
          const answer = response.ok ? '' : await response.text();
          if (!isTradeToCome)
            expect([response.status, path, answer]).toEqual([expect.toSatisfy(isGood), path, '']);
          stop.abort();
        }
    },
  );

  it('a request of every route that takes an API key', async () => {
    for (const { path, credential, tag } of routeDescriptions.filter(
      (route) => route.credential === 'apiKey',
    )) {
      const requests = await readRequests(`/docs/reference/${tag.toLowerCase().replace(' ', '-')}`);
      const pattern = new RegExp(`^${path.replace(/\{\w+\}/g, '[^/]+')}(\\?|$)`);
      expect(
        requests.some((request) => pattern.test(request.path)),
        `${credential} ${path}`,
      ).toBe(true);
    }
  });
});

const isGood = (status: number) => status >= 200 && status < 300;
