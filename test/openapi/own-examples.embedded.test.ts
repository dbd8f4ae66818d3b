import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { scopes as allScopes } from '../../src/accounts/api-keys/scopes.js';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { signedIn } from '../support/accounts.js';
import { createKey } from '../support/fixtures.js';
import { createProduct, grant } from '../metering/support/products.js';
import { sendUsage, usageEvent } from '../metering/support/usage.js';
import { signedInOperator } from '../support/operators.js';
import { useService } from '../support/use.js';

const { database, service } = useService();
let cookie: string;
let secret: string;

beforeAll(async () => {
  await service.trading.refresher.refresh();
  const { organization, browser } = await signedIn(database.db, service.url, 'member');
  const product = await createProduct(database.db, {
    slug: 'own-product',
    usageMetric: 'requests',
    maxQuantity: '50',
  });
  await grant(database.db, organization.id, product.id);
  const scopes = [...allScopes];
  ({ secret } = await createKey(database.db, organization.id, { scopes }));
  cookie = [...browser.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
});

interface Corrections {
  corrections: { idempotencyKey: string }[];
}

const read = (path: string) => fetch(service.url + path, { headers: { cookie } });

const unescape = (html: string) =>
  html
    .replaceAll(/<\/?span[^>]*>/g, '')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');

/** Returns the example requests in a page's forms, each with its method. */
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

/** Places an order like the displayed one, but with a limit price at which it rests in the book. */
async function rest(body: string): Promise<void> {
  const order = { ...(JSON.parse(body) as object), contracts: 40, limitPrice: '0.0100' };
  const response = await fetch(`${service.url}/trade`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
      authorization: `Bearer ${secret}`,
    },
    body: JSON.stringify({ ...order, timeInForce: 'good_till_cancelled', postOnly: true, cancelOn: [] }),
  });
  expect([response.status, await response.text()]).toEqual([201, expect.stringContaining('"resting"')]);
}

it('the documentation leads an operator to the console instead of a sign-in', async () => {
  const { browser } = await signedInOperator(service);
  for (const path of ['/docs/start', '/docs/reference/usage', '/docs/search?q=cap', '/docs/nothing']) {
    const { text, headers } = await browser.get(path, { accept: 'text/html' });
    expect(headers.get('cache-control')).toBe('private, no-cache');
    expect(text).toContain('<a class="account" href="/console">Console</a>');
    expect(text).not.toContain('href="/login');
  }
  const stranger = await (await fetch(`${service.url}/docs/start`)).text();
  expect(stranger).toContain('href="/login?next=%2Fdocs%2Fstart"');
  expect(stranger).toContain('<a class="account" href="/dashboard">Dashboard</a>');
});

describe('the documentation shows a member of an Organization', () => {
  it('their own product, key prefix and time, and never a secret', async () => {
    const response = await read('/docs/start');
    const html = unescape(await response.text());
    expect(response.headers.get('cache-control')).toBe('private, no-cache');
    expect(html).toContain('Bearer org_test_…');
    expect(unescape(await (await read('/docs/reference/usage')).text())).toContain(
      `Bearer ${secret.slice(0, 12)}…`,
    );
    expect(html).toMatch(/"productSlug": "own-product",\s*"metric": "requests"/);
    expect(html).toContain(new Date(service.clock.now()).toISOString().slice(0, 10));
    expect(html).not.toContain(secret);
    expect(html).not.toMatch(/api-calls|2026-01-31T/);
  });

  it.each(['entitlements', 'usage', 'trading', 'market-data', 'api-keys'])(
    'requests that are answered with 2xx: %s',
    async (group) => {
      // The second visit shows the trade and the reservation that the first one created.
      let settled = 0;
      for (const visit of ['trading', 'usage'].includes(group) ? ['first', 'second'] : ['only'])
        for (const { method, path, headers, body } of await readRequests(`/docs/reference/${group}`)) {
          if (visit === 'first' && path === '/trade') await rest(body);
          const wanted = /^\/api\/usage\/events\/([^/]+)$/.exec(method === 'GET' ? path : '')?.[1];
          const corrected =
            path === '/api/usage/corrections' && (JSON.parse(body) as Corrections).corrections;
          for (const key of [
            ...(wanted === undefined ? [] : [decodeURIComponent(wanted)]),
            ...(corrected || []).map(({ idempotencyKey }) => idempotencyKey),
          ])
            await sendUsage(service.url, secret, [usageEvent('own-product', key, { metric: 'requests' })]);
          const stop = new AbortController();
          const response = await fetch(service.url + path, {
            method,
            headers: {
              ...(body ? { 'Content-Type': 'application/json' } : {}),
              ...headers,
              authorization: `Bearer ${secret}`,
            },
            ...(body ? { body } : {}),
            signal: stop.signal,
          });
          const isToCome = visit === 'first' && /^\/(trades|api\/usage\/reservations)\/./.test(path);
          const answer = response.ok ? '' : await response.text();
          // A hold can be settled only once, but there are several examples of settling it.
          const isSettled = path.endsWith('/settle') && answer.includes('was already settled');
          settled += path.endsWith('/settle') && response.ok ? 1 : 0;
          if (!isToCome && !isSettled)
            expect([response.status, path, answer]).toEqual([expect.toSatisfy(isGood), path, '']);
          stop.abort();
        }
      expect(settled > 0).toBe(group === 'usage');
    },
  );

  it('a request of every route that takes an API key', async () => {
    for (const { path, credential, tag } of (await describeService(products)).routes.filter(
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
