import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { Router, type Request, type Response } from 'express';
import helmet from 'helmet';
import { z } from 'zod';
import type { ErrorCode } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { perAddressLimit } from '../core/http/address-limit.js';
import { compress, createAssets, sendCompressed, type Compressed } from '../core/http/assets.js';
import { statusByCode } from '../core/http/problem.js';
import { hasCopy } from '../core/http/request-line.js';
import { once } from '../core/steps.js';
import { conditional, defineRoute, excerpt, mountRoutes } from '../core/reference/define-route.js';
import { errorGuide } from '../core/reference/error-guide.js';
import { problemExample, type DescribedRoute } from '../core/reference/problem-examples.js';

interface Documents {
  document: () => Promise<{ body: Compressed; etag: string }>;
  page: () => Promise<Compressed>;
  errorPage: () => Promise<Compressed>;
  assets: ReturnType<typeof createAssets>;
}

/** `/openapi.json` and `/docs`. Everything is made at the first request for it and kept. */
export const documentationRoutes = [
  defineRoute({
    method: 'get',
    path: '/openapi.json',
    operationId: 'getOpenApi',
    tag: 'Service',
    summary: 'This document',
    description:
      'OpenAPI 3.1. It changes only with the version of the service: keep the `ETag` and ask with `If-None-Match`.',
    credential: 'none',
    limit: 'documents',
    ...conditional('The document.', z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApi' })),
    examples: [
      { name: 'document', summary: 'The beginning', request: {}, answer: excerpt({ openapi: '3.1.0' }) },
      {
        name: 'notModified',
        summary: 'Nothing has changed',
        request: { headers: { 'if-none-match': '*' } },
        status: 304,
      },
    ],
    handler:
      ({ document }: Documents) =>
      async (req, res) => {
        const { body, etag } = await document();
        res.setHeader('ETag', etag);
        res.setHeader('Cache-Control', 'no-cache');
        if (hasCopy(req, etag)) res.status(304).end();
        else sendCompressed(req, res, 'application/json; charset=utf-8', body);
      },
  }),
  defineRoute({
    method: 'get',
    path: '/docs',
    operationId: 'getReference',
    tag: 'Service',
    summary: 'This document as a page',
    description:
      'Shows the document and lets requests be tried. Works offline; a key that is entered stays in the memory of the tab.',
    credential: 'none',
    limit: 'documents',
    responses: { 200: { description: 'The page.', content: { 'text/html': null } } },
    examples: [
      { name: 'page', summary: 'Its title', request: {}, answer: '<title>Gauge API reference</title>' },
    ],
    handler:
      ({ page }: Documents) =>
      async (req, res) =>
        sendPage(req, res, await page()),
  }),
  defineRoute({
    method: 'get',
    path: '/docs/errors',
    operationId: 'getErrorCodes',
    tag: 'Service',
    summary: 'All error codes',
    description:
      'What each `code` means and what to do about it. The `type` of a problem leads to its place here.',
    credential: 'none',
    limit: 'documents',
    responses: { 200: { description: 'The page.', content: { 'text/html': null } } },
    examples: [
      {
        name: 'page',
        summary: 'The place of a code',
        request: {},
        answer: '<section class="error" id="rate_limited">',
      },
    ],
    handler:
      ({ errorPage }: Documents) =>
      async (req, res) =>
        sendPage(req, res, await errorPage()),
  }),
  defineRoute({
    method: 'get',
    path: '/docs/assets/{version}/{file}',
    operationId: 'getReferenceFile',
    tag: 'Service',
    summary: 'The files of the pages',
    description:
      'Scripts and styles of `/docs`. The version changes with their content, so they may be cached for ever.',
    credential: 'none',
    limit: 'documents',
    params: z.object({
      version: z.string().meta({ description: 'As the pages name it.' }),
      file: z.string().meta({ description: 'A file name.' }),
    }),
    responses: {
      200: { description: 'The file.', content: { 'text/javascript': null, 'text/css': null } },
    },
    errors: ['not_found'],
    examples: [
      {
        name: 'script',
        summary: 'The script of the page',
        request: { params: { version: '0', file: 'docs.js' } },
        answer: 'validatorUrl: null',
      },
      problemExample('not_found', {
        summary: 'No such file',
        detail: 'There is nothing at this address.',
        request: { params: { version: '0', file: 'other.js' } },
      }),
    ],
    handler: ({ assets }: Documents) => assets.serve,
  }),
];

export function documentationRouter(
  context: Pick<Context, 'clock' | 'config'>,
  listRoutes: () => Promise<readonly DescribedRoute[]>,
): Router {
  const assets = createAssets('/docs/assets', listAssets);
  const render = async (view: 'page' | 'errors'): Promise<Compressed> => {
    const file = fileURLToPath(new URL(`../../views/docs/${view}.ejs`, import.meta.url));
    const html = await ejs.renderFile(file, { assets: await assets.base(), errors: errorList() });
    return compress(Buffer.from(html));
  };
  const perMinute = context.config.limits.documentsPerMinute;
  const calls = 'requests for documents';
  const router = Router();
  router.use(
    ['/openapi.json', '/docs'],
    securityHeaders,
    perAddressLimit(context, { name: 'documents', perMinute, calls }),
  );
  return mountRoutes(router, '', documentationRoutes, {
    document: once(async () => makeDocument(await listRoutes())),
    page: once(() => render('page')),
    errorPage: once(() => render('errors')),
    assets,
  });
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
async function makeDocument(routes: readonly DescribedRoute[]): Promise<{ body: Compressed; etag: string }> {
  const { buildDocument } = await import('../core/reference/document.js');
  const json = JSON.stringify(buildDocument(routes));
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
