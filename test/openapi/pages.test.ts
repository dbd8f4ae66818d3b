import { get, type IncomingHttpHeaders } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { statusByCode } from '../../src/core/http/problem.js';
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

const ask = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  fetch(`${service.url}${path}`, { method, headers });

interface RawAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  bytes: Buffer;
}

/** What really travels: fetch decodes answers and adds headers of its own to conditional requests. */
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
  it('is the same bytes every time, and 304 for who has them', async () => {
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

  it('is sent compressed only to who can read it', async () => {
    const compressed = await askRaw('/openapi.json', { 'accept-encoding': 'gzip, br' });
    const plain = await askRaw('/openapi.json', {});
    expect(compressed.headers['content-encoding']).toBe('gzip');
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.bytes.length).toBeGreaterThan(3 * compressed.bytes.length);
    expect(JSON.parse(plain.bytes.toString())).toHaveProperty('openapi', '3.1.0');
  });
});

describe('/docs', () => {
  it('allows nothing but its own files', async () => {
    for (const path of ['/docs', '/docs/errors']) {
      const policy = (await ask(path)).headers.get('content-security-policy')!.split(';');
      expect(policy).toEqual([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
      ]);
    }
  });

  it('has no inline script or style and names no other host', async () => {
    const html = await (await ask('/docs')).text();
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)/);
    expect(html).not.toMatch(/<style|\sstyle=|\son\w+=/);
    expect(html).not.toMatch(/(src|href)="(https?:)?\/\//);
    expect(html).toContain('<title>Gauge API reference</title>');
    expect(html).toContain('<a href="/dashboard">');
  });

  it('serves its files under a name that changes with them, to be kept for ever', async () => {
    const paths = await assetPaths();
    expect(paths.map((path) => path.split('/').at(-1))).toEqual([
      'swagger-ui.css',
      'docs.css',
      'swagger-ui-bundle.js',
      'docs.js',
    ]);
    for (const path of paths) {
      const response = await ask(path);
      expect(response.status).toBe(200);
      expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
      expect(response.headers.get('content-type')).toMatch(/^text\/(css|javascript); charset=utf-8$/);
      expect(response.headers.get('vary')).toBe('Accept-Encoding');
      expect((await response.text()).length).toBeGreaterThan(100);
    }
  });

  it('serves a page of another version what there is, not to be kept', async () => {
    const response = await ask('/docs/assets/another/docs.css');
    expect([response.status, response.headers.get('cache-control')]).toEqual([200, 'no-store']);
  });

  it('keeps no key between visits and asks no validator elsewhere', async () => {
    const script = await (await ask((await assetPaths()).at(-1)!)).text();
    expect(script).toMatch(/persistAuthorization: false/);
    expect(script).toMatch(/validatorUrl: null/);
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
      'swagger-ui.css/'.repeat(20),
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

describe('/docs/errors', () => {
  it('has the place that the type of each problem leads to', async () => {
    const html = await (await ask('/docs/errors')).text();
    for (const [code, status] of Object.entries(statusByCode)) {
      expect(html).toContain(`id="${code}"`);
      expect(html).toMatch(new RegExp(`<code>${code}</code></a><span class="status">${status} `));
    }
    const problem = (await (await ask('/nowhere')).json()) as { type: string };
    const [path, anchor] = problem.type.split('#');
    expect(path).toBe('/docs/errors');
    expect(html).toContain(`id="${anchor}"`);
  });
});
