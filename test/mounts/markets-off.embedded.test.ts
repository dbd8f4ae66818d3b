import { describe, expect, it } from 'vitest';
import { products } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { signedIn } from '../support/accounts.js';
import { useService } from '../support/use.js';

const { database, service } = useService({ env: { MARKETS: 'off', OPERATOR_TOKEN: 'o'.repeat(32) } });

const html = { accept: 'text/html' };

describe('a service without markets', () => {
  it('answers and describes nothing about markets', async () => {
    const described = (await describeService(products.filter(({ name }) => name !== 'markets'))).routes.map(
      ({ path }) => path,
    );
    const gone = (await describeService(products)).routes.filter(({ path }) => !described.includes(path));
    expect(gone.length).toBeGreaterThan(10);
    for (const { method, path } of gone) {
      const url = service.url + path.replace(/\{\w+\}/g, 'acme');
      const headers = { authorization: `Bearer ${'o'.repeat(32)}` };
      const { status } = await fetch(url, { method: method.toUpperCase(), headers });
      expect(status, `${method} ${path}`).toBe(404);
    }
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as {
      paths: object;
      webhooks: object;
    };
    expect(Object.keys(document.paths).sort()).toEqual([...new Set(described)].sort());
    const subjects = new Set(Object.keys(document.webhooks).map((type) => type.split('.')[0]));
    expect(subjects).toEqual(new Set(['api_key', 'credits', 'entitlement', 'usage', 'webhook']));
    expect(JSON.stringify(Object.keys(document.paths))).not.toMatch(/market|trad|portfolio|score|forecast/);
  });

  it('shows no links to markets', async () => {
    const { browser } = await signedIn(database.db, service.url);
    for (const page of [
      '/dashboard',
      '/dashboard/api-keys/new',
      '/dashboard/members',
      '/dashboard/account',
    ]) {
      const { status, text } = await browser.get(page, html);
      expect(status, page).toBe(200);
      // The sprite has every page's icons.
      expect(text.replace(/<symbol[^]*?<\/symbol>/g, ''), page).not.toMatch(
        /market|trading|portfolio|scores|forecast/i,
      );
    }
    for (const page of ['/dashboard/markets', '/dashboard/scores', '/dashboard/portfolio', '/markets'])
      expect((await browser.get(page, html)).status, page).toBe(404);
  });

  it('documents everything except markets', async () => {
    for (const page of ['', '/start', '/retries', '/caps', '/key-rotation', '/test-and-live', '/errors']) {
      const response = await fetch(`${service.url}/docs${page}`);
      expect(response.status, page).toBe(200);
      expect(await response.text(), page).not.toMatch(
        /href="\/docs\/(paper-trading|reference\/(market|trading))/,
      );
    }
    for (const page of ['/paper-trading', '/reference/trading', '/reference/market-data'])
      expect((await fetch(`${service.url}/docs${page}`)).status, page).toBe(404);
  });

  it('creates no key for markets', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const key = { name: 'Trader', livemode: false, scopes: ['usage:write', 'trading:read'] };
    const answer = await browser.send('POST', '/dashboard/api-keys', { json: key });
    expect([answer.status, answer.body]).toMatchObject([
      400,
      { errors: [{ pointer: '/scopes/1', detail: 'is not available: this service has no markets' }] },
    ]);
  });
});
