import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { Router, type Request, type Response } from 'express';
import helmet from 'helmet';
import type { ErrorCode } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { perAddressLimit } from '../core/http/address-limit.js';
import { compress, createAssets, sendCompressed, type Compressed } from '../core/http/assets.js';
import { statusByCode } from '../core/http/problem.js';
import { hasCopy } from '../core/http/request-line.js';
import { once } from '../core/once.js';
import { errorGuide } from '../core/reference/error-guide.js';

const documentationPaths = ['/openapi.json', '/docs'];

/** `/openapi.json` and `/docs`. Everything is made at the first request for it and kept. */
export function documentationRoutes(context: Pick<Context, 'clock' | 'config'>): Router {
  const document = once(makeDocument);
  const assets = createAssets('/docs/assets', listAssets);
  const pages = { page: once(() => render('page')), errors: once(() => render('errors')) };
  const router = Router();
  const perMinute = context.config.limits.documentsPerMinute;
  const limit = perAddressLimit(context, {
    name: 'documents',
    perMinute,
    calls: 'requests for documents',
  });
  router.use(documentationPaths, securityHeaders, limit);

  router.get('/openapi.json', async (req, res) => {
    const { body, etag } = await document();
    res.setHeader('ETag', etag);
    res.setHeader('Cache-Control', 'no-cache');
    if (hasCopy(req, etag)) res.status(304).end();
    else sendCompressed(req, res, 'application/json; charset=utf-8', body);
  });

  router.get('/docs', async (req, res) => sendPage(req, res, await pages.page()));
  router.get('/docs/errors', async (req, res) => sendPage(req, res, await pages.errors()));

  router.get('/docs/assets/:version/:file', assets.serve);

  async function render(view: 'page' | 'errors'): Promise<Compressed> {
    const file = fileURLToPath(new URL(`../../views/docs/${view}.ejs`, import.meta.url));
    return compress(
      Buffer.from(await ejs.renderFile(file, { assets: await assets.base(), errors: errorList() })),
    );
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
async function makeDocument(): Promise<{ body: Compressed; etag: string }> {
  const { buildDocument } = await import('../core/reference/document.js');
  const json = JSON.stringify(buildDocument());
  const etag = `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"`;
  return { body: await compress(Buffer.from(json)), etag };
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

function sendPage(req: Request, res: Response, html: Compressed): void {
  res.setHeader('Cache-Control', 'no-cache');
  sendCompressed(req, res, 'text/html; charset=utf-8', html);
}
