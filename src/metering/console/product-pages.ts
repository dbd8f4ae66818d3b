import { sql } from 'drizzle-orm';
import type { Router } from 'express';
import { z } from 'zod';
import { selectFromAll } from '../../core/db/shards.js';
import { toPlainDecimal } from '../../core/decimal.js';
import { decimalField, nameField, parseInput, text } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  type FormFields,
  parseQueryForm,
  readQuery,
  tryQuery,
} from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { formatShare } from '../../core/pages/format.js';
import { monthOf, monthRange } from '../../core/time.js';
import { featureLines, featuresSchema, writeFeatures } from '../entitlements/features.js';
import { dimensionKeysSchema } from '../entitlements/operator/schema.js';
import { getProduct, putProduct } from '../entitlements/products.js';
import { listProducts, lockProduct, type Product } from '../entitlements/queries.js';
import { DEFAULT_MAX_QUANTITY, NO_METRIC } from '../entitlements/table.js';
import { findStripeProblem } from '../stripe/comparison.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema } from '../../accounts/identity/operator/schema.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { archiveSchema } from '../../console/customer-settings-pages.js';
import { CONSOLE, PAGE_SIZE, readSlug, type ConsoleDeps } from '../../console/page.js';
import { toCreditPrice } from '../entitlements/price.js';
import { addPrice } from './price-pages.js';

const PRODUCTS = `${CONSOLE}/products`;

const querySchema = z.object({ search: text(200).optional(), cursor: slugSchema.optional() });

const productSchema = z.strictObject({
  name: nameField,
  usageMetric: text(255).optional(),
  features: featureLines.default({}).pipe(featuresSchema),
  unitCap: decimalField.optional(),
  maxQuantity: decimalField.refine((value) => /[1-9]/.test(value), 'must be above 0').optional(),
  stripeMeterEvent: text(100).optional(),
  dimensions: text(400).default('').transform(toDimensions),
  countsSubjects: z.literal('yes').optional(),
});
const newSchema = productSchema.extend({ slug: slugSchema });

const notices = {
  created: 'Product created. Put it into a plan, or grant it to a customer.',
  saved: 'Saved. It takes effect on the next request.',
  priced: 'The price is set. Events received from now on cost it.',
  unpriced: 'The price is removed. Events received from now on cost nothing.',
  archived: 'Archived. Its entitlements no longer apply, starting with the next request.',
  restored: 'Restored. Everything is as it was.',
};

export function productPages(deps: ConsoleDeps): Router {
  const { orm } = deps.db;
  const router = pageRouter();

  router.get('/products', async (req, res) => {
    const query = readQuery(req);
    const { form, result } = await tryQuery(res, query, async () => {
      const { search: typed, cursor } = parseQueryForm(querySchema, query);
      const search = typed?.trim() || undefined;
      const rows = await listProducts(orm, { after: cursor, limit: PAGE_SIZE }, search);
      const { page: products, nextCursor } = cutPage(rows, PAGE_SIZE, ({ slug }) => slug);
      return { products, pager: toPager(PRODUCTS, { search }, { cursor, nextCursor }) };
    });
    const page = { view: 'metering/console/products', title: 'Products', section: 'products', notices };
    await renderPage(deps, req, res, page, {
      form,
      products: result?.products ?? [],
      pager: result?.pager ?? toPager(PRODUCTS, {}, { cursor: undefined, nextCursor: undefined }),
      isFiltered: query.search !== undefined,
    });
  });

  addNew(router, deps);
  addEdit(router, deps);
  addPrice(router, deps);
  addArchive(router, deps);
  return router;
}

function addNew(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/new-product', {
    async act(req, res, fields) {
      fillInSlug(fields, 'slug', 'name');
      const { slug, ...typed } = parseInput(newSchema, filledIn(fields));
      await changeAsOperator(deps, req, res, async (tx, source) => {
        if (await lockProduct(tx, slug)) throw fieldError('slug', 'is taken by another product');
        await putProduct(tx, slug, toInput(typed, fields), source);
      });
      res.redirect(303, toAddress(`${PRODUCTS}/${slug}`, { done: 'created' }));
    },
    show(req, res, form) {
      const page = { view: 'metering/console/product', title: 'New product', section: 'products' };
      return renderPage(deps, req, res, page, { form, product: undefined, stripeProblem: undefined });
    },
  });
}

function addEdit(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/products/:slug', {
    async act(req, res, fields) {
      const { slug } = await getProduct(deps.db.orm, readSlug(req, 'product'));
      const typed = parseInput(productSchema, filledIn(fields));
      await changeAsOperator(deps, req, res, (tx, source) =>
        putProduct(tx, slug, toInput(typed, fields), source),
      );
      res.redirect(303, toAddress(`${PRODUCTS}/${slug}`, { done: 'saved' }));
    },
    async show(req, res, form) {
      const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
      const page = { view: 'metering/console/product', title: product.name, section: 'products', notices };
      const values = Object.keys(form.values).length > 0 ? form.values : toFields(product);
      const stripeProblem = await findStripeProblem(deps.db.orm, 'product_id', product.id);
      const price = toCreditPrice(product);
      const usage = product.usageMetric === NO_METRIC ? [] : await readCustomers(deps, product);
      const data = { form: { ...form, values }, product, price, stripeProblem, usage };
      await renderPage(deps, req, res, page, data);
    },
  });
}

