import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { compareDecimals } from '../../core/decimal.js';
import { minuteField, parseInput } from '../../core/http/validate.js';
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
  textField,
} from '../../core/pages/form.js';
import { formatDecimal, toNamedOptions, toNames } from '../../core/pages/format.js';
import { editRows, readFields, rowNumbers, writeFields } from '../../core/pages/rows.js';
import type { Tx } from '../../core/db/client.js';
import { pageRouter } from '../../core/pages/layout.js';
import { monthOf } from '../../core/time.js';
import { listTermChanges, SET_BY } from '../dashboard/audit-wording.js';
import { listCurrentUse } from '../events/current-use.js';
import { getGrant, putGrant, toFields as toDetails, withdrawGrant } from '../entitlements/grants.js';
import { readGrantsView } from '../entitlements/pages.js';
import { findGrant, listBalances, listProducts, type Grant, type Product } from '../entitlements/queries.js';
import { listPlanNames } from '../plans/queries.js';
import { getProduct } from '../entitlements/products.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { getLockedOrganization } from '../../accounts/identity/organizations/organizations.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import {
  keepWindows,
  limitKind,
  limitOptions,
  termsShape,
  toOwnCap,
  writeTerms,
} from './entitlement-rows.js';
import { addressOf, PAGE_SIZE, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';

const cursorSchema = z.object({ cursor: slugSchema.optional() });
const chosenSchema = z.object({ product: slugSchema.optional() });
const withdrawSchema = z.strictObject({ product: slugSchema });

const grantSchema = z
  .strictObject({
    product: slugSchema,
    startsAt: minuteField.optional(),
    endsAt: minuteField.optional(),
    ...termsShape,
  })
  .transform(({ cap, ...typed }, context) => ({ ...typed, unitCap: toOwnCap({ cap, ...typed }, context) }));

/** In a form; the operator API takes any product. */
export const MAX_PRODUCTS = 500;

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
    const rows = await listBalances(db.orm, customer.id, period, { after: cursor, limit: PAGE_SIZE + 1 });
    const { page: grants, nextCursor } = cutPage(rows, PAGE_SIZE, ({ productSlug }) => productSlug);
    const path = `${addressOf(customer.slug)}/entitlements`;
    const page = {
      view: 'metering/console/entitlements',
      tab: 'entitlements',
      title: 'Entitlements',
      notices,
    };
    await renderCustomer(deps, req, res, page, customer, {
      ...(await readGrantsView(
        db,
        { orgId: customer.id, home: '/dashboard' },
        grants,
        period,
        new Date(now),
      )),
      pager: toPager(path, {}, { cursor, nextCursor }),
    });
  });

  addGrant(router, deps);
  addWithdrawal(router, deps);
  return router;
}

