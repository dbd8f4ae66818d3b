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
  newForm,
  textField,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { CONSOLE, readSlug, type ConsoleDeps } from '../../console/page.js';
import { MAX_VALUE_LENGTH } from '../entitlements/dimensions.js';
import { MAX_PRICES, toCreditPrice, toPrice, type CreditPrice } from '../entitlements/price.js';
import { getProduct, putProduct } from '../entitlements/products.js';
import { lockProduct, type Product } from '../entitlements/queries.js';
import { enforcements } from '../entitlements/table.js';
import { readPreview } from './price-preview.js';

const PRODUCTS = `${CONSOLE}/products`;
const NEW_ROWS = 2;

const option = 'must be one of the options';
const schema = z.object({
  price: decimalField,
  enforcement: z.enum(enforcements, option),
  dimension: z.string().optional(),
});
const editSchema = z.string().regex(/^(?:add|remove[1-9]\d{0,2})$/, 'is not a known button');

/** A form, then a preview of last month at the new price, and only then the change. */
export function addPrice(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/products/:slug/price', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, { edit, step, remove, ...fields }) {
      const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
      if (edit !== undefined) {
        const edited = editRows(fields, parseInput(z.object({ edit: editSchema }), { edit }).edit);
        return showForm(deps, req, res, newForm(edited.values), edited.focus);
      }
      if (step === 'edit') return showForm(deps, req, res, newForm(fields));
      const after = remove === undefined ? readPriceForm(fields, product.dimensions) : null;
      if (step !== 'save')
        return showPreview(deps, req, res, {
          product,
          after,
          fields: { ...fields, ...(remove && { remove }) },
        });
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
  const values = Object.keys(form.values).length > 0 ? form.values : toFields(current, product);
  const title = `${current ? 'Change' : 'Set'} the price of ${product.name}`;
  const page = { view: 'metering/console/price', title, section: 'products' };
  await renderPage(deps, req, res, page, {
    form: { ...form, values },
    focus,
    product,
    current,
    toRowsView,
    maxValueLength: MAX_VALUE_LENGTH,
  });
}

/** Messages use the labels. */
function toRowsView(fields: FormFields) {
  const numbers = numbersOf(fields);
  const labels = numbers.flatMap((n) => [
    [`value${n}`, `Value ${n}`],
    [`price${n}`, `Price ${n}`],
  ]);
  return {
    numbers,
    labels: Object.fromEntries(labels) as Record<string, string>,
    hasRoom: numbers.length < MAX_PRICES,
  };
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
  const { seen: _seen, ...typed } = fields;
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

/** The fields are named `value1`, `price1` and so on. */
const numbersOf = (fields: FormFields): number[] =>
  Array.from({ length: MAX_PRICES }, (_, i) => i + 1).filter(
    (n) => `value${n}` in fields || `price${n}` in fields,
  );

/** Ignores rows with neither a value nor a price. */
function readPriceForm(fields: FormFields, dimensions: readonly string[]): CreditPrice {
  const rows = numbersOf(fields).filter(
    (n) => textField(fields, `value${n}`) ?? textField(fields, `price${n}`),
  );
  const rowSchemas = rows.flatMap((n) => [
    [`value${n}`, text(MAX_VALUE_LENGTH)],
    [`price${n}`, decimalField],
  ]);
  const typed = parseInput(
    schema.extend(Object.fromEntries(rowSchemas) as Record<string, z.ZodString>),
    filledIn(fields),
  ) as z.output<typeof schema> & Record<string, string>;
  const { price, enforcement, dimension } = typed;
  const digits = (name: string, value: string) => toPrice(toPlainDecimal(value, 0), name);
  const whole = { price: digits('price', price), enforcement };
  if (dimension === undefined) {
    if (rows.length > 0) throw fieldError('dimension', 'must be chosen to set prices for individual values');
    return whole;
  }
  if (!dimensions.includes(dimension)) throw fieldError('dimension', option);
  if (rows.length === 0)
    throw fieldError(`value${numbersOf(fields)[0] ?? 1}`, 'is required for prices by a dimension');
  const prices = new Map<string, string>();
  for (const n of rows) {
    const value = typed[`value${n}`]!;
    if (prices.has(value)) throw fieldError(`value${n}`, 'has a price already');
    prices.set(value, digits(`price${n}`, typed[`price${n}`]!));
  }
  return { ...whole, by: { dimension, prices: Object.fromEntries(prices) } };
}

const toRows = (rows: readonly (readonly [value: string, price: string])[]): FormFields =>
  Object.fromEntries(
    rows.flatMap(([value, price], i) => [
      [`value${i + 1}`, value],
      [`price${i + 1}`, price],
    ]),
  );

function toFields(price: CreditPrice | null, { dimensions }: Product): FormFields {
  const rows = Object.entries(price?.by?.prices ?? {});
  return {
    price: price?.price ?? '',
    enforcement: price?.enforcement ?? 'block',
    dimension: price?.by?.dimension ?? '',
    ...(dimensions.length === 0
      ? {}
      : toRows(rows.length > 0 ? rows : Array.from({ length: NEW_ROWS }, () => ['', ''] as const))),
  };
}

/** Keeps everything that was typed. `focus` names the field to focus. */
function editRows(fields: FormFields, edit: string): { values: FormFields; focus: string } {
  const rows = numbersOf(fields).map(
    (n) => [textField(fields, `value${n}`) ?? '', textField(fields, `price${n}`) ?? ''] as const,
  );
  const others = Object.entries(fields).filter(([name]) => !/^(?:value|price)\d/.test(name));
  const removed = /\d+/.exec(edit)?.[0];
  if (removed !== undefined) rows.splice(Number(removed) - 1, 1);
  else if (rows.length < MAX_PRICES) rows.push(['', '']);
  return {
    values: { ...Object.fromEntries(others), ...toRows(rows) },
    focus: removed === undefined ? `value${rows.length}` : 'add',
  };
}
