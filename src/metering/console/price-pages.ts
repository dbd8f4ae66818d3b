import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import { decimalField, parseInput, text } from '../../core/http/validate.js';
import { monthOf } from '../../core/time.js';
import { toAddress } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  startForm,
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import {
  dropBlankRows,
  editRows,
  readFields,
  rowNumbers,
  toRows,
  writeFields,
} from '../../core/pages/rows.js';
import { renderPage } from '../../core/pages/layout.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { CONSOLE, readSlug, type ConsoleDeps } from '../../console/page.js';
import { MAX_VALUE_LENGTH } from '../entitlements/dimensions.js';
import { MAX_PRICES, toCreditPrice, toPrice, type CreditPrice } from '../entitlements/price.js';
import { getProduct, putProduct } from '../entitlements/products.js';
import { lockProduct, type Product } from '../entitlements/queries.js';
import { enforcements } from '../entitlements/table.js';
import { option } from './entitlement-rows.js';
import { readPreview } from './price-preview.js';

const PRODUCTS = `${CONSOLE}/products`;

const schema = z.object({
  price: decimalField.optional(),
  enforcement: z.enum(enforcements, option),
  dimension: z.string().optional(),
  prices: z
    .array(z.strictObject({ value: text(MAX_VALUE_LENGTH), price: decimalField }))
    .max(MAX_PRICES, `must have at most ${MAX_PRICES} values`)
    .default([]),
});
const rowKinds = { prices: { most: MAX_PRICES, blank: { value: '', price: '' } } };

/** A form, then a preview of last month at the new price, and only then the change. */
export function addPrice(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/products/:slug/price', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { step, edit } = fields;
      const focus = edit === undefined ? undefined : editRows(fields, edit, rowKinds);
      if (focus !== undefined || step === 'edit') return showForm(deps, req, res, newForm(fields), focus);
      const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
      const after = readPriceForm(fields, product);
      if (step !== 'save') return showPreview(deps, req, res, { product, after, fields });
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const current = (await lockProduct(tx, product.slug))!;
        if (textField(fields, 'seen') !== versionOf(current))
          throw new AppError('invalid_request', 'The product has changed since the preview. Check it again.');
        const { name, usageMetric, unitCap, maxQuantity } = current;
        return putProduct(
          tx,
          product.slug,
          { name, usageMetric, unitCap, maxQuantity, credits: after },
          source,
        );
      });
      res.redirect(303, toAddress(`${PRODUCTS}/${product.slug}`, { done: after ? 'priced' : 'unpriced' }));
    },
    show: (req, res, form) => showForm(deps, req, res, form),
  });
}

const versionOf = ({ updatedAt }: Product): string => updatedAt.toISOString();

async function showForm(deps: ConsoleDeps, req: Request, res: Response, form: FormState, focus?: string) {
  const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
  const current = toCreditPrice(product);
  const { values } = startForm(form, toFields(current));
  // A refused form has lost its blank rows.
  const isWithoutRows = focus === undefined && rowNumbers(values, 'prices').length === 0;
  const row = isWithoutRows ? writeFields(rowKinds.prices.blank, 'prices.0.') : {};
  const title = `${current ? 'Change' : 'Set'} the price of ${product.name}`;
  const page = { view: 'metering/console/price', title, section: 'products' };
  const shown = { form: { ...form, values: { ...values, ...row } }, product, focus, rowKinds, rowNumbers };
  await renderPage(deps, req, res, page, shown);
}

async function showPreview(
  deps: ConsoleDeps,
  req: Request,
  res: Response,
  { product, after, fields }: { product: Product; after: CreditPrice | null; fields: FormFields },
) {
  const lastMonth = new Date(`${monthOf(deps.clock.now())}T00:00:00Z`);
  lastMonth.setUTCMonth(lastMonth.getUTCMonth() - 1);
  const period = monthOf(lastMonth.getTime());
  const { seen: _seen, step: _step, ...typed } = fields;
  const title = after ? `New price of ${product.name}` : `Remove the price of ${product.name}`;
  const page = { view: 'metering/console/price-preview', title, section: 'products' };
  await renderPage(deps, req, res, page, {
    product,
    before: toCreditPrice(product),
    after,
    fields: Object.entries({ ...typed, seen: versionOf(product) }).map(([name, value]) => [
      name,
      [value].flat()[0],
    ]),
    preview: await readPreview(deps.db, { product, period, after }),
  });
}

/** Null removes the price. */
function readPriceForm(fields: FormFields, product: Product): CreditPrice | null {
  dropBlankRows(fields, 'prices', ['value', 'price']);
  const { price, enforcement, dimension, prices: rows } = parseInput(schema, readFields(fields));
  const prices = new Map<string, string>();
  for (const [i, row] of rows.entries()) {
    if (prices.has(row.value)) throw fieldError(`prices/${i}/value`, 'has a price already');
    prices.set(row.value, toPrice(toPlainDecimal(row.price, 0), `prices/${i}/price`));
  }
  if (price === undefined) {
    if (!toCreditPrice(product) || dimension !== undefined || prices.size > 0)
      throw fieldError('price', 'is required');
    return null;
  }
  const whole = { price: toPrice(toPlainDecimal(price, 0), 'price'), enforcement };
  if (dimension === undefined) {
    if (prices.size > 0) throw fieldError('dimension', 'must be chosen to set prices for individual values');
    return whole;
  }
  if (!product.dimensions.includes(dimension)) throw fieldError('dimension', option);
  if (prices.size === 0) throw fieldError('prices', 'is required for prices by a dimension');
  return { ...whole, by: { dimension, prices: Object.fromEntries(prices) } };
}

const toFields = (price: CreditPrice | null): FormFields =>
  writeFields({
    price: price?.price ?? '',
    enforcement: price?.enforcement ?? 'block',
    dimension: price?.by?.dimension ?? '',
    prices: toRows(Object.entries(price?.by?.prices ?? {}).map(([value, one]) => ({ value, price: one }))),
  });
