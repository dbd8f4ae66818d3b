import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { toPlainDecimal } from '../../core/decimal.js';
import { decimalField, parseInput, text } from '../../core/http/validate.js';
import { cutPage } from '../../core/http/page.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  type FormFields,
  type FormState,
  parseQueryForm,
  readQuery,
  refuseIgnored,
  textField,
} from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/layout.js';
import { monthOf } from '../../core/time.js';
import { getGrant, putGrant, withdrawGrant } from '../entitlements/grants.js';
import { readGrantsView } from '../entitlements/pages.js';
import { findGrant, listBalances, listProducts, type Grant } from '../entitlements/queries.js';
import { getProduct } from '../entitlements/products.js';
import { defaultThresholds, limitsSchema, MAX_LIMITS, thresholdsSchema } from '../entitlements/limits.js';
import { entitlementKinds, type UsageLimit } from '../entitlements/table.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator } from '../../accounts/identity/operator/http.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import { addressOf, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';

const cursorSchema = z.object({ cursor: slugSchema.optional() });
const chosenSchema = z.object({ product: slugSchema.optional() });
const withdrawSchema = z.strictObject({ product: slugSchema });

/** The format of a browser's `datetime-local` field, in UTC, with or without seconds. */
const timeSchema = z
  .string()
  .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,3})?)?$/, 'must be a time, like 2026-01-31T12:00')
  .transform((value) => new Date(`${value}Z`))
  .refine((at) => !Number.isNaN(at.getTime()), 'must be a time, like 2026-01-31T12:00');

const grantSchema = z.strictObject({
  product: slugSchema,
  kind: z.enum(entitlementKinds, 'must be one of the options'),
  startsAt: timeSchema.optional(),
  endsAt: timeSchema.optional(),
  cap: z.enum(['product', 'own', 'none'], 'must be one of the options'),
  unitCap: decimalField.optional(),
  limits: text(1_000).optional(),
  thresholds: text(100).optional(),
});

/** Products offered in the form; the operator API can grant any. */
const MAX_PRODUCTS = 500;

const notices = {
  granted: 'Saved. It takes effect on the next request.',
  withdrawn: 'Withdrawn. It takes effect on the next request; past usage stays recorded.',
};

export function customerEntitlementPages(deps: ConsoleDeps): Router {
  const { db, clock } = deps;
  const router = pageRouter();

  router.get('/customers/:slug/entitlements', async (req, res) => {
    const customer = await readCustomer(deps, req);
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const now = clock.now();
    const period = monthOf(now);
    const range = { after: cursor, limit: PAGE_SIZE + 1 };
    const rows = await listBalances(db.orm, customer.id, period, range);
    const { page: grants, nextCursor } = cutPage(rows, PAGE_SIZE, ({ productSlug }) => productSlug);
    const path = `${addressOf(customer.slug)}/entitlements`;
    const page = {
      view: 'metering/console/entitlements',
      tab: 'entitlements',
      title: 'Entitlements',
      notices,
    };
    await renderCustomer(deps, req, res, page, customer, {
      ...(await readGrantsView(db, customer.id, grants, period, new Date(now))),
      pager: toPager(path, {}, { cursor, nextCursor }),
    });
  });

  addGrant(router, deps);
  addWithdrawal(router, deps);
  return router;
}

function addGrant(router: Router, deps: ConsoleDeps): void {
  const { orm } = deps.db;

  const show = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const { product: slug } = parseQueryForm(chosenSchema, readQuery(req));
    const product = slug === undefined ? undefined : await getProduct(orm, slug);
    const grant = product && (await findGrant(orm, customer.id, product.id));
    const products = product ? [product] : await listProducts(orm, { after: undefined, limit: MAX_PRODUCTS });
    const page = {
      view: 'metering/console/entitlement',
      tab: 'entitlements',
      title: grant ? `Entitlement to ${grant.productName}` : 'Grant an entitlement',
    };
    await renderCustomer(deps, req, res, page, customer, {
      form: { ...form, values: { ...toFields(grant), product: slug ?? '', ...form.values } },
      grant,
      product,
      products: products
        .filter(({ archivedAt }) => archivedAt === null || product)
        .map(({ slug: value, name }) => ({ value, label: `${name} (${value})` })),
    });
  };

  addForm(router, '/customers/:slug/entitlement', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const {
        product,
        cap,
        unitCap,
        limits,
        thresholds,
        endsAt = null,
        ...rest
      } = parseInput(grantSchema, filledIn(fields));
      refuseIgnored(fields, 'unitCap', cap === 'own', 'choose the custom cap');
      if (cap === 'own' && unitCap === undefined) throw fieldError('unitCap', 'is required for a custom cap');
      const terms = {
        kind: rest.kind,
        startsAt: rest.startsAt,
        endsAt,
        unitCap: toOwnCap(cap, unitCap),
        limits: parseLimits(limits ?? ''),
        thresholds: thresholds === undefined ? undefined : parseThresholds(thresholds),
      };
      await changeAsOperator(deps, req, res, (tx, source) => putGrant(tx, slug, product, terms, source));
      res.redirect(303, toAddress(`${addressOf(slug)}/entitlements`, { done: 'granted' }));
    },
    show,
  });
}

