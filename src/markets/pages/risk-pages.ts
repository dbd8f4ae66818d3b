import type { Request, Response } from 'express';
import { isManager, managingRoles } from '../../accounts/organizations/table.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { requireRole, sessionOf, personSource } from '../../accounts/identity/session/session.js';
import { parseInput } from '../../core/http/validate.js';
import { switchSchema } from '../risk/operator/schema.js';
import { toAddress } from '../../core/pages/address.js';
import { postForm, newForm, textField, type FormState, readQuery } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import type { Context } from '../../core/http/context.js';
import { readPageQuery, toModeTabs } from './addresses.js';
import type { TradingServices } from '../services/services.js';
import { findLimits, selectLargestOrders } from '../risk/queries.js';
import { noLimitsDeclared, toEffectiveLimits } from '../risk/limits.js';
import { midnightOf, readRiskFacts } from '../risk/facts.js';
import { changeSwitch, readSwitch, setSwitch } from '../risk/switches.js';
import { RISK_PATH, switchActions, toLimitViews, toSwitchChoices } from './risk-view.js';
import { toLimitUse } from '../risk/exposure.js';

const notices = Object.fromEntries(
  Object.entries(switchActions).map(([state, { done }]) => [state.replace('_', '-'), done]),
);
const stateSchema = switchSchema.pick({ state: true });
const SWITCH_PATH = `${RISK_PATH}/switch`;

/** Owners and admins set the Organization's own switch. */
export function riskPages(deps: Context, { snapshots, live }: Pick<TradingServices, 'snapshots' | 'live'>) {
  const { db, clock, config } = deps;
  const { liveOrg, hasFreeForecasts } = config.trading;
  const router = pageRouter();
  const mayChange = requireRole(...managingRoles);

  router.get('/portfolio/risk', async (req, res) => {
    const { orgId, orgSlug, role } = sessionOf(res);
    const { mode } = readPageQuery(req);
    const at = new Date(clock.now());
    const account = { orgId, mode, midnight: midnightOf(at) };
    const [tradingSwitch, declared, facts, largest] = await Promise.all([
      readSwitch(db.orm, orgId),
      findLimits(db.orm, orgId),
      readRiskFacts(db.orm, { orgId, mode, at }),
      selectLargestOrders(db.orm, account),
    ]);
    const snapshot = snapshots.current;
    const page = { view: 'markets/risk/risk', title: 'Risk limits', section: 'portfolio', notices };
    const limits = declared ?? noLimitsDeclared;
    const use = facts && toLimitUse(facts, largest, snapshot);
    await renderPage(deps, req, res, page, {
      modes: toModeTabs(RISK_PATH, mode),
      mode,
      tradingSwitch,
      choices: isManager(role) ? toSwitchChoices(tradingSwitch.own.state, SWITCH_PATH) : [],
      limits: toLimitViews(toEffectiveLimits(limits), limits, use, snapshot),
      declaredAt: declared?.updatedAt,
      tradesOnFreeForecasts: liveOrg === orgSlug && hasFreeForecasts,
    });
  });

  router.get('/portfolio/risk/switch', mayChange, async (req, res) => {
    const { state } = parseInput(stateSchema, { state: readQuery(req).state });
    await showSwitch(req, res, newForm({ state }));
  });

  postForm(router, '/portfolio/risk/switch', {
    before: [mayChange],
    async act(req, res, fields) {
      const { orgId } = sessionOf(res);
      const input = {
        state: textField(fields, 'state'),
        reason: textField(fields, 'reason')?.trim() || null,
      };
      const { state, reason } = parseInput(switchSchema, input);
      const source = personSource(req, res, clock);
      await changeSwitch({ db, clock, live }, byMember(res), (tx) =>
        setSwitch(tx, orgId, 'own', { state, reason: reason ?? null }, source),
      );
      res.redirect(303, toAddress(RISK_PATH, { done: state.replace('_', '-') }));
    },
    show: showSwitch,
  });

  async function showSwitch(req: Request, res: Response, form: FormState): Promise<void> {
    const { state } = parseInput(stateSchema, { state: textField(form.values, 'state') });
    const tradingSwitch = await readSwitch(db.orm, sessionOf(res).orgId);
    const action = switchActions[state];
    const page = { view: 'markets/risk/switch', title: action.title, section: 'portfolio' };
    const path = [
      { label: 'Portfolio', href: '/dashboard/portfolio' },
      { label: 'Risk limits', href: RISK_PATH },
    ];
    await renderPage(deps, req, res, page, { form, state, action, tradingSwitch, path });
  }

  return router;
}
