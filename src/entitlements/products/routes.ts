import { Router } from 'express';
import { byOperator } from '../../identity/session/authority.js';
import { change } from '../../identity/session/change.js';
import type { Context } from '../../core/http/context.js';
import { DEFAULT_MAX_QUANTITY } from '../table.js';
import { readJsonBody } from '../../core/http/json-body.js';
import { exact, sendJson, toJson } from '../../core/http/json.js';
import { parseInput } from '../../core/http/validate.js';
import { MAX_BODY_BYTES, readSlug, sendPut, sourceOf } from '../../identity/operator/http.js';
import { readRange, sendPage } from '../../core/http/page.js';
import { productSchema, slugSchema } from '../../identity/operator/schema.js';
import { getProduct, putProduct } from './products.js';
import { listProducts, type Product } from './queries.js';
import { toExactNumber } from './exact-number.js';

/** Products are not deleted: usage was recorded under them. */
export function productRoutes(deps: Pick<Context, 'db' | 'clock'>): Router {
  const { db, clock } = deps;
  const router = Router();

  router.get('/products', async (req, res) => {
    const range = readRange(req, slugSchema);
    const rows = await listProducts(db.orm, range);
    sendPage(res, 'products', { rows, limit: range.limit, keyOf: (row) => row.slug, present: productJson });
  });

  router.get('/products/:slug', async (req, res) => {
    sendJson(res, 200, toJson(productJson(await getProduct(db.orm, readSlug(req)))));
  });

  router.put('/products/:slug', async (req, res) => {
    const slug = readSlug(req);
    const body = await readJsonBody(req, res, MAX_BODY_BYTES);
    const { name, usageMetric, unitCap, maxQuantity } = parseInput(productSchema, body.value);
    const input = {
      name,
      usageMetric,
      unitCap: unitCap == null ? null : toExactNumber('unitCap', unitCap, body.text),
      maxQuantity:
        maxQuantity === undefined
          ? DEFAULT_MAX_QUANTITY
          : toExactNumber('maxQuantity', maxQuantity, body.text),
    };
    const put = await change(deps, byOperator(res), (tx) =>
      putProduct(tx, slug, input, sourceOf(req, res, clock)),
    );
    sendPut(res, put, productJson);
  });

  return router;
}

const productJson = ({
  id,
  slug,
  name,
  usageMetric,
  unitCap,
  maxQuantity,
  createdAt,
  updatedAt,
}: Product) => ({
  id,
  slug,
  name,
  usageMetric,
  unitCap: exact(unitCap),
  maxQuantity: exact(maxQuantity),
  createdAt,
  updatedAt,
});