function addWithdrawal(router: Router, deps: ConsoleDeps): void {
  const show = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const asked = textField(form.values, 'product') ?? readQuery(req).product;
    const { product } = parseInput(withdrawSchema, { product: asked });
    const grant = await getGrant(deps.db.orm, customer.slug, product);
    const page = { view: 'metering/console/withdraw-entitlement', tab: 'entitlements', title: 'Withdraw' };
    await renderCustomer(deps, req, res, page, customer, { form, grant });
  };

  addForm(router, '/customers/:slug/entitlement/withdraw', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { product } = parseInput(withdrawSchema, fields);
      await changeAsOperator(deps, req, res, (tx, source) => withdrawGrant(tx, slug, product, source));
      res.redirect(303, toAddress(`${addressOf(slug)}/entitlements`, { done: 'withdrawn' }));
    },
    show,
  });
}

/** Undefined applies the product's cap; null is unlimited. */
function toOwnCap(cap: 'product' | 'own' | 'none', unitCap: string | undefined): string | null | undefined {
  if (cap === 'product') return undefined;
  return cap === 'none' ? null : toPlainDecimal(unitCap!, 0);
}

/** Comma-separated limits: quantity, window, and block or warn. @throws AppError invalid_request */
function parseLimits(list: string): UsageLimit[] {
  const parsed = list
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry, i) => {
      const [quantity = '', window = '', enforcement = 'warn', ...more] = entry.split(/\s+/);
      const isRead = decimalField.safeParse(quantity).success && more.length === 0;
      const limit = { quantity: Number(quantity), window, enforcement };
      const found = limitsSchema.safeParse([limit]);
      if (!isRead || !found.success)
        throw fieldError(
          'limits',
          `entry ${i + 1} must be like “1000 PT5H block”: a quantity, then calendar_month, calendar_week, calendar_day or a duration from PT1M to P31D, then block or warn`,
        );
      return { ...found.data[0]!, quantity: toPlainDecimal(quantity, 0) };
    });
  if (parsed.length > MAX_LIMITS) throw fieldError('limits', `must have at most ${MAX_LIMITS} limits`);
  return parsed;
}

/** Comma-separated percentages, or `none`. @throws AppError invalid_request */
function parseThresholds(list: string): number[] {
  if (list.trim() === 'none') return [];
  const entries = list.split(',').map((entry) => entry.trim());
  const found = thresholdsSchema.safeParse(
    entries.map((entry) => (/^\d+$/.test(entry) ? Number(entry) : NaN)),
  );
  if (!found.success)
    throw fieldError(
      'thresholds',
      'must be “none”, or up to 10 different whole percents from 1 to 1000, like “50, 80, 100”',
    );
  return found.data;
}

const toThresholdsField = (thresholds: readonly number[]): string => thresholds.join(', ') || 'none';

function toFields(grant: Grant | undefined): FormFields {
  if (!grant) return { kind: 'live', cap: 'product', thresholds: toThresholdsField(defaultThresholds) };
  const { kind, startsAt, endsAt, hasOwnCap, unitCap, limits, thresholds } = grant;
  return {
    kind,
    startsAt: toField(startsAt),
    endsAt: endsAt === null ? '' : toField(endsAt),
    cap: hasOwnCap ? (unitCap === null ? 'none' : 'own') : 'product',
    unitCap: unitCap ?? '',
    limits: (limits ?? [])
      .map(({ quantity, window, enforcement }) => `${quantity} ${window} ${enforcement}`)
      .join(', '),
    thresholds: toThresholdsField(thresholds ?? defaultThresholds),
  };
}

const toField = (at: Date): string => at.toISOString().slice(0, -1);
