import { sql } from 'drizzle-orm';
import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { textArray } from '../../core/db/sql.js';
import { compareDecimals, sumDecimals, toPlainDecimal } from '../../core/decimal.js';
import { decimalField, nameField, parseInput, text } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  startForm,
  newForm,
  type FormFields,
  type FormState,
  parseQueryForm,
  readQuery,
} from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { formatDecimal } from '../../core/pages/format.js';
import { monthOf, monthRange } from '../../core/time.js';
import { featureLines, featuresSchema, writeFeatures } from '../entitlements/features.js';
import { dimensionKeysSchema } from '../entitlements/operator/schema.js';
import { getProduct, putProduct } from '../entitlements/products.js';
import { listProducts, lockProduct, type Product } from '../entitlements/queries.js';
import { DEFAULT_MAX_QUANTITY, NO_METRIC } from '../entitlements/table.js';
import { findStripeProblem } from '../stripe/comparison.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema } from '../../accounts/identity/operator/schema.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { archiveSchema } from '../../console/customer-settings-pages.js';
import { CONSOLE, PAGE_SIZE, readSlug, type ConsoleDeps } from '../../console/page.js';
import { toCreditPrice } from '../entitlements/price.js';
import { addPrice } from './price-pages.js';

const PRODUCTS = `${CONSOLE}/products`;

