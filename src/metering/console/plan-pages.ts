import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { fillInSlug, slugSchema } from '../../accounts/identity/operator/schema.js';
import {
  addressOf,
  CONSOLE,
  PAGE_SIZE,
  readCustomer,
  readSlug,
  renderCustomer,
  type ConsoleDeps,
} from '../../console/page.js';
import type { NewCustomerPart } from '../../console/customer-summary.js';
import type { Tx } from '../../core/db/client.js';
import { listCurrentUse, type ProductUse } from '../events/current-use.js';
import type { Source } from '../../accounts/identity/source.js';
import { isCurrent, readCredits, type CreditGrant } from '../credit-grants/credits.js';
import type { Context } from '../../core/http/context.js';
import { cutPage } from '../../core/http/page.js';
import { minuteField, nameField, parseInput } from '../../core/http/validate.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { readOutlook } from '../reports/credits/pages.js';
import {
  addForm,
  fieldError,
  startForm,
  listField,
  newForm,
  parseQueryForm,
  readQuery,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { toNamedOptions } from '../../core/pages/format.js';
import { editRows, rowNumbers, writeFields } from '../../core/pages/rows.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { countAmounts, grantsOf } from '../plans/grants.js';
import { moveAll } from '../plans/move.js';
import { endOrganizationPlan, putOrganizationPlan, type PutPlan } from '../plans/organization-plans.js';
import { periodAt, startOfPeriod } from '../plans/periods.js';
import { getPlan, putPlan, readProducts, requireProducts } from '../plans/plans.js';
import { findPlan, listPlans, listTried, listVersions, type Plan } from '../plans/queries.js';
import type { Definition } from '../plans/schema.js';
import { listProducts } from '../entitlements/queries.js';
import { MAX_PRODUCTS, toField } from './entitlement-pages.js';
import { toCap } from '../entitlements/caps.js';
import { limitOptions } from './entitlement-rows.js';
import { planRows, readPlanForm, toFields } from './plan-form.js';
import { readPlanEffect } from './price-preview.js';
import {
  listChanges,
  readOwnTerms,
  readPlanView,
  slugsIn,
  withContents,
  withOwnTerms,
  type ChangeLine,
} from '../plans/view.js';

const PLANS = `${CONSOLE}/plans`;

const cursorSchema = z.object({ cursor: slugSchema.optional() });
const planForm = z.object({ name: nameField });
const newPlanForm = planForm.extend({ slug: slugSchema });

const notices = {
  created: 'Plan created. Put a customer on it next.',
  saved: 'Saved. Customers stay on their versions until you move them, below.',
  moved: 'Moved to the newest version.',
};

const perMonth = { month: 1, week: 30 / 7, day: 30 };

/** By the credits of a month, then by name. */
const bySize = (plans: readonly Plan[]): Plan[] => {
  const size = ({ definition }: Plan) =>
    definition.grants.reduce((sum, { amount, every }) => sum + Number(amount) * perMonth[every], 0);
  return plans.toSorted((a, b) => size(a) - size(b) || a.name.localeCompare(b.name, 'en'));
};

/** Each plan has a box of its own. */
const hasTrial = (fields: FormFields, plan: string | undefined): boolean =>
  plan !== undefined && listField(fields, 'trial').includes(plan);

/** A page with more of them would be too large. */
const SHOWN_PLANS = 20;

export const newCustomer: NewCustomerPart = {
  view: 'metering/console/new-customer-plan',
  async read(orm) {
    const plans = await listPlans(orm, { after: undefined, limit: SHOWN_PLANS });
    return {
      plans: await withContents(orm, bySize(plans).slice(0, SHOWN_PLANS)),
      hasMore: plans.length > SHOWN_PLANS,
    };
  },
  async begin(tx, slug, fields, source) {
    const { plan } = parseInput(z.object({ plan: slugSchema.optional() }), filledIn(fields));
    if (plan === undefined) return () => undefined;
    const input = { plan, trial: hasTrial(fields, plan), replace: false, voidGrants: false };
    const { amounts } = await putOrganizationPlan(tx, slug, input, source);
    return (metrics) => countAmounts(metrics, amounts);
  },
  codes: ['unknown_plan'],
};

type Deps = ConsoleDeps & Pick<Context, 'metrics'>;

export function planPages(deps: Deps): Router {
  const { orm } = deps.db;
  const router = pageRouter();

  router.get('/plans', async (req, res) => {
    const { cursor } = parseQueryForm(cursorSchema, readQuery(req));
    const found = await listPlans(orm, { after: cursor, limit: PAGE_SIZE });
    const { page: plans, nextCursor } = cutPage(found, PAGE_SIZE, ({ slug }) => slug);
    const slugs = plans.map(({ slug }) => slug);
    const versions = await listVersions(orm, slugs, true);
    const page = { view: 'metering/console/plans', title: 'Plans', section: 'plans' };
    const isWhole = cursor === undefined && nextCursor === undefined;
    const rows = await withContents(orm, isWhole ? bySize(plans) : plans);
    await renderPage(deps, req, res, page, {
      plans: rows.map((plan) => ({ ...plan, versions: versions.filter((row) => row.plan === plan.slug) })),
      pager: toPager(PLANS, {}, { cursor, nextCursor }),
    });
  });

  addPlanForm(router, '/new-plan', deps, () => Promise.resolve(undefined));
  addPlanForm(router, '/plans/:slug', deps, (req) => getPlan(orm, readSlug(req, 'plan')));
  addMove(router, deps);
  addCustomerPlan(router, deps);
  return router;
}

/** A form, then a preview of what changes, and only then the change. */
function addPlanForm(
  router: Router,
  path: string,
  deps: Deps,
  read: (req: Request) => Promise<Plan | undefined>,
): void {
  const { orm } = deps.db;
  const show = async (req: Request, res: Response, form: FormState, shown: object = {}) => {
    const plan = await read(req);
    const title = plan?.name ?? 'New plan';
    const versions = plan ? await listVersions(orm, [plan.slug], true) : [];
    const isBehind = versions.some((row) => row.version !== plan!.version && row.organizations > 0);
    const all = await listProducts(orm, { after: undefined, limit: MAX_PRODUCTS });
    const current = all.filter(({ archivedAt }) => archivedAt === null);
    const page = { view: 'metering/console/plan', title, section: 'plans', notices };
    await renderPage(deps, req, res, page, {
      form: startForm(form, plan ? toFields(plan, readQuery(req).as === 'yaml') : newFields(req)),
      plan,
      ...shown,
      ...limitOptions,
      rowKinds: planRows,
      rowNumbers,
      /** A product that the plan has is not chosen again. */
      kept: await readProducts(orm, plan ? slugsIn(plan.definition) : []),
      products: toNamedOptions(current),
      /** Credits pay for these. */
      priced: toNamedOptions(current.filter(({ creditPrice }) => creditPrice !== null)),
      versions,
      effect:
        plan && isBehind && (await readPlanEffect(deps.db, plan.slug, plan.definition, deps.clock.now())),
    });
  };
  addForm(router, path, {
    async act(req, res, fields) {
      const { step, edit } = fields;
      delete fields.step;
      if (edit !== undefined) {
        const focus = editRows(fields, edit, planRows);
        return show(req, res, newForm(fields), { focus });
      }
      if (step === 'edit') return show(req, res, newForm(fields));
      const plan = await read(req);
      if (!plan) fillInSlug(fields, 'slug', 'name');
      const values = parseInput(plan ? planForm : newPlanForm, filledIn(fields));
      const slug = plan?.slug ?? (values as z.output<typeof newPlanForm>).slug;
      const input = { name: values.name, definition: readPlanForm(fields, plan?.definition) };
      const { entitlements, grants, trial } = input.definition;
      if (!plan && fields.definition === undefined && entitlements.length + grants.length === 0 && !trial)
        throw fieldError('entitlements', 'must have a product or credits');
      if (step !== 'save') {
        await requireProducts(orm, input.definition);
        const changes = await listChanges(orm, plan?.definition, input.definition);
        const effect = plan && (await readPlanEffect(deps.db, slug, input.definition, deps.clock.now()));
        return show(req, res, newForm(fields), { preview: { changes, effect } });
      }
      await changeAsOperator(deps, req, res, async (tx, source) => {
        if (!plan && (await findPlan(tx, slug))) throw fieldError('slug', 'is taken by another plan');
        await putPlan(tx, slug, input, source);
      });
      res.redirect(303, toAddress(`${PLANS}/${slug}`, { done: plan ? 'saved' : 'created' }));
    },
    show,
    codes: new Set(['unknown_product']),
  });
}

/** A row for a product and one for credits. */
const newFields = (req: Request) =>
  readQuery(req).as === 'yaml'
    ? { definition: '' }
    : writeFields({
        entitlements: { 0: planRows.entitlements!.blank },
        grants: { 0: planRows.grants!.blank },
      });

function addMove(router: Router, deps: Deps): void {
  router.post('/plans/:slug/move', async (req, res) => {
    const plan = await getPlan(deps.db.orm, readSlug(req, 'plan'));
    const { remaining } = await moveAll(deps, plan, {}, (work) => changeAsOperator(deps, req, res, work));
    res.redirect(303, toAddress(`${PLANS}/${plan.slug}`, remaining > 0 ? {} : { done: 'moved' }));
  });
}

const checked = z
  .literal('yes', 'must be one of the options')
  .optional()
  .transform((value) => value === 'yes');

const customerForm = z.object({
  plan: slugSchema.optional(),
  startsAt: minuteField.optional(),
  anchor: minuteField.optional(),
  replace: checked,
  voidGrants: checked,
});

function addCustomerPlan(router: Router, deps: Deps): void {
  const { orm } = deps.db;
  const readCurrent = (id: string) => readPlanView(orm, id, new Date(deps.clock.now()));
  const show = async (req: Request, res: Response, form: FormState, preview?: object) => {
    const customer = await readCustomer(deps, req);
    const current = await readCurrent(customer.id);
    const own = current ? await readOwnTerms(orm, customer.id) : [];
    const plans = bySize(await listPlans(orm, { after: undefined, limit: 500 }));
    const tried = await listTried(orm, customer.id);
    const page = {
      view: 'metering/console/customer-plan',
      tab: 'plan',
      title: 'Plan',
      notices: { saved: 'Saved. It takes effect on the next request.', ended: 'The plan has ended.' },
    };
    await renderCustomer(deps, req, res, page, customer, {
      form: startForm(form, current ? toCustomerFields(current) : {}),
      current,
      contents:
        current &&
        (await withContents(orm, [{ definition: withOwnTerms(current.definition, own) }]))[0]!.contents,
      setByHand: own.filter(({ isSetByHand }) => isSetByHand).map(({ terms }) => terms.productSlug),
      preview,
      plans: [...(await withContents(orm, plans.slice(0, SHOWN_PLANS))), ...plans.slice(SHOWN_PLANS)].map(
        (plan) => ({ ...plan, isTried: tried.includes(plan.slug) }),
      ),
    });
  };
  addForm(router, '/customers/:slug/plan', {
    async act(req, res, { step, ...fields }) {
      const { id, slug } = await readCustomer(deps, req);
      const { plan, anchor, ...options } = parseInput(customerForm, filledIn(fields));
      const input = { ...options, trial: hasTrial(fields, plan) };
      const current = await readCurrent(id);
      if (plan === undefined && !current) throw fieldError('plan', 'is required');
      if (step === 'edit') return show(req, res, newForm(fields));
      // The form shows the anchor without its seconds.
      const isKept = current && anchor && toField(current.anchor) === toField(anchor);
      const change = async (tx: Tx, source: Source): Promise<PutPlan | undefined> => {
        if (plan !== undefined)
          return putOrganizationPlan(
            tx,
            slug,
            { ...input, plan, anchor: isKept ? undefined : anchor },
            source,
          );
        await endOrganizationPlan(tx, slug, source);
        return undefined;
      };
      if (step !== 'save') {
        const version = current?.plan === plan ? current?.version : undefined;
        const wanted = plan === undefined ? undefined : await getPlan(orm, plan, version);
        const effect = await rehearseAsOperator(deps, req, res, (tx, source) =>
          readEffect(tx, id, current, wanted?.definition, source.at, () => change(tx, source)),
        );
        const preview = { name: wanted?.name, isSame: version !== undefined, ...effect };
        return show(req, res, newForm(fields), preview);
      }
      const amounts = (await changeAsOperator(deps, req, res, change))?.amounts;
      countAmounts(deps.metrics, amounts ?? []);
      const done = plan === undefined ? 'ended' : 'saved';
      res.redirect(303, toAddress(`${addressOf(slug)}/plan`, { done }));
    },
    show,
    codes: new Set(['unknown_plan', 'trial_used', 'too_many_grants']),
  });
}

/** A trial goes on unless somebody clears its box. */
const toCustomerFields = ({ plan, anchor, trialEndsAt }: NonNullable<Current>): FormFields => ({
  plan,
  anchor: toField(anchor),
  ...(trialEndsAt && { trial: plan }),
});

type Current = Awaited<ReturnType<typeof readPlanView>>;

/** Makes the change, and compares before and after. Entitlements that were set by hand stay, unless they are replaced. */
async function readEffect(
  tx: Tx,
  orgId: string,
  current: Current,
  wanted: Definition | undefined,
  at: Date,
  work: () => Promise<PutPlan | undefined>,
) {
  const livemode = true;
  const read = async () => ({
    credits: await readCredits(tx, { orgId, livemode }, at),
    outlook: await readOutlook(tx, { orgId, livemode }, at),
    own: await readOwnTerms(tx, orgId),
    use: await listCurrentUse(tx, orgId, { now: at, livemode, limit: MAX_PRODUCTS }),
  });
  const before = await read();
  const row = (await work())?.resource;
  const after = await read();
  const staying = new Set(after.own.filter((one) => one.isSetByHand).map(({ name }) => name));
  const toDefinition = ({ own }: typeof after, definition: Definition | undefined, isTrial: boolean) => ({
    entitlements: own.filter(({ name }) => !staying.has(name)).map(({ terms }) => terms),
    grants: definition?.grants ?? [],
    ...(isTrial && definition?.trial && { trial: definition.trial }),
  });
  const changes = await listChanges(
    tx,
    toDefinition(before, current?.definition, Boolean(current?.trialEndsAt)),
    toDefinition(after, wanted, Boolean(row?.trialEndsAt)),
    true,
  );
  const stays = [...staying].map((name) => ({ sign: '=', text: `${name}: stays as it was set by hand` }));
  const old = new Set(before.credits.grants.map(({ id }) => id));
  const from = new Date(Math.max(row?.startsAt.getTime() ?? 0, at.getTime()));
  const nexts = (row && wanted ? grantsOf(wanted, row) : []).map(({ every }) =>
    startOfPeriod(every, row!.anchor, periodAt(every, row!.anchor, from) + 1).getTime(),
  );
  const [balance, balanceAfter] = [before, after].map(({ credits }) => credits.balance);
  const granted = after.credits.grants.filter((grant) => isCurrent(grant) && !old.has(grant.id));
  return {
    /** The time of the last change stays, and so do the entitlements and credits. */
    isUnchanged:
      row !== undefined &&
      row.updatedAt.getTime() === current?.updatedAt.getTime() &&
      changes.every(({ sign }) => sign === '=') &&
      granted.length === 0 &&
      balance === balanceAfter,
    changes: [...changes.map((line) => ({ ...line, used: toUsed(line, before.use, after.use) })), ...stays],
    begins: from > at ? from : undefined,
    trialEndsAt: row?.trialEndsAt,
    balances: [balance, balanceAfter],
    outlook: [before.outlook, after.outlook],
    granted: granted
      .map(({ amount, startsAt }) => ({ amount, startsAt: new Date(startsAt) }))
      .toSorted((a, b) => a.startsAt.getTime() - b.startsAt.getTime()),
    byHand: after.credits.grants
      .filter((grant) => nexts.length > 0 && old.has(grant.id) && isForPeriod(grant))
      .slice(0, SHOWN_GRANTS)
      .map(({ startsAt, expiresAt, ...grant }) => ({
        ...grant,
        startsAt: new Date(startsAt),
        expiresAt: expiresAt === null ? undefined : new Date(expiresAt),
      })),
    nextCredits: nexts.length === 0 ? undefined : new Date(Math.min(...nexts)),
  };
}

const SHOWN_GRANTS = 10;

/** A plan did not make it, and it ends or begins later, as credits of a period do. */
const isForPeriod = ({ grantKey, status, expiresAt }: CreditGrant): boolean =>
  !grantKey.startsWith('plan:') && (status === 'scheduled' || (status === 'open' && expiresAt !== null));

/** This month's usage of a product whose cap changes, or that the customer loses. */
function toUsed({ sign, productSlug }: ChangeLine, before: ProductUse[], after: ProductUse[]) {
  const row = (sign === '−' ? before : after).find((one) => one.productSlug === productSlug);
  if (!row || sign === '=' || row.usedThisMonth === '0') return undefined;
  const isOver = sign === '−' || toCap(row)?.isOver;
  return { quantity: row.usedThisMonth, metric: row.usageMetric, isOver };
}
