import { createHash } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { Router, type Request, type RequestHandler, type Response } from 'express';
import helmet from 'helmet';
import { z } from 'zod';
import { createRecentMap } from '../core/collections.js';
import type { ErrorCode } from '../core/errors.js';
import type { Context } from '../core/http/context.js';
import { perAddressLimit } from '../core/http/rate-limit.js';
import { compress, createAssets, sendCompressed, type Compressed } from '../core/http/assets.js';
import { originOf, hasCopy } from '../core/http/request.js';
import { nothingHere } from '../core/http/problem.js';
import { once } from '../core/steps.js';
import { conditional, defineRoute, excerpt, mountRoutes } from '../core/reference/define-route.js';
import type { OpenApiDocument } from '../core/reference/document.js';
import type { OwnValues } from '../core/reference/own-examples.js';
import type { Reference } from '../core/reference/described.js';
import { fontFile, fontSheet } from '../core/pages/stylesheet.js';
import { problemExample } from '../core/reference/problem-examples.js';

interface Documents {
  document: () => Promise<{ body: Compressed; etag: string }>;
  sendPage: (req: Request<object>, res: Response, page: string) => Promise<void>;
  assets: ReturnType<typeof createAssets>;
}

interface Topic {
  title: string;
  summary: string;
  /** The page is about this operation, and is missing where the service has none of it. */
  operationId?: string;
}

/** Pages on one topic each, by the last part of their address, in reading order. */
const topics: Record<string, Topic> = {
  start: {
    title: 'Five-minute start',
    summary: 'Create a key, send an event and see the result.',
    operationId: 'recordUsageEvents',
  },
  retries: {
    title: 'Retries and idempotency',
    summary: 'Retry without counting twice.',
    operationId: 'recordUsageEvents',
  },
  caps: {
    title: 'Caps and warnings',
    summary: 'What happens near and above the cap.',
    operationId: 'recordUsageEvents',
  },
  'key-rotation': { title: 'Rotating keys', summary: 'Replace a key while your runtimes keep running.' },
  'test-and-live': {
    title: 'Test and live',
    summary: 'Try everything without changing live totals.',
    operationId: 'recordUsageEvents',
  },
  'paper-trading': {
    title: 'Paper trading',
    summary: 'Trade weather markets with paper money.',
    operationId: 'placeOrder',
  },
  webhooks: { title: 'Webhook messages', summary: 'Every message that your endpoints receive.' },
  errors: { title: 'Errors', summary: 'Every code and how to fix it.' },
};

const documentRoute = { method: 'get', tag: 'Service', credential: 'none', limit: 'documents' } as const;

const notFoundExample = (summary: string, params: Record<string, string>) =>
  problemExample('not_found', {
    summary,
    detail: 'Nothing exists at this address.',
    request: { params },
  });

const htmlPage = { 200: { description: 'The page.', content: { 'text/html': null } } };