const SHOWN_CUSTOMERS = 10;

/** Customers with an entitlement or with live usage this month, by slug. */
async function readCustomers({ db, clock }: ConsoleDeps, { id, usageMetric, unitCap, creditPrice }: Product) {
  const month = monthOf(clock.now());
  const ofProduct = sql`org_id = o.id and product_id = ${id}::uuid`;
  const since = sql`${monthRange(month).start}::timestamptz`;
  const rows = await selectFromAll<Record<'slug' | 'name' | 'used' | 'events' | 'cap' | 'credits', string>>(
    db,
    (t) => sql`
      select o.slug, o.name, trim_scale(coalesce(u.quantity, 0))::text as used, coalesce(u.events, 0)::text as events,
        coalesce(e.cap, 'none') as cap, (
          select coalesce(trim_scale(sum(case kind when 'burn' then amount else -amount end)), 0)::text from ${t('credit_entries')}
          where ${ofProduct} and livemode and at >= ${since} and hour >= ${since} and kind in ('burn', 'return')
        ) as credits
      from ${t('organizations')} o
      left join lateral (
        select quantity, events from ${t('usage_totals')}
        where ${ofProduct} and livemode and period = ${month}::date and metric = ${usageMetric} limit 1
      ) u on true
      left join lateral (
        select coalesce((case when has_own_cap then unit_cap else ${unitCap}::numeric end)::text, '') as cap from ${t('entitlements')}
        where ${ofProduct} limit 1
      ) e on true
      where ${t.owns(sql`o.id`)} and o.archived_at is null and (u.quantity is not null or e.cap is not null)
      order by o.slug limit ${SHOWN_CUSTOMERS}`,
    ({ slug }) => [slug],
    SHOWN_CUSTOMERS,
  );
  return rows.map(({ slug, name, used, events, cap, credits }) => ({
    slug,
    name,
    cells: [
      { amount: used, text: usageMetric },
      { text: cap === 'none' ? 'Not entitled' : cap === '' ? 'No cap' : formatShare(used, cap) },
      ...(creditPrice === null ? [] : [{ amount: credits }]),
      { amount: events },
    ],
  }));
}

function addArchive(router: Router, deps: ConsoleDeps): void {
  const confirmed = requireConfirmation(deps.clock);

  addForm(router, '/products/:slug/archive', {
    before: [confirmed],
    async act(req, res, fields) {
      const slug = readSlug(req, 'product');
      const archived = parseInput(archiveSchema, fields).archived === 'yes';
      await changeAsOperator(deps, req, res, async (tx, source) => {
        const { name, usageMetric, unitCap, maxQuantity } = await getProduct(tx, slug);
        await putProduct(tx, slug, { name, usageMetric, unitCap, maxQuantity, archived }, source);
      });
      res.redirect(303, toAddress(`${PRODUCTS}/${slug}`, { done: archived ? 'archived' : 'restored' }));
    },
    async show(req, res, form) {
      const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
      const title = `${product.archivedAt === null ? 'Archive' : 'Restore'} ${product.name}`;
      const page = { view: 'metering/console/archive-product', title, section: 'products' };
      await renderPage(deps, req, res, page, { form, product });
    },
  });
}

/** A product that has dimensions refuses an empty field. */
function toDimensions(typed: string, context: z.RefinementCtx): string[] {
  const names = typed.split(',').flatMap((name) => name.trim() || []);
  const issue = dimensionKeysSchema.safeParse(names).error?.issues[0];
  const [place] = (issue?.path ?? []) as number[];
  if (issue) context.addIssue(place === undefined ? issue.message : `${names[place]} ${issue.message}`);
  return names;
}

const toInput = (typed: z.output<typeof productSchema>, fields: FormFields) => ({
  ...typed,
  countsSubjects: typed.countsSubjects === 'yes' || undefined,
  name: typed.name.trim(),
  // A form opened before this field existed leaves the value unchanged.
  stripeMeterEvent: 'stripeMeterEvent' in fields ? (typed.stripeMeterEvent ?? null) : undefined,
  usageMetric: typed.usageMetric ?? NO_METRIC,
  features: 'features' in fields ? typed.features : undefined,
  unitCap: typed.unitCap === undefined ? null : toPlainDecimal(typed.unitCap, 0),
  maxQuantity: typed.maxQuantity === undefined ? DEFAULT_MAX_QUANTITY : toPlainDecimal(typed.maxQuantity, 0),
});

const toFields = (product: Product): FormFields => ({
  features: writeFeatures(product.features),
  dimensions: product.dimensions.join(', '),
  name: product.name,
  stripeMeterEvent: product.stripeMeterEvent ?? '',
  usageMetric: product.usageMetric,
  unitCap: product.unitCap ?? '',
  maxQuantity: product.maxQuantity === DEFAULT_MAX_QUANTITY ? '' : product.maxQuantity,
});
