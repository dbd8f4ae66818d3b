import { z } from 'zod';
import type { RouteDescription } from '../core/reference/description.js';
import { repeated } from '../core/reference/description.js';
import {
  apiKeyProblemExamples,
  apiKeyProblems,
  bodyProblemExamples,
  bodyProblems,
  problemExample,
  serviceProblemExamples,
  serviceProblems,
} from '../core/reference/problem-examples.js';
import {
  entitlementCheckAnswerSchema,
  entitlementCheckSchema,
  entitlementListSchema,
  entitlementPageSchema,
  entitlementSchema,
  MAX_BODY_BYTES,
  MAX_SLUGS,
} from './schema.js';

const scope = 'entitlements:read';

const common = {
  tag: 'Entitlements',
  security: 'apiKey',
  scope,
  isLimited: true,
} as const;

const period = { start: '2026-01-01T00:00:00Z', end: '2026-02-01T00:00:00Z' };
const since = { startsAt: '2026-01-05T09:00:00.000Z', endsAt: null };

const apiCalls = {
  productSlug: 'api-calls',
  productName: 'API calls',
  kind: 'live',
  usageMetric: 'calls',
  unitCap: 1000,
  used: 400,
  remaining: 600,
  period,
  ...since,
};
const archive = {
  productSlug: 'archive',
  productName: 'Archive',
  kind: 'read_only',
  usageMetric: 'documents',
  unitCap: null,
  used: 0,
  remaining: null,
  period,
  ...since,
};
const storage = {
  productSlug: 'storage',
  productName: 'Storage',
  kind: 'live',
  usageMetric: 'bytes',
  unitCap: null,
  used: 0,
  remaining: null,
  period,
  ...since,
};

const list: RouteDescription = {
  ...common,
  method: 'get',
  path: '/api/entitlements',
  operationId: 'listEntitlements',
  summary: 'List entitlements',
  description: `
The entitlements of the key's Organization that are in effect now, ordered by \`productSlug\`, each with the balance of the current
month in the key's mode. At most \`limit\` at once; \`nextCursor\` leads to the next page. Balances include every batch that was answered with 202.
`.trim(),
  query: entitlementPageSchema,
  responses: {
    200: { description: 'A page of them.', content: { 'application/json': entitlementListSchema } },
  },
  errors: ['invalid_request', ...apiKeyProblems(scope), ...serviceProblems],
  examples: [
    {
      name: 'list',
      summary: 'All of them',
      request: { credential: 'liveKey' },
      response: { status: 200, body: { entitlements: [apiCalls, archive, storage], nextCursor: null } },
    },
    {
      name: 'firstPage',
      summary: 'The first page, of one',
      request: { credential: 'liveKey', query: { limit: '1' } },
      response: { status: 200, body: { entitlements: [apiCalls], nextCursor: 'api-calls' } },
    },
    {
      name: 'testMode',
      summary: 'A test key sees test usage, of which there is none yet',
      request: { credential: 'testKey', query: { limit: '1' } },
      response: {
        status: 200,
        body: { entitlements: [{ ...apiCalls, used: 0, remaining: 1000 }], nextCursor: 'api-calls' },
      },
    },
    problemExample('invalid_request', {
      summary: 'A page of more than 500',
      detail: '/limit must be a whole number from 1 to 500',
      errors: [
        { pointer: '/limit', code: 'invalid_request', detail: 'must be a whole number from 1 to 500' },
      ],
      request: { credential: 'liveKey', query: { limit: '501' } },
    }),
    ...apiKeyProblemExamples({}, scope),
    ...serviceProblemExamples({ credential: 'liveKey' }),
  ],
};

const one: RouteDescription = {
  ...common,
  method: 'get',
  path: '/api/entitlements/{productSlug}',
  operationId: 'getEntitlement',
  summary: 'Read one entitlement',
  description:
    'The entitlement for a product, if it is in effect now, with the balance of the current month in the mode of the key. An unknown product and one without an entitlement answer alike.',
  params: z.object({
    productSlug: z.string().meta({ description: 'The slug of the product, percent-encoded.' }),
  }),
  responses: { 200: { description: 'The entitlement.', content: { 'application/json': entitlementSchema } } },
  errors: [...apiKeyProblems(scope), 'entitlement_not_found', ...serviceProblems],
  examples: [
    {
      name: 'entitlement',
      summary: 'A live entitlement',
      request: { credential: 'readerKey', params: { productSlug: 'api-calls' } },
      response: { status: 200, body: apiCalls },
    },
    problemExample('entitlement_not_found', {
      summary: 'No entitlement in effect',
      detail: 'No entitlement for the product reports is in effect.',
      request: { credential: 'readerKey', params: { productSlug: 'reports' } },
    }),
    ...apiKeyProblemExamples({ params: { productSlug: 'api-calls' } }, scope),
    ...serviceProblemExamples({ credential: 'liveKey', params: { productSlug: 'api-calls' } }),
  ],
};

const body = { productSlugs: ['api-calls', 'archive', 'reports'] };

const check: RouteDescription = {
  ...common,
  method: 'post',
  path: '/api/entitlements/check',
  operationId: 'checkEntitlements',
  summary: 'Check up to 50 products',
  description: `
Answers for 1 to ${MAX_SLUGS} product slugs whether the Organization may use them now: one result for each slug, in the order of the request. A denial is an
answer (200), not an error. The body has at most 256 KiB.

\`allowed\` is true for a live entitlement, above its cap, too: \`overCap\` and \`remaining\` tell, and the caller decides.
`.trim(),
  body: { schema: entitlementCheckSchema },
  responses: {
    200: { description: 'The results.', content: { 'application/json': entitlementCheckAnswerSchema } },
  },
  errors: [
    'invalid_request',
    ...bodyProblems,
    ...apiKeyProblems(scope),
    'batch_too_large',
    ...serviceProblems,
  ],
  examples: [
    {
      name: 'check',
      summary: 'Live, read-only, none',
      request: { credential: 'readerKey', body },
      response: {
        status: 200,
        body: {
          results: [
            {
              productSlug: 'api-calls',
              allowed: true,
              reason: null,
              kind: 'live',
              unitCap: 1000,
              used: 400,
              remaining: 600,
              overCap: false,
            },
            {
              productSlug: 'archive',
              allowed: false,
              reason: 'entitlement_read_only',
              kind: 'read_only',
              unitCap: null,
              used: 0,
              remaining: null,
              overCap: false,
            },
            {
              productSlug: 'reports',
              allowed: false,
              reason: 'entitlement_required',
              kind: null,
              unitCap: null,
              used: null,
              remaining: null,
              overCap: false,
            },
          ],
        },
      },
    },
    problemExample('invalid_request', {
      summary: 'An empty list',
      detail: '/productSlugs must hold at least one slug',
      errors: [{ pointer: '/productSlugs', code: 'invalid_request', detail: 'must hold at least one slug' }],
      request: { credential: 'readerKey', body: { productSlugs: [] } },
    }),
    problemExample('batch_too_large', {
      summary: '51 slugs (one is shown)',
      detail: `A check takes at most ${MAX_SLUGS} slugs; this one has ${MAX_SLUGS + 1}.`,
      request: {
        credential: 'readerKey',
        body: { productSlugs: repeated(MAX_SLUGS + 1, () => 'api-calls') },
      },
    }),
    ...bodyProblemExamples({ credential: 'readerKey', body }, MAX_BODY_BYTES),
    ...apiKeyProblemExamples({ body }, scope),
    ...serviceProblemExamples({ credential: 'readerKey', body }),
  ],
};

export const entitlementDescriptions: RouteDescription[] = [list, one, check];
