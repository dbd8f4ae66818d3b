import { z } from 'zod';
import { authenticateCall, type KeyUse } from '../../accounts/api-keys/key-use.js';
import { readHashedSecret, preferKeyError, type KeyReader } from '../../accounts/api-keys/bearer-key.js';
import { AppError, type ErrorPlace } from '../../core/errors.js';
import type { Orm } from '../../core/db/client.js';
import { findUnknownKey, unknownDimension, type Dimensions } from './dimensions.js';
import { listDimensions } from './queries.js';
import type { Context } from '../../core/http/context.js';
import { hasSmallBody, readJsonText, batchBounds } from '../../core/http/body.js';
import { sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { checkResultsJson, parseCheck, toEntitlementView } from './entitlement-json.js';
import { suggestSlugs } from './nearest.js';
import type { EntitlementReader } from './reader.js';
import {
  MAX_BODY_BYTES,
  MAX_SLUGS,
  entitlementCheckAnswerSchema,
  entitlementCheckSchema,
  entitlementListSchema,
  entitlementPageSchema,
  entitlementSchema,
} from './schema.js';
import { defineRoute, json, repeated } from '../../core/reference/define-route.js';
import { exampleWorld } from '../reference/example-world.js';
import { invalidExample, problemExample } from '../../core/reference/problem-examples.js';

interface EntitlementDeps extends Pick<Context, 'db' | 'clock'> {
  entitlements: EntitlementReader;
  keys: KeyReader;
  keyUse: KeyUse;
}

const scope = 'entitlements:read';

const common = {
  tag: 'Entitlements',
  credential: 'apiKey',
  scope,
  limit: 'entitlements',
} as const;

const period = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' };

const { blocked, held } = exampleWorld.reservation;
const storageLimit = {
  quantity: blocked,
  window: 'PT5H',
  enforcement: 'block',
  used: 0,
  held,
  remaining: blocked - held,
  resetsAt: null,
};

function entitlementTo(name: keyof typeof exampleWorld.products) {
  const { slug, name: productName, usageMetric, entitlement: kind, ...numbers } = exampleWorld.products[name];
  const unitCap = numbers.unitCap === null ? null : Number(numbers.unitCap);
  const used = Number(numbers.used ?? 0);
  const remaining = unitCap === null ? null : unitCap - used;
  const since = { startsAt: exampleWorld.createdAt, endsAt: null };
  return {
    productSlug: slug,
    productName,
    kind,
    usageMetric,
    unitCap,
    used,
    remaining,
    period,
    limits: name === 'storage' ? [storageLimit] : [],
    ...('credits' in numbers ? { credits: { ...numbers.credits, available: 60 } } : {}),
    ...since,
  };
}

const apiCalls = entitlementTo('apiCalls');
const archive = entitlementTo('archive');

const list = defineRoute({
  ...common,
  method: 'get',
  path: '/api/entitlements',
  operationId: 'listEntitlements',
  python: ['print(list(gauge.entitlements()))'],
  summary: 'List entitlements',
  description: `
The entitlements of the key's Organization that are in effect now, ordered by \`productSlug\`, each with the balance of the current
month in the key's mode. At most \`limit\` per page; \`nextCursor\` gets the next page. Balances include every batch that got a 202.
`.trim(),
  query: entitlementPageSchema,
  responses: {
    200: json('One page.', entitlementListSchema),
  },
  examples: [
    {
      name: 'list',
      summary: 'All entitlements',
      request: {},
      answer: { entitlements: [apiCalls, archive, entitlementTo('storage')], nextCursor: null },
    },
    {
      name: 'firstPage',
      summary: 'The first page, of one',
      request: { query: { limit: '1' } },
      answer: { entitlements: [apiCalls], nextCursor: 'api-calls' },
    },
    {
      name: 'testMode',
      summary: 'A test key, with no test usage yet',
      request: { credential: 'testKey', query: { limit: '1' } },
      answer: { entitlements: [{ ...apiCalls, used: 0, remaining: 1000 }], nextCursor: 'api-calls' },
    },
    invalidExample('A page of more than 500', { query: { limit: '501' } }),
  ],
  handler: (deps: EntitlementDeps) => async (req, res) => {
    const { entitlements, keyUse } = deps;
    const hashedSecret = readHashedSecret(req);
    const query = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      () => parseInput(entitlementPageSchema, req.query),
    );
    const limit = Number(query.limit ?? 100);
    const found = await entitlements.list(hashedSecret, { after: query.cursor ?? '', size: limit + 1 });
    keyUse.touch(hashedSecret, scope);
    const { page, nextCursor = null } = cutPage(found, limit, ({ productSlug }) => productSlug);
    sendJson(res, 200, toJson({ entitlements: page.map(toEntitlementView), nextCursor }));
  },
});

