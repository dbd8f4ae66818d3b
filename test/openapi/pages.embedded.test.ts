import { get, type IncomingHttpHeaders } from 'node:http';
import { describe, expect, it } from 'vitest';
import { products, webhookTypes } from '../../src/products.js';
import { describeService } from '../../src/reference.js';
import { useService } from '../support/use.js';

const { service } = useService();

const ask = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${service.url}${path}`, { method, headers });

interface RawAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
}

/** Sends raw requests, because fetch decodes responses and adds headers to conditional requests. */
function askRaw(path: string, headers: Record<string, string>): Promise<RawAnswer> {
  return new Promise((resolve, reject) => {
    get(`${service.url}${path}`, { headers, agent: false }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk: Buffer) => chunks.push(chunk));
      res.on('end', () =>
        resolve({ status: res.statusCode!, headers: res.headers, bytes: Buffer.concat(chunks) }),
      );
    }).on('error', reject);
  });
}

const assetPaths = async () =>
  [...(await (await ask('/docs')).text()).matchAll(/(?:src|href)="(\/docs\/assets\/[^"]+)"/g)].map(
    (m) => m[1]!,
  );

describe('/openapi.json', () => {
  it('is the same bytes every time, and 304 for a client that has them', async () => {
    const first = await ask('/openapi.json');
    const again = await ask('/openapi.json');
    expect(first.headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(await again.text()).toBe(await first.text());
    const etag = first.headers.get('etag')!;
    expect(again.headers.get('etag')).toBe(etag);
    for (const sent of [etag, etag.replace('W/', ''), `"other", ${etag}`, '*']) {
      const unchanged = await askRaw('/openapi.json', { 'if-none-match': sent });
      expect([unchanged.status, unchanged.bytes.length, unchanged.headers.etag]).toEqual([304, 0, etag]);
    }
    const asFetchDoes = { 'if-none-match': etag, 'cache-control': 'no-cache' };
    expect((await askRaw('/openapi.json', asFetchDoes)).status).toBe(304);
    expect((await askRaw('/openapi.json', { 'if-none-match': '"other"' })).status).toBe(200);
  });

  it('is compressed only for clients that accept it', async () => {
    const compressed = await askRaw('/openapi.json', { 'accept-encoding': 'gzip, br' });
    const plain = await askRaw('/openapi.json', {});
    expect(compressed.headers['content-encoding']).toBe('br');
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.bytes.length).toBeGreaterThan(3 * compressed.bytes.length);
    expect(JSON.parse(plain.bytes.toString())).toHaveProperty('openapi', '3.1.0');
  });
});

describe('/docs', () => {
  it('allows nothing but its own files', async () => {
    for (const path of ['/docs', '/docs/errors', '/docs/reference/usage']) {
      const policy = (await ask(path)).headers.get('content-security-policy')!.split(';');
      expect(policy).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
      ]);
    }
  });

  it('has no inline script or style and names no other host', async () => {
    for (const path of ['/docs', '/docs/start', '/docs/reference/trading']) {
      const html = await (await ask(path)).text();
      expect(html).not.toMatch(/<script(?![^>]*\ssrc=)/);
      expect(html).not.toMatch(/<style|\sstyle=|\son\w+=/);
      expect(html).not.toMatch(/(src|href)="(https?:)?\/\//);
      expect(html).toContain('href="/dashboard">');
    }
  });

  it('serves its files under names that change with their content, cacheable forever', async () => {
    const paths = await assetPaths();
    expect(paths.map((path) => path.split('/').at(-1))).toEqual([
      'icon.svg',
      'inter.woff2',
      'docs.css',
      'docs.js',
    ]);
    for (const path of paths) {
      const response = await ask(path);
      expect(response.status).toBe(200);
      expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
      expect(response.headers.get('content-type')).toMatch(
        /^(text\/(css|javascript); charset=utf-8|image\/svg\+xml|font\/woff2)$/,
      );
      expect(response.headers.get('vary')).toBe('Accept-Encoding');
      expect((await response.text()).length).toBeGreaterThan(100);
    }
  });

  it('serves the current file to a page of another version, uncached', async () => {
    const response = await ask('/docs/assets/another/docs.css');
    expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'no-store']);
  });

  it('links only to pages and sections that exist', async () => {
    const seen = new Map<string, string>();
    const read = async (path: string) => {
      if (!seen.has(path)) seen.set(path, await (await ask(path)).text());
      return seen.get(path)!;
    };
    const linksOf = (html: string) =>
      [...html.matchAll(/href="(\/docs[^"]*|#[^"]+)"/g)]
        .map((m) => m[1]!)
        .filter((link) => !link.includes('/assets/'));
    const start = linksOf(await read('/docs')).map((link) => link.split('#')[0] || '/docs');
    for (const page of new Set(start)) {
      const html = await read(page);
      expect(html, page).toContain('<h1>');
      for (const link of new Set(linksOf(html))) {
        const [path, anchor] = link.split('#');
        const target = await read(path || page);
        if (anchor) expect(target, `${page} leads to ${link}`).toContain(`id="${anchor}"`);
      }
    }
    expect(seen.size).toBe(50);
  });

  it('says what Gauge is and where to start, before the guides and the groups of the reference', async () => {
    const home = await (await ask('/docs')).text();
    expect(home).toMatch(
      /Gauge counts what.*<ol class="docs-starts">.*href="\/docs\/start".*id="guides".*id="reference"/s,
    );
    expect(home).toMatch(/href="\/docs\/reference\/usage">Usage<\/a>\s*<span class="quiet">\d+ requests/);
    expect(home).toMatch(/href="\/docs\/reference\/operator-plans">Plans<\/a>/);
    expect(home).not.toContain('](');
    expect(home).toMatch(/<footer class="foot">.*href="\/docs\/errors"/s);
  });

  it('lists each request on a line of its own, and each field of a request once', async () => {
    const reference = await (await ask('/docs/reference/usage')).text();
    expect(reference).toMatch(
      /<li>\s*<span class="method"[^>]*>POST<\/span>\s*<a href="#recordUsageEvents">[^<]+<\/a>/,
    );
    const [, request] = /id="recordUsageEvents"(.*?)<h3>Responses/s.exec(
      reference.split('class="operation"', 2)[1]!,
    )!;
    const fields = [...request!.matchAll(/<dt>\s*<code>([^<]+)/g)].map(([, name]) => name);
    expect(fields).toContain('events[].metric');
    expect(fields).toEqual([...new Set(fields)]);
  });

  it('returns 404 for any other name', async () => {
    for (const path of [
      '/docs/weather',
      '/docs/__proto__',
      '/docs/reference/weather',
      '/docs/layout',
      '/docs/..%2flayout',
    ])
      expect((await ask(path)).status).toBe(404);
  });

  it('keeps no key anywhere and sends no cookie', async () => {
    const script = await (await ask((await assetPaths()).find((path) => path.endsWith('/docs.js'))!)).text();
    expect(script).not.toMatch(/localStorage|sessionStorage|document\.cookie/);
    expect(script).toContain("credentials: 'omit'");
  });

  it('is the same for everyone who is not signed in, whatever their cookie says', async () => {
    for (const cookie of ['', 'gauge_session=nonsense; gauge_session.sig=nonsense']) {
      const response = await ask('/docs/start', cookie ? { cookie } : {});
      expect(response.headers.get('cache-control')).toBe('no-cache');
      expect(response.headers.get('vary')).toBe('Cookie, Accept-Encoding');
      expect(await response.text()).toContain('Bearer org_test_…');
    }
  });

  it('serves nothing but these files, however the name is written', async () => {
    const [path] = await assetPaths();
    const folder = path!.slice(0, path!.lastIndexOf('/'));
    for (const name of [
      'index.html',
      '..%2f..%2fpackage.json',
      '__proto__',
      '%01',
      '<script>',
      'docs.css/'.repeat(20),
    ]) {
      const response = await ask(`${folder}/${name}`);
      expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([
        404,
        'not_found',
      ]);
    }
  });

  it('answers HEAD with the same headers and no body', async () => {
    for (const path of ['/openapi.json', '/docs', '/docs/errors', ...(await assetPaths())]) {
      const head = await ask(path, {}, 'HEAD');
      expect([head.status, await head.text()]).toEqual([200, '']);
      expect(Number(head.headers.get('content-length'))).toBeGreaterThan(0);
    }
  });
});

it('explains each webhook message, and the webhook routes in the reference', async () => {
  const [messages, reference] = await Promise.all(
    ['/docs/webhooks', '/docs/reference/webhooks'].map(async (path) => (await ask(path)).text()),
  );
  for (const type of Object.keys(webhookTypes)) expect(messages).toContain(`aria-label="A message: ${type}"`);
  expect(messages).not.toContain('Rotate the secret of a webhook endpoint');
  expect(reference).toContain('Rotate the secret of a webhook endpoint');
});

it('names the service key that a route needs, and never an API key', async () => {
  const pages = ['usage', 'keys', 'credits', 'entitlements'];
  for (const page of pages) {
    const html = await (await ask(`/docs/reference/on-behalf-of-customers-${page}`)).text();
    expect(html).toContain('A service key with the scope <code>');
    expect(html).toContain('Bearer service_live_…');
    expect(html).not.toMatch(/Credential:<\/strong> None|Bearer org_/);
  }
});

describe('/docs/search', async () => {
  const html = { accept: 'text/html' };
  const search = (q: string) => ask(`/docs/search?q=${encodeURIComponent(q)}`, html);
  const linksOf = async (q: string) => {
    const [, found = ''] = (await (await search(q)).text()).split('<p role="status"');
    return [...found.matchAll(/<li>.*?<a href="([^"]+)"/gs)].map((match) => match[1]!);
  };

  it.each([
    ['rotate', '/docs/key-rotation'],
    ['rotate an api key', '/docs/reference/api-keys#rotateApiKey'],
    ['retries', '/docs/retries'],
    ['rate_limited', '/docs/errors#rate_limited'],
    ['idempotencyKey', '/docs/reference/usage#recordUsageEvents'],
    ['api_key.created', '/docs/webhooks#api_key.created'],
    ['Declare a product', '/docs/reference/operator-products#putProduct'],
    ['how to go live', '/docs/test-and-live#go-live'],
  ])('finds %s first or second', async (q, link) => {
    expect((await linksOf(q)).slice(0, 2)).toContain(link);
  });

  it('finds single sign-on by its abbreviation', async () => {
    expect((await linksOf('sso'))[0]).toContain('SingleSignOn');
  });

  it('does not send people from the overview to the overview when nothing matches', async () => {
    expect(await (await search('zzqqzz')).text()).toMatch(/Nothing matches\.[^]*or a task\.\s*<\/p>/);
  });

  it('shows some results of each kind, and all of one', async () => {
    const some = await (await search('key')).text();
    expect(some).toMatch(/href="\/docs\/search\?q=key&amp;kind=Field">\d+ more/);
    const all = await (await ask('/docs/search?q=key&kind=Field', html)).text();
    const count = Number(/Fields: (\d+)/.exec(all)![1]);
    expect(all.split('<li>\n      <a href="/docs/').length - 1).toBe(count);
    expect(count).toBeGreaterThan(6);
    expect((await ask('/docs/search?q=key&kind=Plan', html)).status).toBe(400);
  });

  it('separates the cells of a table, and keeps code apart from the sentence', async () => {
    const read = async (q: string) =>
      (await (await search(q)).text()).replaceAll(/<\/?mark>/g, '').replaceAll('&#39;', "'");
    expect(await read('lago transaction_id')).toContain('billable metric · metric; transaction_id,');
    expect(await read('path segments')).toContain('found. . and .. cannot be path segments');
  });

  it('does not search the samples', async () => {
    expect(await linksOf('org_live_stolen')).toEqual([]);
    expect(await linksOf('api-calls curl returns')).toEqual([]);
  });

  it.each([
    ['webhook', 'webhooks'],
    ['middleware', 'meter-your-api'],
    ['express', 'meter-your-api'],
    ['FastAPI', 'meter-your-api'],
    ['flask', 'meter-your-api'],
    ['gateway', 'meter-your-api'],
    ['verify key', 'meter-your-api'],
    ['verify a key', 'meter-your-api'],
    ['invoice', 'meter-your-api'],
    ['billing', 'meter-your-api'],
    ['pagination', 'pages'],
    ['next page', 'pages'],
    ['cursor', 'pages'],
    ['python', 'start'],
    ['python client', 'start'],
    ['typescript', 'start'],
    ['sdk', 'start'],
    ['concurrency', 'check-or-reserve'],
    ['check or reserve', 'check-or-reserve'],
    ['race', 'check-or-reserve'],
    ['rolling window', 'limits'],
    ['block', 'limits'],
    ['prepaid', 'credits'],
    ['balance', 'credits'],
    ['overdraft', 'credits'],
    ['end user', 'subjects'],
    ['group by model', 'subjects'],
    ['refund', 'corrections'],
    ['undo', 'corrections'],
    ['csv', 'files'],
    ['import', 'files'],
    ['openmeter', 'migrate'],
    ['lago', 'migrate'],
    ['unkey', 'migrate'],
    ['migration', 'migrate'],
    ['backfill', 'files'],
    ['signature', 'webhook-signatures'],
    ['hmac', 'webhook-signatures'],
    ['verify webhook', 'webhook-signatures'],
    ['trial', 'plans'],
    ['upgrade', 'plans'],
    ['cloudevents', 'cloudevents'],
    ['embed', 'portal'],
    ['iframe', 'portal'],
    ['customer portal', 'portal'],
    ['overage', 'credits'],
    ['quota', 'limits'],
    ['webhok', 'webhooks'],
  ])('leads from %s to the guide first: %s', async (q, guide) => {
    expect((await linksOf(q))[0]?.split('#')[0]).toBe(`/docs/${guide}`);
  });

  it('groups results, the best group first', async () => {
    const groupsOf = async (q: string) =>
      [...(await (await search(q)).text()).matchAll(/<ol class="found" aria-label="([^"]+)">/g)].map(
        ([, heading]) => heading,
      );
    expect(await groupsOf('idempotencyKey')).toEqual(['Fields', 'Guides', 'Requests']);
    expect((await groupsOf('rate_limited'))[0]).toBe('Errors');
  });

  it('leads only to places that exist', async () => {
    const links = new Set((await Promise.all(['usage', 'key', 'order', 'not'].map(linksOf))).flat());
    expect(links.size).toBeGreaterThan(50);
    for (const link of links) {
      const [path, anchor] = link.split('#');
      const page = await (await ask(path!)).text();
      if (anchor) expect(page, link).toContain(`id="${anchor}"`);
    }
  });

  it('answers any text with a page, never as HTML or a pattern', async () => {
    for (const q of [
      '',
      ' ',
      '%',
      '_'.repeat(100),
      '\\',
      '.*',
      '"><script>alert(1)</script>',
      'İ'.repeat(100),
    ]) {
      const response = await search(q);
      expect([q, response.status]).toEqual([q, 200]);
      expect(await response.text()).not.toContain('<script>alert');
    }
    expect(await linksOf('zzzz')).toEqual([]);
  });

  it('refuses what it cannot search for, and keeps what was typed', async () => {
    for (const q of ['x'.repeat(10_000), 'a\u0000b']) {
      const response = await search(q);
      expect(response.status).toBe(400);
      expect(await response.text()).toContain('must be at most 100 characters without control characters');
    }
    expect(await (await search(`${'x'.repeat(100)}yz`)).text()).toContain('xyz"');
    const problem = await ask(`/docs/search?q=${'x'.repeat(101)}`);
    expect([problem.status, problem.headers.get('content-type')]).toEqual([
      400,
      'application/problem+json; charset=utf-8',
    ]);
    expect((await ask('/docs/search?q=a&q=b', html)).status).toBe(400);
    expect((await ask('/docs/search?colour=red', html)).status).toBe(400);
  });
});

it('lists every address of a split group on its overview', async () => {
  const html = await (await ask('/docs/reference/operator')).text();
  for (const { operationId, tag } of (await describeService(products)).routes)
    if (tag === 'Operator')
      expect(html).toMatch(new RegExp(`href="/docs/reference/operator-[a-z-]+#${operationId}"`));
});

it('lets readers copy each response, and keeps a backslash beside the word before it', async () => {
  const html = await (await ask('/docs/plans')).text();
  const answers = html.match(/<code id="[\w-]+-answer"/g)!;
  expect(answers.length).toBeGreaterThan(2);
  expect(html.match(/data-copy="[\w-]+-answer"/g)).toHaveLength(answers.length);
  expect(html).toContain('<span class="nowrap"> \\</span>\n');
  expect(html).not.toMatch(/ \\\n/);
});

it('shows the market that the paper order buys, and the position that it leaves', async () => {
  const html = (await (await ask('/docs/paper-trading')).text()).replaceAll(/<[^>]*>/g, '');
  const [, market, order, position] = html.split(/\n[123]\. /);
  for (const step of [market, order, position]) expect(step).toContain('KXHIGHNY-26JAN31-B47.5');
  expect(market).toContain('"yesAsk": "0.3600"');
  expect(position).toContain('"averagePrice": "0.3625"');
});

it('begins with a new plan, and leaves its own files out of the reference', async () => {
  const plans = await (await ask('/docs/reference/operator-plans')).text();
  expect(plans.indexOf('A new plan')).toBeLessThan(plans.indexOf('Repeated: no new version'));
  const html = await (await ask('/docs/reference/service')).text();
  expect(html).toContain('/openapi.json');
  expect(html).not.toMatch(/<code>\/docs/);
});

it('leads from each guide to the one before and the one after it', async () => {
  const html = await (await ask('/docs/test-and-live')).text();
  const [, links = ''] = html.split('aria-label="Guides before and after this one"');
  expect([...links.matchAll(/href="([^"]+)">(\w+): /g)].map(([, href, label]) => [label, href])).toEqual([
    ['Previous', '/docs/meter-your-api'],
    ['Next', '/docs/retries'],
  ]);
});

it('keeps its frame and its search at an address that does not exist', async () => {
  const missing = await ask('/docs/retry', { accept: 'text/html' });
  const text = await missing.text();
  expect([missing.status, text.includes('Nothing exists at this address')]).toEqual([404, true]);
  expect(text).toMatch(/name="q"[^>]*value="retry"/);
  expect(text.split('<ol class="found"')[1]).toContain('href="/docs/retries');
  // A part of “another” is no near miss.
  const nothere = await (await ask('/docs/nothere', { accept: 'text/html' })).text();
  expect(nothere).not.toContain('<ol class="found"');
});

it('lists webhook messages in one line each', async () => {
  const text = await (await ask('/docs/webhooks')).text();
  expect(text).toMatch(/<li><a href="#api_key.created"><code>api_key.created<\/code><\/a>: [^<]+\.<\/li>/);
  expect(text).toMatch(
    /class="operation" id="api_key\.created".*?<summary>Fields<.*?open>\s*<summary>Example</s,
  );
});

describe('/docs/errors', () => {
  it('has the section that the type of each problem links to', async () => {
    const html = await (await ask('/docs/errors')).text();
    for (const [code, status] of Object.entries((await describeService(products)).statuses)) {
      expect(html).toContain(`id="${code}"`);
      const [, before = ''] = html.split(`id="${code}"`)[0]!.split(/<h2 id="[^"]*">(?!.*<h2)/s);
      expect(before.slice(0, 4)).toBe(`${status} `);
    }
    const problem = (await (await ask('/nowhere')).json()) as { type: string };
    const [path, anchor] = problem.type.split('#');
    expect(path).toBe('/docs/errors');
    expect(html).toContain(`id="${anchor}"`);
  });
});

it('starts with a test key and one event of now, and says what to replace', async () => {
  const text = (await (await ask('/docs/start')).text()).replace(/&#34;|&quot;/g, '"');
  expect(text).toContain('Bearer org_test_');
  expect(text).not.toContain('org_live_');
  expect(text.match(/"idempotencyKey"/g)).toHaveLength(2);
  expect(text).not.toContain('"occurredAt"');
  expect(text).toContain('<a href="/login?next=%2Fdocs%2Fstart">sign in</a>');
});
