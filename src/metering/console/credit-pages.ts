import { randomBytes } from 'node:crypto';
import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import type { Orm, Tx } from '../../core/db/client.js';
import { subtractDecimals, toPlainDecimal } from '../../core/decimal.js';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { decimalField, minuteField, parseInput, text } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import {
  addForm,
  fieldError,
  startForm,
  listField,
  newForm,
  textField,
  type FormFields,
  type FormState,
  readQuery,
} from '../../core/pages/form.js';
import { pageRouter } from '../../core/pages/layout.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator, rehearseAsOperator } from '../../accounts/identity/operator/http.js';
import { slugSchema } from '../../accounts/identity/operator/schema.js';
import { requireConfirmation } from '../../accounts/identity/session/operator.js';
import type { Source } from '../../accounts/identity/source.js';
import type { Organization } from '../../accounts/identity/organizations/queries.js';
import { addressOf, readCustomer, renderCustomer, type ConsoleDeps } from '../../console/page.js';
import { readCredits, type CreditGrant, type Credits } from '../credit-grants/credits.js';
import {
  countGrant,
  forgiveOverdraft,
  putGrant,
  voidGrant,
  type GrantInput,
} from '../credit-grants/grants.js';
import type { AccountId } from '../credit-grants/queries.js';
import { grantKeySchema } from '../credit-grants/schema.js';
import { toPrice } from '../entitlements/price.js';
import { getProduct } from '../entitlements/products.js';
import { listPricedProducts, listProductsBySlug } from '../entitlements/queries.js';
import { toNames } from '../../core/pages/format.js';
import { mode, type Mode } from '../events/page-schema.js';
import { readAccountView, readLedgerView, readOutlook, sendLedger } from '../reports/credits/pages.js';
import { negate, total } from '../reports/credits/ledger.js';
import { toGrantView } from '../reports/credits/view.js';

/** Offered as check boxes. */
const MAX_PRODUCTS = 100;

const notices = {
  granted: 'The credits are granted.',
  voided: 'The grant is void. What was left is forfeited.',
  forgiven: 'The overdraft is forgiven.',
};

const base = (slug: string) => `${addressOf(slug)}/credits`;
const modeField = mode.default('live');
const reason = text(200);
const wholeNumber = (least: number, most: number) =>
  z
    .string()
    .trim()
    .regex(/^\d{1,3}$/, `must be a whole number from ${least} to ${most}`)
    .transform(Number)
    .refine((count) => count >= least && count <= most, `must be a whole number from ${least} to ${most}`);

const grantFields = z.object({
  mode: modeField,
  amount: decimalField.refine((value) => /[1-9]/.test(value), 'must be above 0'),
  startsAt: minuteField.optional(),
  expiresAt: minuteField.optional(),
  priority: wholeNumber(0, 100).default(50),
  percent: wholeNumber(1, 100).optional(),
  days: wholeNumber(1, 366).optional(),
  reason,
  grantKey: grantKeySchema,
});

/** Reports all mistakes together. */
const when = () => true;
const isBlank = (value: unknown) => value === undefined || value === '';
const needs = (path: string, isMet: (typed: z.output<typeof grantFields>) => boolean) =>
  z.refine<z.output<typeof grantFields>>(isMet, { path: [path], error: 'is required for a rollover', when });
const grantSchema = grantFields.check(
  needs('days', ({ percent, days }) => isBlank(percent) || !isBlank(days)),
  needs('percent', ({ percent, days }) => isBlank(days) || !isBlank(percent)),
  needs('expiresAt', (typed) => [typed.percent, typed.days].every(isBlank) || !isBlank(typed.expiresAt)),
  z.refine(({ startsAt, expiresAt }) => !(expiresAt! <= startsAt!), {
    path: ['expiresAt'],
    error: 'must be later than the start',
    when,
  }),
);

type CreditPagesDeps = ConsoleDeps & Pick<Context, 'metrics' | 'log'>;

export function customerCreditPages(deps: CreditPagesDeps): Router {
  const router = pageRouter();
  router.get('/customers/:slug/credits', (req, res) => showCredits(deps, req, res));
  router.get('/customers/:slug/credits.csv', async (req, res) =>
    sendLedger(deps, req, res, (await readCustomer(deps, req)).id, readQuery(req)),
  );
  addGrant(router, deps);
  addChange(router, deps, voiding);
  addChange(router, deps, forgiving);
  return router;
}

/** In the mode of the URL or the form. */
async function readAccount(deps: ConsoleDeps, req: Request, fields: FormFields = {}) {
  const customer = await readCustomer(deps, req);
  const asked = textField(fields, 'mode') ?? readQuery(req).mode;
  // The form's schema refuses another mode, but the page must still be shown.
  const mode: Mode = asked === 'test' ? 'test' : 'live';
  const id = { orgId: customer.id, livemode: mode === 'live' };
  return { customer, mode, id, now: new Date(deps.clock.now()) };
}

