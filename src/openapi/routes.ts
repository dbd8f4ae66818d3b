import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import ejs from 'ejs';
import { Router, type Response } from 'express';
import helmet from 'helmet';
import type { ErrorCode } from '../errors.js';
import { createAssets, sendCompressed } from '../http/assets.js';
import { statusByCode } from '../http/problem.js';
import { once } from '../once.js';
import { errorGuide } from './error-guide.js';

const documentationPaths = ['/openapi.json', '/docs'];

/** `/openapi.json` and `/docs`. Everything is made at the first request for it and kept. */
export function documentationRoutes(): Router {
  const document = once(makeDocument);
  const assets = createAssets('/docs/assets', listAssets);
  const pages = { page: once(() => render('page')), errors: once(() => render('errors')) };
  const router = Router();
  router.use(documentationPaths, securityHeaders);

  router.get('/openapi.json', async (req, res) => {
    const { gzipped, etag } = await document();
    res.setHeader('ETag', etag);
    res.setHeader('Cache-Control', 'no-cache');
    if (req.fresh) res.status(304).end();
    else await sendCompressed(req, res, 'application/json; charset=utf-8', gzipped);
  });

  router.get('/docs', async (_req, res) => sendPage(res, await pages.page()));
  router.get('/docs/errors', async (_req, res) => sendPage(res, await pages.errors()));

  router.get('/docs/assets/:version/:file', assets.serve);

  async function render(view: 'page' | 'errors'): Promise<string> {
    const file = fileURLToPath(new URL(`../../views/docs/${view}.ejs`, import.meta.url));
    return ejs.renderFile(file, { assets: await assets.base(), errors: errorList() });
  }

  return router;
}

/** The files of the API reference. The package is found, never imported: that would load the whole bundle. */
function listAssets(): string[] {
  const swagger = join(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'), '..');
  const own = fileURLToPath(new URL('../../views/docs', import.meta.url));
  return [
    join(swagger, 'swagger-ui.css'),
    join(swagger, 'swagger-ui-bundle.js'),
    join(own, 'docs.css'),
    join(own, 'docs.js'),
  ];
}

/** Nothing but the service's own files, and no inline script or style. */
const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'"],
      'img-src': ["'self'", 'data:'],
      'connect-src': ["'self'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
      'base-uri': ["'none'"],
    },
  },
  referrerPolicy: { policy: 'same-origin' },
});

/** The builder is loaded with the first request, so that a start does not wait for it. */
async function makeDocument(): Promise<{ gzipped: Buffer; etag: string }> {
  const { buildDocument } = await import('./document.js');
  const json = JSON.stringify(buildDocument());
  const etag = `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"`;
  return { gzipped: await promisify(gzip)(json, { level: 9 }), etag };
}

function errorList() {
  const codes = Object.keys(statusByCode) as ErrorCode[];
  return codes
    .map((code) => ({
      code,
      status: statusByCode[code],
      title: STATUS_CODES[statusByCode[code]],
      ...errorGuide[code],
    }))
    .toSorted((a, b) => a.status - b.status);
}

function sendPage(res: Response, html: string): void {
  res.setHeader('Cache-Control', 'no-cache');
  res.type('html').send(html);
}
