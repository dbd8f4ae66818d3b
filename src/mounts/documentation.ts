import { createHash } from 'node:crypto';
import { existsSync, readdirSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import express, { type Request, type RequestHandler, type Response, type Router } from 'express';
import { createRouter } from '../core/http/router.js';
import { z } from 'zod';
import { createRecentMap } from '../core/collections.js';
import { AppError } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { perAddressLimit } from '../core/http/rate-limit.js';
import { createAssets } from '../core/http/assets.js';
import { createSharedContent, sendSharedContent, type SharedContent } from '../core/http/encoding.js';
import { helmetFor } from '../core/http/headers.js';
import { originOf, hasCopy, prefersHtml, publicAddressOf } from '../core/http/request.js';
import { parseInput, text } from '../core/http/validate.js';
import { nothingHere } from '../core/http/problem.js';
import { once } from '../core/steps.js';
import { conditional, defineRoute, mountRoutes } from '../core/reference/define-route.js';
import type { OpenApiDocument } from '../core/reference/document.js';
import type { Reference } from '../core/reference/described.js';
import { kinds } from '../core/reference/search.js';
import { fontFile, fontSheet } from '../core/pages/stylesheet.js';
import { createDocumentationPages } from './documentation-pages.js';
import { topics } from './documentation-topics.js';
import type { SignedIn } from './own-values.js';
import { viewsFolder } from './documentation-views.js';

interface Documents {
  document: () => Promise<{ body: SharedContent; etag: string }>;
  sendPage: (req: Request<object>, res: Response, page: string) => Promise<void>;
  sendSearch: (req: Request<object>, res: Response) => Promise<void>;
  assets: ReturnType<typeof createAssets>;
}

const documentRoute = { tag: 'Service', credential: 'none', limit: 'documents' } as const;

const pageRoute = {
  ...documentRoute,
  responses: { 200: { description: 'The page.', content: { 'text/html': null } } },
};

const searchQuery = z.strictObject({
  q: text(100, 0).optional().meta({ description: 'Words to find, up to 100 characters.' }),
  kind: z.enum(kinds).optional().meta({ description: 'Lists all results of one kind.' }),
});

/** Built on first request and cached. */
export const documentationRoutes = [
  defineRoute({
    ...documentRoute,
    at: 'GET /openapi.json',
    operationId: 'getOpenApi',
    ...conditional('The document.', z.looseObject({ openapi: z.string() }).meta({ id: 'OpenApi' })),
    handler: (deps: Documents) => async (req, res) => {
      const { body, etag } = await deps.document();
      res.setHeader('ETag', etag);
      res.setHeader('Cache-Control', 'no-cache');
      if (hasCopy(req, etag)) res.status(304).end();
      else await sendSharedContent(req, res, body);
    },
  }),
  defineRoute({
    ...pageRoute,
    at: 'GET /docs',
    operationId: 'getDocumentation',
    handler: (deps: Documents) => (req, res) => deps.sendPage(req, res, 'index'),
  }),
  defineRoute({
    ...pageRoute,
    at: 'GET /docs/search',
    operationId: 'searchDocumentation',
    query: searchQuery,
    handler: (deps: Documents) => (req, res) => deps.sendSearch(req, res),
  }),
  defineRoute({
    ...pageRoute,
    at: 'GET /docs/{topic}',
    operationId: 'getTopic',
    params: z.object({
      topic: z.enum(topics.map(({ id }) => id)).meta({ description: 'The name in the link from `/docs`.' }),
    }),
    handler: (deps: Documents) => (req, res) => deps.sendPage(req, res, `topics/${req.params.topic}`),
  }),
  defineRoute({
    ...pageRoute,
    at: 'GET /docs/reference/{group}',
    operationId: 'getReference',
    params: z.object({ group: z.string().meta({ description: 'The name in the link from `/docs`.' }) }),
    handler: (deps: Documents) => (req, res) => deps.sendPage(req, res, `reference/${req.params.group}`),
  }),
  defineRoute({
    ...documentRoute,
    at: 'GET /docs/assets/{version}/{file}',
    operationId: 'getReferenceFile',
    params: z.object({
      version: z.string().meta({ description: 'The version in the links of the pages.' }),
      file: z.string().meta({ description: 'A file name.' }),
    }),
    responses: {
      200: {
        description: 'The file.',
        content: { 'text/javascript': null, 'text/css': null, 'font/woff2': null },
      },
    },
    handler: ({ assets }: Documents) => assets.serve,
  }),
];

const assets = createAssets('/docs/assets', listAssets);

interface DocumentationDeps {
  describeService: () => Promise<Reference>;
  session: RequestHandler;
  readOwnValues: (req: Request) => Promise<SignedIn>;
}

export function documentationRouter(
  context: Pick<Context, 'clock' | 'config'>,
  { describeService, session, readOwnValues }: DocumentationDeps,
): Router {
  const reference = once(describeService);
  const document = once(async () => {
    const { buildDocument } = await import('../core/reference/document.js');
    return buildDocument(await reference());
  });
  const describe = async () => ({ reference: await reference(), document: await document() });
  const pages = createDocumentationPages(describe, () => assets.base());
  const render = async (
    page: string,
    req: Request<object>,
    reader: SignedIn = {},
  ): Promise<SharedContent> => {
    const html = await pages.renderPage(page, {
      origin: originOf(req),
      address: publicAddressOf(req),
      ...reader,
    });
    if (!html) throw nothingHere();
    return toPage(html);
  };
  const renderOnce = keepPages(render);
  const perMinute = context.config.limits.documentsPerMinute;
  const calls = 'requests for documents';
  const router = createRouter();
  router.use(
    ['/openapi.json', '/docs', clientsPath],
    // No inline scripts or styles.
    helmetFor("'self'"),
    perAddressLimit(context, { name: 'documents', perMinute, calls }),
  );
  router.use(clientsPath, express.static(clientFolder, { redirect: false, index: false }), otherClientFiles);
  router.use('/docs', session);
  return mountRoutes(router, '', documentationRoutes, {
    document: once(async () => toSent(await document())),
    async sendPage(req, res, page) {
      const reader = await readOwnValues(req as Request);
      const isShared = !reader.own && !reader.isOperator;
      const html = await (isShared ? renderOnce(page, req) : render(page, req, reader)).catch(
        async (error: unknown) => {
          if (!(error instanceof AppError && error.code === 'not_found' && prefersHtml(req as Request)))
            throw error;
          res.status(404);
          return toPage(await pages.renderMissing(page.replace(/^.*\//, '').slice(0, 100), reader));
        },
      );
      res.setHeader('Cache-Control', isShared ? 'no-cache' : 'private, no-cache');
      res.vary('Cookie');
      await sendSharedContent(req, res, html);
    },
    async sendSearch(req, res) {
      const { error, ...query } = readSearch(req as Request);
      if (error !== undefined) res.status(400);
      res.setHeader('Cache-Control', 'private, no-cache');
      const reader = await readOwnValues(req as Request);
      await sendSharedContent(req, res, toPage(await pages.renderSearch(query, error, reader)));
    },
    assets,
  });
}

/** Browsers get the error beside their input. */
function readSearch(req: Request): z.infer<typeof searchQuery> & { error?: string } {
  // Forms also send empty fields.
  const { q: typed } = req.query;
  try {
    return parseInput(searchQuery, req.query);
  } catch (error) {
    if (!prefersHtml(req) || !(error instanceof AppError)) throw error;
    return {
      q: typeof typed === 'string' ? typed : '',
      error: error.message.replace(/^\/q /, 'The search '),
    };
  }
}

const clientsPath = '/clients';
const clientFolder = fileURLToPath(new URL('../../dist/clients', import.meta.url));

/** Names without a version lead to the current one. pip needs the version in the address. */
const otherClientFiles: RequestHandler = (req, res) => {
  const packed = existsSync(clientFolder) ? readdirSync(clientFolder) : [];
  if (packed.length === 0)
    throw new AppError(
      'not_found',
      'The clients have not been packed. Run `npm run build` and restart Gauge.',
    );
  const current = packed.find((name) => req.path === `/gauge-client${extname(name)}`);
  if (!current)
    throw new AppError('not_found', `There is no such client. There are ${packed.join(' and ')}.`);
  res.setHeader('Cache-Control', 'no-cache');
  res.redirect(`${clientsPath}/${current}`);
};

const toPage = (html: Buffer): SharedContent => createSharedContent('text/html; charset=utf-8', html);

/** Enough for all pages under a few host names: callers may vary the Host header. */
const MAX_KEPT_PAGES = 100;

type Render = (page: string, req: Request<object>) => Promise<SharedContent>;

/** For pages that are the same for every reader. */
function keepPages(make: Render): Render {
  const kept = createRecentMap<string, Promise<SharedContent>>(MAX_KEPT_PAGES);
  return (page, req) => {
    const name = `${page} ${originOf(req)}`;
    const known = kept.get(name);
    if (known) return known;
    const made = make(page, req);
    kept.set(name, made);
    made.catch(() => kept.delete(name));
    return made;
  };
}

function listAssets() {
  const file = (path: string) => `${viewsFolder}/${path}`;
  const shared = [
    'tokens',
    'base',
    'frame',
    'cards',
    'alerts',
    'buttons',
    'forms',
    'tables',
    'samples',
    'utilities',
  ];
  const sheets = shared.map((name) => file(`styles/${name}.css`));
  return [
    { name: 'docs.css', files: [fontSheet, ...sheets, file('docs/docs.css')] },
    fontFile,
    file('docs/docs.js'),
    file('docs/contents.js'),
    file('docs/languages.js'),
    file('assets/arrows.js'),
    file('assets/copy.js'),
    file('assets/icon.svg'),
    file('assets/preview.png'),
  ];
}

function toSent(document: OpenApiDocument): { body: SharedContent; etag: string } {
  const json = JSON.stringify(document);
  const etag = `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"`;
  return { body: createSharedContent('application/json; charset=utf-8', Buffer.from(json)), etag };
}