async function showCredits(deps: ConsoleDeps, req: Request, res: Response): Promise<void> {
  const { customer, mode, id, now } = await readAccount(deps, req);
  const path = base(customer.slug);
  const ledger = { path: `${path}#ledger`, csvPath: `${path}.csv` };
  const page = { view: 'metering/console/credits', tab: 'credits', title: 'Credits', notices };
  await renderCustomer(deps, req, res, page, customer, {
    ...(await readLedgerView(deps, res, customer.id, readQuery(req), ledger)),
    account: await readAccountView(deps.db.orm, id, now),
    grantHref: toAddress(`${path}/grant`, { mode }),
  });
}

const done = (customer: Organization, mode: string, word: keyof typeof notices) =>
  toAddress(base(customer.slug), { mode: mode === 'live' ? undefined : mode, done: word });

function addGrant(router: Router, deps: CreditPagesDeps): void {
  const { orm } = deps.db;

  const show = async (req: Request, res: Response, form: FormState) => {
    const { customer, mode, now } = await readAccount(deps, req, form.values);
    const products = await listPricedProducts(orm, MAX_PRODUCTS);
    const page = { view: 'metering/console/credit-grant', tab: 'credits', title: 'Grant credits' };
    await renderCustomer(deps, req, res, page, customer, {
      form: startForm(form, { mode, priority: '50', grantKey: newKey(now) }),
      products: products.map(({ slug, name }) => ({ value: slug, label: name, note: slug })),
      now,
    });
  };

  addForm(router, '/customers/:slug/credits/grant', {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, { step, ...fields }) {
      if (step === 'edit') return show(req, res, newForm(fields));
      const { customer, mode, id } = await readAccount(deps, req, fields);
      const { grantKey, ...input } = readGrant(fields);
      if (step === 'save') {
        const put = await changeAsOperator(deps, req, res, (tx, source) =>
          putGrant(tx, id, grantKey, input, source),
        );
        countGrant(deps.metrics, put);
        return res.redirect(303, done(customer, mode, 'granted'));
      }
      const preview = await rehearseAsOperator(deps, req, res, async (tx, source) => {
        const before = await readCredits(tx, id, source.at);
        const outlook = await readOutlook(tx, id, source.at);
        const { isNew } = await putGrant(tx, id, grantKey, input, source);
        if (!isNew) throw fieldError('grantKey', 'is taken by another grant');
        return {
          ...toPreview(grantKey, before, await readCredits(tx, id, source.at), source.at),
          outlook: [outlook, await readOutlook(tx, id, source.at)],
        };
      });
      const page = { view: 'metering/console/credit-grant-preview', tab: 'credits', title: 'Grant credits' };
      await renderCustomer(deps, req, res, page, customer, {
        mode,
        fields: Object.entries(fields),
        names: toNames(await listProductsBySlug(orm, input.productSlugs ?? [])),
        preview: { ...preview, isLater: input.startsAt !== undefined },
      });
    },
    show,
    codes: new Set(['idempotency_conflict', 'too_many_grants', 'unknown_product']),
  });
}

/** A form submitted twice grants once: both requests carry this key. */
const newKey = (now: Date): string =>
  `console-${now.toISOString().slice(0, 10)}-${randomBytes(3).toString('hex')}`;

function readGrant(fields: FormFields): GrantInput & { grantKey: string } {
  const {
    mode: _,
    amount,
    percent,
    days,
    startsAt,
    expiresAt,
    ...typed
  } = parseInput(grantSchema, filledIn(fields));
  const productSlugs = parseInput(z.object({ products: z.array(slugSchema) }), {
    products: listField(fields, 'products').filter((slug) => slug !== ''),
  }).products;
  return {
    ...typed,
    amount: toPrice(toPlainDecimal(amount, 0), 'amount'),
    startsAt: startsAt?.toISOString(),
    expiresAt: expiresAt?.toISOString(),
    ...(productSlugs.length > 0 ? { productSlugs } : {}),
    ...(percent !== undefined && days !== undefined ? { rollover: { percent, for: `P${days}D` } } : {}),
  };
}

/** Current grants are in the order in which they burn. */
function toPreview(grantKey: string, before: Credits, after: Credits, at: Date) {
  const place = after.grants.findIndex((grant) => grant.grantKey === grantKey);
  const grant = after.grants[place]!;
  const earlier = after.grants.slice(0, place);
  const beginsMs = Math.max(at.getTime(), Date.parse(grant.startsAt));
  const hasBegun = ({ startsAt }: CreditGrant) => Date.parse(startsAt) <= beginsMs;
  return {
    grant,
    earlier: earlier.filter(hasBegun),
    /** Scheduled ones that will burn before it. */
    overtaking: earlier
      .filter((one) => !hasBegun(one))
      .toSorted((a, b) => a.startsAt.localeCompare(b.startsAt))
      .map((one) => ({ reason: one.reason, startsAt: new Date(one.startsAt) })),
    balance: before.balance,
    balanceAfter: after.balance,
    overdrafts: before.overdrafts.flatMap(({ productSlug, quantity }) => {
      const left = after.overdrafts.find((one) => one.productSlug === productSlug)?.quantity ?? '0';
      return left === quantity ? [] : [{ productSlug, part: subtractDecimals(quantity, left) }];
    }),
  };
}