function addGrant(router: Router, deps: ConsoleDeps): void {
  const { orm } = deps.db;

  const readSubject = async (req: Request) => {
    const customer = await readCustomer(deps, req);
    const { product: slug } = parseQueryForm(chosenSchema, readQuery(req));
    const product = slug === undefined ? undefined : await getProduct(orm, slug);
    return { customer, product, grant: product && (await findGrant(orm, customer.id, product.id)) };
  };

  const show = async (req: Request, res: Response, form: FormState, focus?: string) => {
    const { customer, product, grant } = await readSubject(req);
    const products = product ? [] : await listProducts(orm, { after: undefined, limit: MAX_PRODUCTS });
    const page = {
      view: 'metering/console/entitlement',
      tab: 'entitlements',
      title: grant ? `Entitlement to ${grant.productName}` : 'Grant an entitlement',
    };
    await renderCustomer(deps, req, res, page, customer, {
      form: startForm(form, toFields(grant, product)),
      focus,
      grant,
      product,
      products: toNamedOptions(products.filter(({ archivedAt }) => archivedAt === null)),
      ...limitOptions,
      rowKinds: limitKind,
      rowNumbers,
    });
  };

  addForm(router, '/customers/:slug/entitlement', {
    async act(req, res, { edit, step, ...fields }) {
      if (edit !== undefined) {
        const focus = editRows(fields, edit, limitKind);
        return show(req, res, newForm(fields), focus);
      }
      const { customer, product: fixed, grant } = await readSubject(req);
      if (step === 'edit') return show(req, res, newForm(fields));
      const { slug } = customer;
      // The form fills in the product's cap, for those who choose a custom one.
      if (fields.cap !== 'own' && fields.unitCap === fixed?.unitCap) delete fields.unitCap;
      const typed = readFields({ ...(fixed && { product: fixed.slug }), ...fields });
      const { product, startsAt, endsAt, limits, ...values } = parseInput(grantSchema, typed);
      if (fixed && product !== fixed.slug) throw fieldError('product', 'is not the product of this page');
      const terms = {
        ...values,
        startsAt: readTime(startsAt, grant?.startsAt),
        endsAt: readTime(endsAt, grant?.endsAt) ?? null,
        limits: keepWindows(limits, grant?.limits ?? []),
      };
      if (grant && step !== 'save') {
        const effect = await rehearseAsOperator(deps, req, res, async (tx, source) => {
          await putGrant(tx, slug, product, terms, source);
          return readEffect(tx, grant, source.at);
        });
        const page = {
          view: 'metering/console/entitlement-preview',
          tab: 'entitlements',
          title: 'Check the change',
        };
        const shown = { grant, effect, fields: Object.entries(fields) };
        return renderCustomer(deps, req, res, page, customer, shown);
      }
      await changeAsOperator(deps, req, res, async (tx, source) => {
        if (!fixed) await refuseGranted(tx, slug, product);
        return putGrant(tx, slug, product, terms, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/entitlements`, { done: 'granted' }));
    },
    show,
  });
}

/** Undefined if no terms change: saving would only separate the entitlement from its plan. Runs after the change. */
async function readEffect(tx: Tx, before: Grant, now: Date) {
  const after = (await findGrant(tx, before.orgId, before.productId))!;
  const names = toNames(before.plan === null ? [] : await listPlanNames(tx, [before.plan]));
  const changes = listTermChanges(toDetails(before), toDetails(after), (plan) => names.get(plan) ?? plan);
  if (changes.every(({ label }) => label === SET_BY)) return undefined;
  const nameCap = ({ hasOwnCap, effectiveUnitCap: cap }: Grant) =>
    `${cap === null ? 'none' : formatDecimal(cap)}${hasOwnCap ? '' : ' (the product’s)'}`;
  const use = await listCurrentUse(tx, before.orgId, { now, livemode: true, limit: MAX_PRODUCTS });
  const row = use.find(({ productId }) => productId === before.productId);
  const isOver = ({ effectiveUnitCap: cap }: Grant) =>
    row && cap !== null && compareDecimals(row.usedThisMonth, cap) > 0;
  return {
    changes: changes.map((change) =>
      change.label === 'cap' ? { ...change, was: nameCap(before), will: nameCap(after) } : change,
    ),
    use: row && { used: row.usedThisMonth, caps: [before, after].map((one) => one.effectiveUnitCap) },
    metric: row?.usageMetric,
    goesOver: isOver(after) && !isOver(before),
  };
}

/** A new entitlement must not replace the terms of an existing one. */
async function refuseGranted(tx: Tx, slug: string, productSlug: string): Promise<void> {
  const { id: orgId } = await getLockedOrganization(tx, slug);
  if (await findGrant(tx, orgId, (await getProduct(tx, productSlug)).id))
    throw fieldError('product', 'is already granted: change that entitlement instead');
}

function addWithdrawal(router: Router, deps: ConsoleDeps): void {
  addForm(router, '/customers/:slug/entitlement/withdraw', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { product } = parseInput(withdrawSchema, fields);
      await changeAsOperator(deps, req, res, (tx, source) => withdrawGrant(tx, slug, product, source));
      res.redirect(303, toAddress(`${addressOf(slug)}/entitlements`, { done: 'withdrawn' }));
    },
    async show(req, res, form) {
      const customer = await readCustomer(deps, req);
      const asked = textField(form.values, 'product') ?? readQuery(req).product;
      const { product } = parseInput(withdrawSchema, { product: asked });
      const grant = await getGrant(deps.db.orm, customer.slug, product);
      const page = { view: 'metering/console/withdraw-entitlement', tab: 'entitlements', title: 'Withdraw' };
      await renderCustomer(deps, req, res, page, customer, { form, grant });
    },
  });
}

function toFields(grant: Grant | undefined, product: Product | undefined): FormFields {
  const usual = product?.unitCap ?? '';
  if (!grant) return writeFields({ ...writeTerms({ kind: 'live' }), unitCap: usual });
  const { startsAt, endsAt, hasOwnCap, unitCap } = grant;
  const own = hasOwnCap ? unitCap : undefined;
  return writeFields({
    ...writeTerms({ ...grant, unitCap: own }),
    unitCap: own ?? usual,
    startsAt: toField(startsAt),
    endsAt: endsAt === null ? '' : toField(endsAt),
  });
}

/** To the minute, as browsers show it. */
export const toField = (at: Date): string => at.toISOString().slice(0, 16);

/** If the minute is unchanged, the seconds stay. */
const readTime = (typed: Date | undefined, current: Date | null | undefined): Date | undefined =>
  typed && current && toField(current) === toField(typed) ? current : typed;