/** `/openapi.json` and `/docs`. Everything is made on its first request and kept. */
export const documentationRoutes = [
  defineRoute({
    ...documentRoute,
    path: '/openapi.json',
    operationId: 'getOpenApi',
    summary: 'This document',
    description:
      'OpenAPI 3.1. The document changes only with the version of the service. Keep its `ETag` and send it as `If-None-Match`.',
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
    ...documentRoute,
    path: '/docs',
    operationId: 'getDocumentation',
    summary: 'The documentation',
    description: `Links to a page for each subject and to the reference. For a signed-in member, the examples use their own products, key prefixes and times.`,
    responses: htmlPage,
    examples: [
      { name: 'page', summary: 'Its title', request: {}, answer: '<title>Documentation – Gauge</title>' },
    ],
    handler:
      ({ sendPage }: Documents) =>
      (req, res) =>
        sendPage(req, res, 'index'),
  }),
  defineRoute({
    ...documentRoute,
    path: '/docs/{topic}',
    operationId: 'getTopic',
    summary: 'A subject of the documentation',
    description: '`/docs/errors` explains each `code` and its remedy. The `type` of a problem links to it.',
    params: z.object({
      topic: z.enum(Object.keys(topics)).meta({ description: 'The name in the link from `/docs`.' }),
    }),
    responses: htmlPage,
    examples: [
      {
        name: 'errors',
        summary: 'The section of a code',
        request: { params: { topic: 'errors' } },
        answer: '<section class="problem" id="rate_limited">',
      },
      notFoundExample('No such page', { topic: 'weather' }),
    ],
    handler:
      ({ sendPage }: Documents) =>
      (req, res) =>
        sendPage(req, res, `topics/${req.params.topic}`),
  }),
  defineRoute({
    ...documentRoute,
    path: '/docs/reference/{group}',
    operationId: 'getReference',
    summary: 'A part of the reference',
    description:
      'The routes of a group with their fields, responses and examples. With JavaScript, requests can be tried on the page; an entered key stays in the memory of the tab.',
    params: z.object({ group: z.string().meta({ description: 'The name in the link from `/docs`.' }) }),
    responses: htmlPage,
    examples: [
      {
        name: 'page',
        summary: 'The section of a route',
        request: { params: { group: 'usage' } },
        answer: '<section class="operation" id="recordUsageEvents"',
      },
      notFoundExample('No such group', { group: 'weather' }),
    ],
    handler:
      ({ sendPage }: Documents) =>
      (req, res) =>
        sendPage(req, res, `reference/${req.params.group}`),
  }),
  defineRoute({
    ...documentRoute,
    path: '/docs/assets/{version}/{file}',
    operationId: 'getReferenceFile',
    summary: 'The files of the pages',
    description:
      'Scripts and styles of `/docs`. The version changes with their content, so they can be cached indefinitely.',
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
    examples: [
      {
        name: 'script',
        summary: 'The script of the page',
        request: { params: { version: '0', file: 'docs.js' } },
        answer: "credentials: 'omit'",
      },
      notFoundExample('No such file', { version: '0', file: 'other.js' }),
    ],
    handler: ({ assets }: Documents) => assets.serve,
  }),
];

interface DocumentationDeps {
  /** Called on the first request for a document. */
  describeService: () => Promise<Reference>;
  /** Runs before the pages and reads the session cookie. */
  session: RequestHandler;
  /** Values of the signed-in reader; undefined for others. */
  readOwnValues: (req: Request) => Promise<OwnValues | undefined>;
}

export function documentationRouter(
  context: Pick<Context, 'clock' | 'config'>,
  { describeService, session, readOwnValues }: DocumentationDeps,
): Router {
  const assets = createAssets('/docs/assets', listAssets);
  const reference = once(describeService);
  const document = once(async () => {
    const { buildDocument } = await import('../core/reference/document.js');
    return buildDocument(await reference());
  });
  const render = async (page: string, origin: string, own: OwnValues | undefined): Promise<Buffer> => {
    const view = await makeView(page, await reference(), { document: await document(), origin, own });
    if (!view) throw nothingHere();
    const values = { ...view, current: page, assets: await assets.base() };
    return Buffer.from(
      await ejs.renderFile(`${viewsFolder}/docs/layout.ejs`, values, { views: [viewsFolder] }),
    );
  };
  const renderOnce = keepPages(async (page, origin) => compress(await render(page, origin, undefined)));
  const perMinute = context.config.limits.documentsPerMinute;
  const calls = 'requests for documents';
  const router = Router();
  router.use(
    ['/openapi.json', '/docs'],
    securityHeaders,
    perAddressLimit(context, { name: 'documents', perMinute, calls }),
  );
  router.use('/docs', session);
  return mountRoutes(router, '', documentationRoutes, {
    document: once(async () => toSent(await document())),
    async sendPage(req, res, page) {
      const own = await readOwnValues(req as Request);
      const html = own
        ? await compress(await render(page, originOf(req), own))
        : await renderOnce(page, originOf(req));
      res.setHeader('Cache-Control', own ? 'private, no-cache' : 'no-cache');
      res.vary('Cookie');
      sendCompressed(req, res, 'text/html; charset=utf-8', html);
    },
    assets,
  });
}

const viewsFolder = fileURLToPath(new URL('../../views', import.meta.url));

/** Enough for all pages under a few host names; requests under many host names get no more memory. */
const MAX_KEPT_PAGES = 100;