const changeSchema = z.object({ reason, mode: modeField });

/** The operator confirms it with a reason. */
interface CreditChange {
  path: string;
  title: string;
  /** Names the grant or product to change. */
  field: 'grant' | 'product';
  schema: z.ZodType<string>;
  done: keyof typeof notices;
  preview(orm: Orm, credits: Credits, key: string, now: Date): Promise<object> | object;
  carryOut(tx: Tx, id: AccountId, key: string, reason: string, source: Source): Promise<unknown>;
}

const findGrant = (credits: Credits, key: string): CreditGrant => {
  const grant = credits.grants.find(({ grantKey }) => grantKey === key);
  if (!grant) throw new AppError('not_found', 'This customer has no such grant.');
  return grant;
};

const voiding: CreditChange = {
  path: 'void',
  title: 'Void a grant',
  field: 'grant',
  schema: grantKeySchema,
  done: 'voided',
  preview(_orm, credits, key, now) {
    const grant = toGrantView(findGrant(credits, key), now);
    const { status, remaining } = grant;
    return {
      verb: 'Void',
      name: grant.reason,
      keyName: key,
      problem: grant.isCurrent
        ? undefined
        : `This grant is ${grant.statusLabel.toLowerCase()}, so nothing is left to void.`,
      amount: remaining,
      of: grant.amount,
      effect: 'are left and will be forfeited.',
      startsAt: status === 'scheduled' ? grant.startsAt : undefined,
      balance: credits.balance,
      balanceAfter: total([credits.balance, negate(remaining)]),
      hint: 'What was burned stays burned. It cannot be undone: give a new grant instead.',
      reasonHint: 'The customer sees it. Also kept in the audit log.',
      button: 'Void this grant',
      isDanger: true,
    };
  },
  carryOut: voidGrant,
};

const forgiving: CreditChange = {
  path: 'forgive',
  title: 'Forgive an overdraft',
  field: 'product',
  schema: slugSchema,
  done: 'forgiven',
  async preview(orm, { overdrafts, balance }, slug) {
    const { name } = await getProduct(orm, slug);
    const amount = overdrafts.find(({ productSlug }) => productSlug === slug)?.quantity ?? '0';
    return {
      verb: 'Forgive the overdraft of',
      name,
      problem: amount === '0' ? 'This product has no overdraft.' : undefined,
      amount,
      effect: 'that usage burned without a grant will be forgiven.',
      balance,
      balanceAfter: total([balance, amount]),
      hint: 'The usage stays recorded. The overdraft at the time of your confirmation is forgiven.',
      reasonHint: 'Kept in the audit log.',
      button: 'Forgive the overdraft',
    };
  },
  carryOut: forgiveOverdraft,
};

function addChange(router: Router, deps: ConsoleDeps, change: CreditChange): void {
  const { path, title, field, schema } = change;
  const { orm } = deps.db;

  const read = async (req: Request, fields: FormFields) => {
    const account = await readAccount(deps, req, fields);
    const typed = textField(fields, field) ?? readQuery(req)[field];
    const key = parseInput(z.object({ [field]: schema }), { [field]: typed })[field]!;
    const credits = await readCredits(orm, account.id, account.now);
    return { ...account, key, preview: await change.preview(orm, credits, key, account.now) };
  };

  addForm(router, `/customers/:slug/credits/${path}`, {
    before: [requireConfirmation(deps.clock)],
    async act(req, res, fields) {
      const { customer, mode, id, key } = await read(req, fields);
      const { reason } = parseInput(changeSchema, filledIn(fields));
      await changeAsOperator(deps, req, res, (tx, source) => change.carryOut(tx, id, key, reason, source));
      res.redirect(303, done(customer, mode, change.done));
    },
    async show(req, res, form) {
      if (!textField(form.values, field) && !readQuery(req)[field]) {
        const { customer, mode } = await readAccount(deps, req);
        return res.redirect(303, toAddress(base(customer.slug), { mode }));
      }
      const { customer, mode, key, preview } = await read(req, form.values);
      const credits = base(customer.slug);
      const page = { view: 'metering/console/credit-change', tab: 'credits', title };
      await renderCustomer(deps, req, res, page, customer, {
        form,
        mode,
        change: preview,
        key: { name: field, value: key },
        action: toAddress(`${credits}/${path}`, { [field]: key, mode }),
        creditsHref: toAddress(credits, { mode }),
      });
    },
    codes: new Set(['grant_closed']),
  });
}
