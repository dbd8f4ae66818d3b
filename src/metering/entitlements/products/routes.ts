import { DEFAULT_MAX_QUANTITY } from '../table.js';
import { readJsonBody } from '../../../core/http/body.js';
import { exact, sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { json } from '../../../core/reference/define-route.js';
import { exampleWorld } from '../../reference/example-world.js';
import { invalidExample } from '../../../core/reference/problem-examples.js';
import {
  createdAt,
  listParts,
  madeId,
  notFoundExample,
  now,
  operatorRoute,
  putResponses,
} from '../../../accounts/identity/operator/define-route.js';
import {
  MAX_BODY_BYTES,
  changeAsOperator,
  readSlug,
  sendPut,
} from '../../../accounts/identity/operator/http.js';
import { readRange, sendPage, toCursor } from '../../../core/http/page.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { productSchema, productAnswerSchema } from '../operator/schema.js';
import { toExactNumber } from '../exact-number.js';
import { creditPriceJson, readCreditPrice, toCreditPrice } from '../price.js';
import { getProduct, putProduct } from '../products.js';
import { listProducts, type Product } from '../queries.js';

const product = (name: keyof typeof exampleWorld.products) => {
  const { entitlement: _entitlement, used: _used, unitCap, ...rest } = exampleWorld.products[name];
  return {
    dimensions: [],
    countsSubjects: false,
    credits: null,
    ...rest,
    unitCap: unitCap === null ? null : Number(unitCap),
    maxQuantity: 1e15,
    archivedAt: null,
    stripeMeterEvent: null,
    stripeSince: null,
    createdAt,
    updatedAt: createdAt,
  };
};
const declared = { name: 'API calls', usageMetric: 'calls', unitCap: 1000 };

export const productRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/products',
    operationId: 'listProducts',
    summary: 'List products',
    description: 'All products, ordered by slug.',
    ...listParts('products', productAnswerSchema, 'Ordered by `slug`.'),
    examples: [
      {
        name: 'firstPage',
        summary: 'The first page, of two',
        request: { query: { limit: '2' } },
        answer: { products: [product('apiCalls'), product('archive')], nextCursor: toCursor('archive') },
      },
    ],
    handler: (deps) => async (req, res) => {
      const range = readRange(req, slugSchema);
      const rows = await listProducts(deps.db.orm, range);
      sendPage(res, 'products', {
        rows,
        limit: range.limit,
        keyOf: (row) => row.slug,
        present: productJson,
      });
    },
  }),
  operatorRoute({
    method: 'get',
    path: '/operator/products/{slug}',
    operationId: 'getProduct',
    summary: 'Read a product',
    description: 'A declared product, for all Organizations.',
    responses: { 200: json('The product.', productAnswerSchema) },
    examples: [
      {
        name: 'product',
        summary: 'A product without a cap',
        request: { params: { slug: 'storage' } },
        answer: product('storage'),
      },
      notFoundExample('There is no product "maps".', { params: { slug: 'maps' } }),
    ],
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(productJson(await getProduct(deps.db.orm, readSlug(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/products/{slug}',
    operationId: 'putProduct',
    summary: 'Declare a product',
    description: `
Creates the product or replaces its settings. The slug never changes. Products cannot be deleted, because usage was recorded for them.

A change takes effect on the next request. While the product is \`archived\`, no entitlement to it is in effect: usage events get 403 \`entitlement_required\` and checks deny it. Restoring it brings everything back. A new \`usageMetric\` counts from zero; earlier usage stays under the earlier metric. \`unitCap\` and \`maxQuantity\` keep every digit that you send.
`.trim(),
    body: productSchema,
    responses: putResponses(productAnswerSchema),
    examples: [
      {
        name: 'unchanged',
        summary: 'Repeated: nothing changes, no audit row',
        request: { params: { slug: 'api-calls' }, body: declared },
        answer: product('apiCalls'),
      },
      {
        name: 'changed',
        summary: 'Another cap',
        request: { params: { slug: 'api-calls' }, body: { ...declared, unitCap: 2500.5 } },
        answer: { ...product('apiCalls'), unitCap: 2500.5, updatedAt: now },
      },
      {
        name: 'archived',
        summary: 'Archived, so no entitlement to it is in effect',
        request: { params: { slug: 'api-calls' }, body: { ...declared, archived: true } },
        answer: { ...product('apiCalls'), archivedAt: now, updatedAt: now },
      },
      {
        name: 'created',
        summary:
          'A new product with at most 500,000 units per event, a dimension, subjects and a price in credits',
        request: {
          params: { slug: 'maps' },
          body: {
            name: 'Map tiles',
            usageMetric: 'tiles',
            maxQuantity: 500_000,
            dimensions: ['zoom'],
            countsSubjects: true,
            credits: { price: 0.02, by: { dimension: 'zoom', prices: { high: 0.05 } }, enforcement: 'block' },
          },
        },
        status: 201,
        answer: {
          id: madeId,
          slug: 'maps',
          name: 'Map tiles',
          usageMetric: 'tiles',
          unitCap: null,
          maxQuantity: 500000,
          dimensions: ['zoom'],
          countsSubjects: true,
          archivedAt: null,
          stripeMeterEvent: null,
          stripeSince: null,
          credits: { price: 0.02, by: { dimension: 'zoom', prices: { high: 0.05 } }, enforcement: 'block' },
          createdAt: now,
          updatedAt: now,
        },
      },
      invalidExample('A negative cap and a missing metric', {
        params: { slug: 'maps' },
        body: { name: 'Map tiles', unitCap: -1 },
      }),
    ],
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const body = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { unitCap, maxQuantity, credits, ...rest } = parseExactly(productSchema, body.value);
      const input = {
        ...rest,
        credits: readCreditPrice(credits, body.text),
        unitCap: unitCap == null ? null : toExactNumber('unitCap', body.text),
        maxQuantity:
          maxQuantity === undefined ? DEFAULT_MAX_QUANTITY : toExactNumber('maxQuantity', body.text),
      };
      const put = await changeAsOperator(deps, req, res, (tx, source) => putProduct(tx, slug, input, source));
      sendPut(res, put, productJson);
    },
  }),
];

const productJson = ({
  createdAt,
  updatedAt,
  archivedAt,
  subjectsSince,
  creditPrice,
  creditDimension,
  creditPrices,
  creditEnforcement,
  ...product
}: Product) => ({
  ...product,
  unitCap: exact(product.unitCap),
  maxQuantity: exact(product.maxQuantity),
  countsSubjects: subjectsSince !== null,
  credits: creditPriceJson(toCreditPrice({ creditPrice, creditDimension, creditPrices, creditEnforcement })),
  archivedAt,
  createdAt,
  updatedAt,
});