/** Caches pages that are the same for every reader, each made on its first request. */
function keepPages(
  make: (page: string, origin: string) => Promise<Compressed>,
): (page: string, origin: string) => Promise<Compressed> {
  const kept = createRecentMap<string, Promise<Compressed>>(MAX_KEPT_PAGES);
  return (page, origin) => {
    const name = `${page} ${origin}`;
    const known = kept.get(name);
    if (known) return known;
    const made = make(page, origin);
    kept.set(name, made);
    made.catch(() => kept.delete(name));
    return made;
  };
}

/** Undefined for an unknown page. Loads the reader with the first page, so that it does not delay the start. */
async function makeView(
  page: string,
  reference: Reference,
  { document, ...reader }: { document: OpenApiDocument; origin: string; own: OwnValues | undefined },
): Promise<object | undefined> {
  const { describeExampleFor, describeMessages, describeOperations, listGroups, toInlineHtml } =
    await import('../core/reference/reader.js');
  const { routes, circumstances } = reference;
  const shownFor = { ...reader, circumstances };
  const [kind, id = ''] = page.split('/');
  const present = listGroups(reference);
  const shown = Object.fromEntries(
    Object.entries(topics).filter(
      ([, topic]) =>
        topic.operationId === undefined || routes.some((route) => route.operationId === topic.operationId),
    ),
  );
  // A topic and a group may have the same name.
  const group = kind === 'reference' ? present.find((one) => one.id === id) : undefined;
  if (kind === 'topics' && !Object.hasOwn(shown, id)) return undefined;
  if (kind === 'reference' && !group) return undefined;
  const operations = routes.map(({ tag, operationId, summary }) => ({ tag, operationId, summary }));
  return {
    topics: shown,
    groups: present.map((one) => ({ ...one, operations: operations.filter(({ tag }) => tag === one.tag) })),
    title: group?.tag ?? topics[id]?.title ?? 'Documentation',
    template: group ? 'docs/reference' : `docs/${page}`,
    group,
    operations: group ? describeOperations(routes, document, group.tag, shownFor) : [],
    isOwn: shownFor.own !== undefined,
    errors: id === 'errors' ? listErrors(reference) : [],
    messages: id === 'webhooks' ? describeMessages(document) : [],
    toInlineHtml,
    findExample(operationId: string, name: string) {
      const route = routes.find((one) => one.operationId === operationId);
      const example = route?.examples.find((one) => one.name === name);
      if (!route || !example) throw new Error(`There is no example ${name} of ${operationId}.`);
      return describeExampleFor(route, example, shownFor);
    },
  };
}

function listAssets() {
  const file = (path: string) => `${viewsFolder}/${path}`;
  const shared = ['tokens', 'base', 'frame', 'buttons', 'forms', 'tables', 'utilities'];
  const sheets = shared.map((name) => file(`styles/${name}.css`));
  return [
    { name: 'docs.css', files: [fontSheet, ...sheets, file('docs/docs.css')] },
    fontFile,
    file('docs/docs.js'),
    file('assets/copy.js'),
    file('assets/icon.svg'),
  ];
}

/** Allows only the service's own files, and no inline script or style. */
const securityHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      'default-src': ["'none'"],
      'script-src': ["'self'"],
      'style-src': ["'self'"],
      'img-src': ["'self'", 'data:'],
      'font-src': ["'self'"],
      'connect-src': ["'self'"],
      'form-action': ["'none'"],
      'frame-ancestors': ["'none'"],
      'base-uri': ["'none'"],
    },
  },
  referrerPolicy: { policy: 'same-origin' },
});

async function toSent(document: OpenApiDocument): Promise<{ body: Compressed; etag: string }> {
  const json = JSON.stringify(document);
  const etag = `W/"${createHash('sha256').update(json).digest('base64url').slice(0, 27)}"`;
  return { body: await compress(Buffer.from(json)), etag };
}

function listErrors({ errors, statuses }: Reference) {
  const codes = Object.keys(statuses) as ErrorCode[];
  return codes
    .map((code) => ({
      code,
      status: statuses[code],
      title: STATUS_CODES[statuses[code]],
      ...errors[code],
    }))
    .toSorted((a, b) => a.status - b.status);
}
