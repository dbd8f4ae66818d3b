import { readFileSync } from 'node:fs';
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
const withoutMarkets = useServiceOn(() => database.db, { env: { MARKETS: 'off' } });

describe('/', () => {
  it('introduces the service and links to it', async () => {
    const { status, text } = await new Browser(service.url).get('/', html);
    expect(status).toBe(200);
    expect(text).toContain('<h1>Usage metering that counts every event once</h1>');
    const pictures = [...text.matchAll(/(?:src|srcset)="([^"]+\.webp)"/g)].map(([, path]) => path!);
    expect(pictures).toHaveLength(12);
    for (const path of pictures) {
      const picture = await fetch(service.url + path);
      expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/webp']);
    }
    expect(text).not.toContain('-sS');
    for (const language of ['curl', 'typescript', 'python'])
      expect(text).toMatch(new RegExp(`class="language-${language}">(?:(?!</code>)[^])*<span class="hl-`));
    expect(text).toContain('href="/login"');
    expect(text).toContain('href="/docs"');
    expect(text).not.toContain('Try the demo');
  });

  it('names the time zone only below a page with times', async () => {
    const { browser } = await signedIn(database.db, service.url);
    const isNamed = async (path: string) => (await browser.get(path, html)).text.includes('data-zone-note');
    const paths = ['/', '/dashboard/webhooks/new', '/dashboard/members'];
    expect(await Promise.all(paths.map(isNamed))).toEqual([false, false, true]);
  });

  it('promises only what docs/promises.md and bench/README.md prove', async () => {
    const { text } = await new Browser(service.url).get('/', html);
    const rows = readFileSync('docs/promises.md', 'utf8').split('\n');
    const shown = [
      ...text.replaceAll('<wbr>', '').matchAll(/<dt>([^<]+)<\/dt>.*?<code>test\/([^<]+)<\/code>/gs),
    ];
    const promised: Record<string, string> = {
      'No event is lost, and none is counted twice':
        'A 202 is durable, and its events are counted exactly once',
      'Reserved usage never exceeds a limit': 'Reservations never take used plus held above a blocking limit',
      'A credit is spent once': 'A credit is spent once',
      'A revoked key fails on its next call, on every instance': 'Revoking or expiring a key',
      'Every example of the API reference works': 'The API reference is correct',
    };
    expect(shown.map(([, promise]) => promise)).toEqual(Object.keys(promised));
    for (const [, promise, file] of shown) {
      const row = rows.find((line) => line.startsWith(`| ${promised[promise!]}`));
      expect(row, promise).toContain(`\`${file}\``);
    }
    const [measured, inserted] = [...text.matchAll(/<strong>([\d,]+)</g)].map(([, number]) => number);
    expect(readFileSync('bench/README.md', 'utf8')).toContain(`| ${measured} ÷ ${inserted} events/s |`);
  });

  it('names each product that runs, and links to the documentation and the sign-in', async () => {
    const { text } = await new Browser(service.url).get('/', html);
    expect(text).toMatch(/<h2 id="metering">.*<h2 id="trading">/s);
    expect(text).toMatch(/<nav [^>]*><a href="\/docs">Documentation<\/a> <a [^>]*href="\/login">Sign in/);
    const { text: alone } = await new Browser(withoutMarkets.url).get('/', html);
    expect(alone).toContain('<h2 id="metering">');
    expect(alone).not.toContain('id="trading"');
  });

  it('shows the demo’s logins as buttons and as text', async () => {
    const { text } = await new Browser(demo.url).get('/', html);
    expect(text).toContain('name="email" value="ada@example.com"');
    expect(text).toContain('name="password" value="a&#34;b"');
    expect(text.split('Ada &lt;b&gt;')).toHaveLength(2);
    expect(text).toContain('Helios');
    expect(text).not.toContain('<summary>');
  });

  it('redirects people who are signed in to the dashboard, without showing logins', async () => {
    const { browser } = await signedIn(database.db, demo.url);
    const { text } = await browser.get('/', html);
    expect(text).toContain('Go to the dashboard');
    expect(text).not.toContain('Try the demo');
  });
});

describe('previews and icons', () => {
  const published = useServiceOn(() => database.db, { env: { PUBLIC_URL: 'https://gauge.example.com' } });
  const metaOf = (html: string) =>
    Object.fromEntries(
      [...html.matchAll(/<meta (?:name|property)="([^"]+)" content="([^"]*)"/g)].map(([, name, value]) => [
        name,
        value,
      ]),
    );

  it.each(['/', '/docs', '/docs/retries', '/docs/reference/usage'])(
    '%s describes itself to other sites',
    async (path) => {
      const { text } = await new Browser(published.url).get(`${path}?secret=1`, html);
      const meta = metaOf(text);
      expect(meta['description']!.length).toBeGreaterThan(20);
      expect(meta['description']).not.toContain('`');
      expect(meta['og:description']).toBe(meta['description']);
      expect(meta['og:title']).toBe(/<title>([^<]+)</.exec(text)![1]);
      expect(meta['og:url']).toBe(`https://gauge.example.com${path}`);
      const picture = new URL(meta['og:image']);
      expect(picture.origin).toBe('https://gauge.example.com');
      const { status, headers } = await fetch(new URL(picture.pathname, published.url));
      expect([status, headers.get('content-type')]).toEqual([200, 'image/png']);
      expect(
        text.match(
          /<meta name="theme-color" content="#\w{6}" media="\(prefers-color-scheme: (light|dark)\)">/g,
        ),
      ).toHaveLength(2);
    },
  );

  it('names no address unless PUBLIC_URL is set, because a Host header can have any text', async () => {
    for (const path of ['/', '/docs']) {
      const { text } = await new Browser(service.url).get(path, { ...html, host: 'evil.example' });
      expect(metaOf(text)).toHaveProperty('og:title');
      expect(text).not.toMatch(/og:url|og:image|rel="canonical"/);
    }
  });

  it('describes no page that needs a session', async () => {
    const { browser } = await signedIn(database.db, published.url);
    const { text } = await browser.get('/dashboard', html);
    expect(text).toContain('theme-color');
    expect(text).not.toMatch(/og:|name="description"/);
  });

  it('serves an icon to programs that ask for /favicon.ico', async () => {
    const response = await fetch(`${service.url}/favicon.ico`);
    expect(response.headers.get('content-type')).toMatch(/^image\/(x-icon|vnd\.microsoft\.icon)$/);
    expect(response.headers.get('cache-control')).toBe('public, max-age=86400');
    expect(Buffer.from(await response.arrayBuffer()).subarray(0, 4)).toEqual(Buffer.from([0, 0, 1, 0]));
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

  it.each(['/foo', '/api/foo', '/markets/foo', '/dashboardx', '/operator/foo', '/%00', '/?a=%'])(
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
