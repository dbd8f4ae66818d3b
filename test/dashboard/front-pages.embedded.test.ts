import { describe, expect, it } from 'vitest';
import { Browser, signedIn } from '../support/accounts.js';
import { useService, useServiceOn } from '../support/use.js';

const html = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
const ada = {
  email: 'ada@example.com',
  name: 'Ada <b>',
  organization: 'Acme',
  role: 'owner',
  password: 'a"b',
};

const { database, service } = useService();
const demo = useServiceOn(() => database.db, {
  app: { listDemoLogins: () => [ada, { ...ada, organization: 'Helios', role: 'member' }] },
});

describe('/', () => {
  it('introduces the service and links to it', async () => {
    const { status, text } = await new Browser(service.url).get('/', html);
    expect(status).toBe(200);
    expect(text).toContain('<h1>Gauge</h1>');
    expect(text).toContain('href="/login"');
    expect(text).toContain('href="/docs"');
    expect(text).not.toContain('Try the demo');
  });

  it('shows the demo’s logins as buttons and as text', async () => {
    const { text } = await new Browser(demo.url).get('/', html);
    expect(text).toContain('name="email" value="ada@example.com"');
    expect(text).toContain('name="password" value="a&#34;b"');
    expect(text.split('Ada &lt;b&gt;')).toHaveLength(2);
    expect(text).toContain('Helios');
  });

  it('redirects people who are signed in to the dashboard, without showing logins', async () => {
    const { browser } = await signedIn(database.db, demo.url);
    const { text } = await browser.get('/', html);
    expect(text).toContain('Go to the dashboard');
    expect(text).not.toContain('Try the demo');
  });
});

describe('a browser', () => {
  it.each([
    ['/markets', '/dashboard/markets'],
    ['/signals?station=KNYC', '/dashboard/markets'],
    ['/scores', '/dashboard/scores'],
    ['/portfolio', '/dashboard/portfolio'],
  ])('that opens %s is redirected to the page', async (path, page) => {
    const { status, headers } = await new Browser(service.url).get(path, html);
    expect([status, headers.get('location'), headers.get('vary')]).toEqual([303, page, 'Accept']);
    for (const accept of ['*/*', 'application/json', 'application/json, text/html;q=0.9']) {
      const answer = await new Browser(service.url).get(path, { accept });
      expect(answer.headers.get('content-type'), accept).toMatch(/json/);
    }
  });

  it.each(['/foo', '/api/foo', '/markets/foo', '/dashboardx', '/operator/foo', '/docs/foo', '/%00', '/?a=%'])(
    'that opens %s gets an error page with the reason, in the usual frame and with the usual headers',
    async (path) => {
      const { status, headers, text } = await new Browser(service.url).get(path, html);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
      expect(headers.get('content-security-policy')).toContain("style-src 'nonce-");
      expect(headers.get('cache-control')).toBe('no-store');
      expect(text).toContain(headers.get('x-request-id'));
      const problem = await new Browser(service.url).get(path, { accept: '*/*' });
      expect([problem.status, problem.headers.get('content-type')]).toEqual([
        status,
        'application/problem+json; charset=utf-8',
      ]);
    },
  );
});