const one = defineRoute({
  ...common,
  method: 'get',
  path: '/api/entitlements/{productSlug}',
  operationId: 'getEntitlement',
  python: ['print(gauge.entitlement({productSlug}))'],
  summary: 'Read one entitlement',
  description:
    "The entitlement for a product, if it is in effect now, with the balance of the current month in the key's mode. An unknown product gets the same response as one without an entitlement.",
  params: z.object({
    productSlug: z.string().meta({ description: 'The slug of the product, percent-encoded.' }),
  }),
  responses: { 200: json('The entitlement.', entitlementSchema) },
  good: { params: { productSlug: 'api-calls' } },
  examples: [
    {
      name: 'entitlement',
      summary: 'A live entitlement',
      request: { credential: 'readerKey', params: { productSlug: 'api-calls' } },
      answer: apiCalls,
    },
    problemExample('entitlement_not_found', {
      summary: 'No entitlement in effect',
      detail: 'No entitlement for the product reports is in effect.',
      request: { credential: 'readerKey', params: { productSlug: 'reports' } },
    }),
  ],
  handler:
    ({ entitlements, keys, keyUse, ...context }: EntitlementDeps) =>
    async (req, res) => {
      const hashedSecret = readHashedSecret(req);
      const { productSlug } = req.params;
      const entitlement = await entitlements.find(hashedSecret, productSlug);
      keyUse.touch(hashedSecret, scope);
      if (!entitlement) {
        const { orgId } = await keys.authenticate(hashedSecret, scope);
        const question = (await suggestSlugs(context, orgId, [productSlug])).get(productSlug) ?? '';
        throw new AppError(
          'entitlement_not_found',
          `No entitlement for the product ${productSlug} is in effect.${question}`,
        );
      }
      sendJson(res, 200, toJson(toEntitlementView(entitlement)));
    },
});

const checked = ({ productSlug, kind, unitCap, used, remaining }: ReturnType<typeof entitlementTo>) => ({
  productSlug,
  kind,
  unitCap,
  used,
  remaining,
  overCap: false,
  limits: [],
});
const none = {
  ...checked(apiCalls),
  productSlug: 'reports',
  kind: null,
  unitCap: null,
  used: null,
  remaining: null,
};
const body = { productSlugs: ['api-calls', 'archive', 'reports'] };

