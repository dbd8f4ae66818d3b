import type { Request, Response, Router } from 'express';
import type { Tx } from '../../core/db/client.js';
import { decimalField, parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { addForm, newForm, readQuery, type FormFields, type FormState } from '../../core/pages/form.js';
import { pageRouter, renderPage } from '../../core/pages/layout.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { changeAsOperator, sourceOf } from '../../accounts/identity/operator/http.js';
import { byOperator } from '../../accounts/identity/session/authority.js';
import { confirmDanger } from '../../accounts/identity/session/operator.js';
import type { Source } from '../../accounts/identity/source.js';
import { getLockedOrganization } from '../../accounts/identity/organizations/organizations.js';
import { isRaised, noLimitsDeclared, type DeclaredLimits } from '../risk/limits.js';
import { limitsJson, putLimits, readDeclared, withdrawLimits } from '../risk/operator/limits.js';
import { limitsSchema, switchSchema } from '../risk/operator/schema.js';
import { findLimits, listTraders } from '../risk/queries.js';
import { changeSwitch, isOpened, readSwitch, setSwitch } from '../risk/switches.js';
import { switchActions, toSwitchChoices, toSwitchTitle, toTraderView } from '../pages/risk-view.js';
import { addressOf, CONSOLE, readCustomer, renderCustomer } from '../../console/page.js';
import type { MarketConsoleDeps } from './page.js';

const notices = {
  limits: 'The limits are set. They take effect on the next order.',
  defaults: 'The default limits apply again, starting with the next order.',
  switch: 'The switch is set. It takes effect on the next order.',
};

const counts = new Set(['maxOrderContracts', 'maxPositionContracts', 'maxOpenOrders']);

/** The operator API takes counts as numbers and amounts as strings. */
const toInput = (fields: FormFields): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(filledIn(fields)).map(([name, value]) => {
      const { success, data } = decimalField.safeParse(value);
      if (counts.has(name)) return [name, Number(data ?? value)];
      return [name, success ? data : value];
    }),
  );

export function customerTradingPages(deps: MarketConsoleDeps): Router {
  const { orm } = deps.db;
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const customer = await readCustomer(deps, req);
    const { effective, declared, updatedAt } = limitsJson(await findLimits(orm, customer.id));
    const tradingSwitch = await readSwitch(orm, customer.id);
    const page = { view: 'markets/console/trading', tab: 'trading', title: 'Trading', notices };
    await renderCustomer(deps, req, res, page, customer, {
      form: { ...form, values: { ...toFields(declared), ...form.values } },
      traders: (await listTraders(deps.db, 2, customer.id)).map((trader) => toTraderView(trader)),
      effective,
      declaredAt: updatedAt,
      tradingSwitch,
      choices: toSwitchChoices(tradingSwitch.operator.state, `${addressOf(customer.slug)}/trading/switch`),
    });
  };

  const showSwitch = async (req: Request, res: Response, form: FormState) => {
    const wanted = switchSchema.shape.state.safeParse({ ...readQuery(req), ...form.values }.state);
    if (!wanted.success) return show(req, res, form);
    const { slug, name } = await readCustomer(deps, req);
    const state = wanted.data;
    const action = { ...switchActions[state], title: toSwitchTitle(state, name) };
    const page = { view: 'markets/risk/switch', title: action.title, section: 'customers' };
    const base = addressOf(slug);
    const path = [
      { label: 'Customers', href: CONSOLE },
      { label: name, href: base },
      { label: 'Trading', href: `${base}/trading` },
    ];
    await renderPage(deps, req, res, page, { form, state, action, path });
  };

  router.get('/customers/:slug/trading', (req, res) => show(req, res, newForm()));

  addForm(router, '/customers/:slug/trading/limits', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const declared = readDeclared(parseInput(limitsSchema, toInput(fields)));
      await changeAsOperator(deps, req, res, async (tx, source) => {
        await confirmIfRaised(tx, res, slug, declared, source);
        await putLimits(tx, slug, declared, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/trading`, { done: 'limits' }));
    },
    show,
  });

  addForm(router, '/customers/:slug/trading/limits/withdraw', {
    async act(req, res) {
      const { slug } = await readCustomer(deps, req);
      await changeAsOperator(deps, req, res, async (tx, source) => {
        await confirmIfRaised(tx, res, slug, noLimitsDeclared, source);
        await withdrawLimits(tx, slug, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/trading`, { done: 'defaults' }));
    },
    show,
  });

  addForm(router, '/customers/:slug/trading/switch', {
    async act(req, res, fields) {
      const { slug } = await readCustomer(deps, req);
      const { state, reason = null } = parseInput(switchSchema, filledIn(fields));
      const source = sourceOf(req, res, deps.clock);
      await changeSwitch(deps, byOperator(res), async (tx) => {
        const { id } = await getLockedOrganization(tx, slug);
        const { operator } = await readSwitch(tx, id);
        if (isOpened(operator.state, state)) await confirmDanger(tx, res, source);
        await setSwitch(tx, id, 'operator', { state, reason }, source);
      });
      res.redirect(303, toAddress(`${addressOf(slug)}/trading`, { done: 'switch' }));
    },
    show: showSwitch,
  });
  return router;
}

async function confirmIfRaised(
  tx: Tx,
  res: Response,
  slug: string,
  declared: DeclaredLimits,
  source: Source,
): Promise<void> {
  const { id } = await getLockedOrganization(tx, slug);
  if (isRaised(await findLimits(tx, id), declared)) await confirmDanger(tx, res, source);
}

const toFields = (declared: Record<string, string | number | null>): FormFields =>
  Object.fromEntries(
    Object.entries(declared).map(([name, value]) => [name, value === null ? '' : String(value)]),
  );
