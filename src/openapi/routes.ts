import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import ejs from 'ejs';
import { Router, type Request, type Response } from 'express';
import helmet from 'helmet';
import { AppError, type ErrorCode } from '../errors.js';
import { statusByCode } from '../http/problem.js';
import { loadAssets } from './assets.js';
import { errorGuide } from './error-guide.js';

const documentationPaths = ['/openapi.json', '/docs'];

/** `/openapi.json` and `/docs`. Everything is made at the first request for it and kept. */
export function documentationRoutes(): Router {
  const document = once(makeDocument);
  const assets = once(loadAssets);
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

  router.get('/docs/assets/:version/:file', async (req, res) => {
    const { version, files } = await assets();
    const asset = files.get(req.params.file);
    if (!asset) throw new AppError('not_found', 'There is nothing at this address.');
    // While versions change over, a page of the one may ask an instance of the other: it gets what there is, not to keep.
    const isExact = req.params.version === version;
    res.setHeader('Cache-Control', isExact ? 'public, max-age=31536000, immutable' : 'no-store');
    await sendCompressed(req, res, asset.type, asset.gzipped);
  });

  async function render(view: 'page' | 'errors'): Promise<string> {
    const file = fileURLToPath(new URL(`../../views/docs/${view}.ejs`, import.meta.url));
    return ejs.renderFile(file, { assets: `/docs/assets/${(await assets()).version}`, errors: errorList() });
  }

  return router;
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

async function sendCompressed(req: Request, res: Response, type: string, gzipped: Buffer): Promise<void> {
  res.setHeader('Content-Type', type);
  res.setHeader('Vary', 'Accept-Encoding');
  const isGzip = req.acceptsEncodings('gzip', 'identity') === 'gzip';
  const bytes = isGzip ? gzipped : await promisify(gunzip)(gzipped);
  if (isGzip) res.setHeader('Content-Encoding', 'gzip');
  res.setHeader('Content-Length', bytes.length);
  res.end(bytes);
}

/** Calls `make` at the first use. A failure is not kept. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