const check = defineRoute({
  ...common,
  method: 'post',
  path: '/api/entitlements/check',
  operationId: 'checkEntitlements',
  python: ['print(gauge.check({productSlugs}))', 'print(gauge.check({items}))'],
  summary: 'Check up to 50 products',
  description: `
Checks for 1 to ${MAX_SLUGS} product slugs whether the Organization may use them now. The response has one result per slug, in the order of the request. A denial is a
result (200), not an error. The body can have at most 640 KiB.

\`allowed\` is true for a live entitlement, even above its cap; use \`overCap\` and \`remaining\` to decide. Only a blocking limit
makes it false, with the reason \`limit_reached\`: for an item with a \`quantity\`, if the quantity would exceed the limit; otherwise, if the limit is reached. The same holds for a product whose credits
block, with the reason \`credits_exhausted\`. A result guarantees nothing for later; a reservation does.
`.trim(),
  body: { schema: entitlementCheckSchema, maxBytes: MAX_BODY_BYTES },
  responses: {
    200: json('The results.', entitlementCheckAnswerSchema),
  },
  examples: [
    {
      name: 'check',
      summary: 'Live, read-only and no entitlement',
      request: { credential: 'readerKey', body },
      answer: {
        results: [
          { ...checked(apiCalls), allowed: true, reason: null },
          { ...checked(archive), allowed: false, reason: 'entitlement_read_only' },
          { ...none, allowed: false, reason: 'entitlement_required' },
        ],
      },
    },
    {
      name: 'limitReached',
      summary: 'More than a blocking limit leaves',
      request: {
        credential: 'readerKey',
        body: { items: [{ productSlug: 'storage', quantity: blocked - held + 0.5 }] },
      },
      answer: {
        results: [
          {
            ...checked(entitlementTo('storage')),
            limits: [storageLimit],
            allowed: false,
            reason: 'limit_reached',
          },
        ],
      },
    },
    {
      name: 'creditsExhausted',
      summary: 'It costs more credits than are left',
      request: {
        credential: 'readerKey',
        body: { items: [{ productSlug: 'storage', quantity: 1_500_000 }] },
      },
      answer: {
        results: [
          {
            ...checked(entitlementTo('storage')),
            limits: [storageLimit],
            allowed: false,
            reason: 'credits_exhausted',
          },
        ],
      },
    },
    {
      name: 'items',
      summary: 'With a quantity',
      request: { credential: 'readerKey', body: { items: [{ productSlug: 'api-calls', quantity: 25.5 }] } },
      answer: { results: [{ ...checked(apiCalls), allowed: true, reason: null }] },
    },
    invalidExample('An empty list', { credential: 'readerKey', body: { productSlugs: [] } }),
    problemExample('batch_too_large', {
      summary: '51 slugs (one is shown)',
      detail: `A check can have at most ${MAX_SLUGS} slugs. This one has ${MAX_SLUGS + 1}.`,
      request: {
        credential: 'readerKey',
        body: { productSlugs: repeated(MAX_SLUGS + 1, () => 'api-calls') },
      },
    }),
  ],
  handler: (deps: EntitlementDeps) => async (req, res) => {
    const { entitlements, keys, keyUse } = deps;
    const hashedSecret = readHashedSecret(req);
    if (!keyUse.hasSeen(hashedSecret) || !hasSmallBody(req)) await keys.authenticate(hashedSecret, scope);
    const question = await preferKeyError(
      () => authenticateCall(deps, hashedSecret, scope),
      async () => parseCheck(await readJsonText(req, res, MAX_BODY_BYTES, batchBounds)),
    );
    const found = await entitlements.check(hashedSecret, question.slugs);
    keyUse.touch(hashedSecret, scope);
    const { slugs, subjects, dimensions } = question;
    if (dimensions) await requireKnownDimensions(deps.db.orm, slugs, dimensions);
    const ofSubjects =
      subjects &&
      (await entitlements.limitsOf(
        hashedSecret,
        subjects.map((subject, i) => ({ balance: found[i], subject })),
      ));
    sendJson(res, 200, checkResultsJson(question, found, ofSubjects));
  },
});

export const entitlementRoutes = [list, one, check];

/** @throws AppError unknown_dimension */
async function requireKnownDimensions(
  orm: Orm,
  slugs: string[],
  dimensions: readonly (Dimensions | undefined)[],
): Promise<void> {
  const keys = new Map(
    (await listDimensions(orm, slugs)).map((product) => [product.slug, product.dimensions]),
  );
  const errors = slugs.flatMap((slug, i): ErrorPlace[] => {
    const own = keys.get(slug);
    if (!own || !dimensions[i] || findUnknownKey(own, dimensions[i]) === undefined) return [];
    const detail = unknownDimension(slug, own, dimensions[i]);
    return [{ index: i, pointer: `/items/${i}/dimensions`, code: 'unknown_dimension', detail }];
  });
  if (errors.length > 0) throw new AppError('unknown_dimension', errors[0]!.detail, { errors });
}
