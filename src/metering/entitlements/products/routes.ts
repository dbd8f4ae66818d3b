import { DEFAULT_MAX_QUANTITY, NO_METRIC } from '../table.js';
import { exact } from '../../../core/http/json.js';
import { json } from '../../../core/reference/define-route.js';
import { listRoute, operatorRoute, putResponses } from '../../../accounts/identity/operator/define-route.js';
import { answerPut } from '../../../accounts/identity/operator/http.js';
import { productSchema, productAnswerSchema } from '../operator/schema.js';
import { toExactNumber } from '../exact-number.js';
import { creditPriceJson, readCreditPrice, toCreditPrice } from '../price.js';
import { getProduct, putProduct } from '../products.js';
import { listProducts, type Product } from '../queries.js';

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

export const productRoutes = [
  listRoute('products', productAnswerSchema, 'slug', {
    at: 'GET /operator/products',
    operationId: 'listProducts',
    read: ({ db }, range) => listProducts(db.orm, range),
    present: productJson,
  }),
  operatorRoute({
    at: 'GET /operator/products/{slug}',
    operationId: 'getProduct',
    responses: { 200: json('The product.', productAnswerSchema) },
    answer: async ({ params }, deps) => productJson(await getProduct(deps.db.orm, params.slug)),
  }),
  operatorRoute({
    at: 'PUT /operator/products/{slug}',
    operationId: 'putProduct',
    body: productSchema,
    responses: putResponses(productAnswerSchema),
    async answer({ params, input: { unitCap, maxQuantity, credits, ...rest }, text, change, res }) {
      const product = {
        ...rest,
        usageMetric: rest.usageMetric ?? NO_METRIC,
        credits: readCreditPrice(credits, text),
        unitCap: unitCap == null ? null : toExactNumber('unitCap', text),
        maxQuantity: maxQuantity === undefined ? DEFAULT_MAX_QUANTITY : toExactNumber('maxQuantity', text),
      };
      const put = await change((tx, source) => putProduct(tx, params.slug, product, source));
      return answerPut(res, put, productJson);
    },
  }),
];
