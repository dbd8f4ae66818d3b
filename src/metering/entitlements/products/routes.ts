import { DEFAULT_MAX_QUANTITY, NO_METRIC } from '../table.js';
import { readJsonBody } from '../../../core/http/body.js';
import { exact, sendJson, toJson } from '../../../core/http/json.js';
import { parseExactly } from '../../../core/http/validate.js';
import { json } from '../../../core/reference/define-route.js';
import { listParts, operatorRoute, putResponses } from '../../../accounts/identity/operator/define-route.js';
import {
  MAX_BODY_BYTES,
  changeAsOperator,
  readSlug,
  sendPut,
} from '../../../accounts/identity/operator/http.js';
import { readRange, sendPage } from '../../../core/http/page.js';
import { slugSchema } from '../../../accounts/identity/operator/schema.js';
import { productSchema, productAnswerSchema } from '../operator/schema.js';
import { toExactNumber } from '../exact-number.js';
import { creditPriceJson, readCreditPrice, toCreditPrice } from '../price.js';
import { getProduct, putProduct } from '../products.js';
import { listProducts, type Product } from '../queries.js';

export const productRoutes = [
  operatorRoute({
    method: 'get',
    path: '/operator/products',
    operationId: 'listProducts',
    ...listParts('products', productAnswerSchema, 'Ordered by `slug`.'),
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
    responses: { 200: json('The product.', productAnswerSchema) },
    handler: (deps) => async (req, res) => {
      sendJson(res, 200, toJson(productJson(await getProduct(deps.db.orm, readSlug(req)))));
    },
  }),
  operatorRoute({
    method: 'put',
    path: '/operator/products/{slug}',
    operationId: 'putProduct',
    body: productSchema,
    responses: putResponses(productAnswerSchema),
    handler: (deps) => async (req, res) => {
      const slug = readSlug(req);
      const body = await readJsonBody(req, res, MAX_BODY_BYTES);
      const { unitCap, maxQuantity, credits, ...rest } = parseExactly(productSchema, body.value);
      const input = {
        ...rest,
        usageMetric: rest.usageMetric ?? NO_METRIC,
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
  usageMetric: product.usageMetric || null,
  features: product.features ?? {},
  unitCap: exact(product.unitCap),
  maxQuantity: exact(product.maxQuantity),
  countsSubjects: subjectsSince !== null,
  credits: creditPriceJson(toCreditPrice({ creditPrice, creditDimension, creditPrices, creditEnforcement })),
  archivedAt,
  createdAt,
  updatedAt,
});