const querySchema = z.object({ cursor: slugSchema.optional() });

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
    const { cursor } = parseQueryForm(querySchema, readQuery(req));
    const rows = await listProducts(orm, { after: cursor, limit: PAGE_SIZE });
    const { page: products, nextCursor } = cutPage(rows, PAGE_SIZE, ({ slug }) => slug);
    const page = { view: 'metering/console/products', title: 'Products', section: 'products', notices };
    const uses = await listUses(deps, products);
    await renderPage(deps, req, res, page, {
      month: new Date(monthRange(monthOf(deps.clock.now())).start),
      products: products.map((product) => ({
        ...product,
        ...uses.get(product.id)!,
        prices: listPrices(product),
      })),
      pager: toPager(PRODUCTS, {}, { cursor, nextCursor }),
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

/** A change that touches customers is previewed. */
function addEdit(router: Router, deps: ConsoleDeps): void {
  const show = async (req: Request, res: Response, form: FormState) => {
    const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
    const page = { view: 'metering/console/product', title: product.name, section: 'products', notices };
    const stripeProblem = await findStripeProblem(deps.db.orm, 'product_id', product.id);
    const price = toCreditPrice(product);
    const use = product.usageMetric === NO_METRIC ? undefined : await readUse(deps, product);
    await renderPage(deps, req, res, page, {
      form: startForm(form, toFields(product)),
      product,
      price,
      stripeProblem,
      use,
    });
  };
  addForm(router, '/products/:slug', {
    async act(req, res, { step, ...fields }) {
      const product = await getProduct(deps.db.orm, readSlug(req, 'product'));
      const { slug } = product;
      if (step === 'edit') return show(req, res, newForm(fields));
      const input = toInput(parseInput(productSchema, filledIn(fields)), fields);
      if (step !== 'save') {
        const after = await rehearseAsOperator(deps, req, res, async (tx, source) => {
          await putProduct(tx, slug, input, source);
          return getProduct(tx, slug);
        });
        const changes = listProductChanges(product, after);
        const use = changes.length > 0 ? await readUse(deps, product, after) : undefined;
        if (use && use.customers > 0) {
          const page = { view: 'metering/console/product-preview', title: product.name, section: 'products' };
          return renderPage(deps, req, res, page, { product, changes, use, fields: Object.entries(fields) });
        }
      }
      await changeAsOperator(deps, req, res, (tx, source) => putProduct(tx, slug, input, source));
      res.redirect(303, toAddress(`${PRODUCTS}/${slug}`, { done: 'saved' }));
    },
    show,
  });
}

const SHOWN_CUSTOMERS = 10;

/** Lists the changes that customers notice. */
function listProductChanges(before: Product, after: Product) {
  const words: [string, (product: Product) => string][] = [
    ['Metric', ({ usageMetric }) => usageMetric || 'none'],
    ['Cap', ({ unitCap }) => (unitCap === null ? 'none' : formatDecimal(unitCap))],
    [
      'Maximum per event',
      ({ maxQuantity: most }) => (most === DEFAULT_MAX_QUANTITY ? 'none' : formatDecimal(most)),
    ],
    ['Features', ({ features }) => writeFeatures(features).split('\n').join(', ') || 'none'],
  ];
  return words.flatMap(([label, write]) => {
    const [was, will] = [write(before), write(after)];
    return was === will ? [] : [{ sign: '~', text: `${label}: ${was} → ${will}` }];
  });
}

interface UseRow {
  slug: string;
  name: string;
  used: string;
  events: string;
  /** Null without an entitlement. */
  isOwn: boolean | null;
  cap: string | null;
  capAfter: string | null;
  credits: string;
  /** Count all customers with an entitlement, shown or not; `over`, those that only the change puts over the cap. */
  customers: number;
  over: number;
}

/** Customers with an entitlement or with live usage this month, nearest to the cap first. */
async function readUse({ db, clock }: ConsoleDeps, product: Product, after = product) {
  const month = monthOf(clock.now());
  const ofProduct = sql`org_id = o.id and product_id = ${product.id}::uuid`;
  const since = sql`${monthRange(month).start}::timestamptz`;
  const capOf = ({ unitCap }: Product) =>
    sql`case when has_own_cap then unit_cap else ${unitCap}::numeric end`;
  const groups = await Promise.all(
    db.shards.groups.map((group) =>
      group.select<UseRow>(
        (t) => sql`
      select o.slug, o.name, trim_scale(n.used)::text as used, coalesce(u.events, 0)::text as events, e.has_own_cap as "isOwn",
        trim_scale(e.cap)::text as cap, trim_scale(e.after)::text as "capAfter", (
          select coalesce(trim_scale(sum(case kind when 'burn' then amount else -amount end)), 0)::text from ${t('credit_entries')}
          where ${ofProduct} and livemode and at >= ${since} and hour >= ${since} and kind in ('burn', 'return')
        ) as credits, (count(e.has_own_cap) over ())::int as customers, (count(*) filter (where n.used > e.after and (e.cap is null or n.used <= e.cap)) over ())::int as over
      from ${t('organizations')} o
      left join lateral (
        select quantity, events from ${t('usage_totals')}
        where ${ofProduct} and livemode and period = ${month}::date and metric = ${after.usageMetric} limit 1
      ) u on true
      left join lateral (
        select has_own_cap, ${capOf(product)} as cap, ${capOf(after)} as after from ${t('entitlements')} where ${ofProduct} limit 1
      ) e on true
      cross join lateral (select coalesce(u.quantity, 0) as used) n
      where ${t.owns(sql`o.id`)} and o.archived_at is null and (u.quantity is not null or e.has_own_cap is not null)
      order by n.used / nullif(e.after, 0) desc nulls last, n.used desc, o.slug limit ${SHOWN_CUSTOMERS}`,
      ),
    ),
  );
  const share = ({ used, capAfter }: UseRow) => Number(used) / Number(capAfter ?? Infinity);
  const sum = (name: 'customers' | 'over') =>
    groups.reduce((total, [first]) => total + (first?.[name] ?? 0), 0);
  return {
    month: new Date(monthRange(month).start),
    metric: after.usageMetric,
    customers: sum('customers'),
    over: sum('over'),
    rows: groups
      .flat()
      .toSorted((a, b) => share(b) - share(a))
      .slice(0, SHOWN_CUSTOMERS),
  };
}

/** By product: customers with an entitlement in effect, and what all have used this month, archived or not. */
async function listUses({ db, clock }: ConsoleDeps, listed: readonly Product[]) {
  const now = sql`${new Date(clock.now()).toISOString()}::timestamptz`;
  const isListed = sql`product_id = any (${textArray(listed.map(({ id }) => id))}::uuid[])`;
  const groups = await Promise.all(
    db.shards.groups.map((group) =>
      group.select<{ productId: string; metric: string | null; amount: string }>(
        (t) => sql`
      select product_id::text as "productId", null as metric, count(*)::text as amount
      from ${t('entitlements')} e join ${t('organizations')} o on o.id = e.org_id
      where ${t.owns(sql`e.org_id`)} and ${isListed} and o.archived_at is null and starts_at <= ${now} and (ends_at is null or ends_at > ${now})
      group by product_id
      union all select product_id::text, metric, trim_scale(sum(quantity))::text from ${t('usage_totals')}
      where ${t.owns(sql`org_id`)} and ${isListed} and livemode and period = ${monthOf(clock.now())}::date
      group by product_id, metric`,
      ),
    ),
  );
  const sumOf = (id: string, metric: string | null) =>
    sumDecimals(
      groups.flat().flatMap((row) => (row.productId === id && row.metric === metric ? [row.amount] : [])),
    );
  return new Map(
    listed.map(({ id, usageMetric }) => [id, { customers: sumOf(id, null), used: sumOf(id, usageMetric) }]),
  );
}

/** The lowest and the highest, if they differ. */
function listPrices(product: Product): string[] {
  const { price, by } = toCreditPrice(product) ?? {};
  const sorted = [...(price ? [price] : []), ...Object.values(by?.prices ?? {})].toSorted(compareDecimals);
  return [...new Set([sorted.at(0), sorted.at(-1)])].flatMap((one) => one ?? []);
}

function addArchive(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/products/:slug/archive', {
    before: [requireConfirmation(deps.clock)],
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
