import type { RouteDescription } from '../../core/reference/description.js';
import { exampleWorld } from '../../core/reference/example-world.js';
import { problemExample } from '../../core/reference/problem-examples.js';
import { productAnswerSchema } from '../../identity/operator/answer-schema.js';
import {
  createdAt,
  cursorOf,
  describeOperatorRoute,
  listParts,
  madeId,
  notFoundExample,
  now,
  putResponses,
} from '../../identity/operator/description-parts.js';
import { productSchema } from '../../identity/operator/schema.js';

const product = (name: keyof typeof exampleWorld.products) => {
  const { entitlement: _entitlement, used: _used, unitCap, ...rest } = exampleWorld.products[name];
  return {
    ...rest,
    unitCap: unitCap === null ? null : Number(unitCap),
    maxQuantity: 1e15,
    createdAt,
    updatedAt: createdAt,
  };
};
const declared = { name: 'API calls', usageMetric: 'calls', unitCap: 1000 };

export const productDescriptions: RouteDescription[] = [
  describeOperatorRoute({
    method: 'get',
    path: '/operator/products',
    operationId: 'listProducts',
    summary: 'List products',
    description: 'All products, ordered by slug.',
    ...listParts('products', productAnswerSchema, 'Ordered by `slug`.'),
    good: {},
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of two',
        request: { credential: 'operator', query: { limit: '2' } },
        response: {
          status: 200,
          body: { products: [product('apiCalls'), product('archive')], nextCursor: cursorOf('archive') },
        },
      },
    ],
  }),
  describeOperatorRoute({
    method: 'get',
    path: '/operator/products/{slug}',
    operationId: 'getProduct',
    summary: 'Read a product',
    description: 'A product as it was declared, for all Organizations.',
    responses: { 200: { description: 'The product.', content: { 'application/json': productAnswerSchema } } },
    errors: ['not_found'],
    good: { params: { slug: 'storage' } },
    examples: [
      {
        name: 'product',
        summary: 'A product without a cap',
        request: { credential: 'operator', params: { slug: 'storage' } },
        response: { status: 200, body: product('storage') },
      },
      notFoundExample('There is no product "maps".', { params: { slug: 'maps' } }),
    ],
  }),
  describeOperatorRoute({
    method: 'put',
    path: '/operator/products/{slug}',
    operationId: 'putProduct',
    summary: 'Declare a product',
    description: `
Creates the product or makes it as declared, in full. The slug never changes, and products are not deleted: usage was recorded under them.

A change binds the next request. A new \`usageMetric\` counts from zero; earlier usage stays under the earlier metric. \`unitCap\` and \`maxQuantity\` are kept with every digit that was sent.
`.trim(),
    body: { schema: productSchema },
    responses: putResponses(productAnswerSchema),
    good: { params: { slug: 'api-calls' }, body: declared },
    examples: [
      {
        name: 'unchanged',
        summary: 'As it was: nothing changes, no audit row',
        request: { credential: 'operator', params: { slug: 'api-calls' }, body: declared },
        response: { status: 200, body: product('apiCalls') },
      },
      {
        name: 'changed',
        summary: 'Another cap',
        request: {
          credential: 'operator',
          params: { slug: 'api-calls' },
          body: { ...declared, unitCap: 2500.5 },
        },
        response: { status: 200, body: { ...product('apiCalls'), unitCap: 2500.5, updatedAt: now } },
      },
      {
        name: 'created',
        summary: 'A new product, unlimited, of whose units an event counts at most 500,000',
        request: {
          credential: 'operator',
          params: { slug: 'maps' },
          body: { name: 'Map tiles', usageMetric: 'tiles', maxQuantity: 500_000 },
        },
        response: {
          status: 201,
          body: {
            id: madeId,
            slug: 'maps',
            name: 'Map tiles',
            usageMetric: 'tiles',
            unitCap: null,
            maxQuantity: 500000,
            createdAt: now,
            updatedAt: now,
          },
        },
      },
      problemExample('invalid_request', {
        summary: 'A negative cap and no metric',
        detail: '/usageMetric is required (and 1 more, see errors)',
        errors: [
          { pointer: '/usageMetric', code: 'invalid_request', detail: 'is required' },
          {
            pointer: '/unitCap',
            code: 'invalid_request',
            detail: 'must be null or a finite number of at least 0',
          },
        ],
        request: {
          credential: 'operator',
          params: { slug: 'maps' },
          body: { name: 'Map tiles', unitCap: -1 },
        },
      }),
    ],
  }),
];
