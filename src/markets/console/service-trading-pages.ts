import type { Request, Response, Router } from 'express';
import { z } from 'zod';
import { parseInput } from '../../core/http/validate.js';
import { toAddress } from '../../core/pages/address.js';
import { addForm, newForm, readQuery, type FormState } from '../../core/pages/form.js';
import { renderPage, pageRouter } from '../../core/pages/layout.js';
import { AppError } from '../../core/errors.js';
import { filledIn } from '../../accounts/identity/account/schema.js';
import { sourceOf } from '../../accounts/identity/operator/http.js';
import { byOperator } from '../../accounts/identity/session/authority.js';
import { confirmDanger, requireConfirmation } from '../../accounts/identity/session/operator.js';
import { FREE_FORECASTS } from '../config.js';
import { switchSchema } from '../risk/operator/schema.js';
import { findServiceSwitch, listTraders } from '../risk/queries.js';
import { changeSwitch, isOpened, readServiceSwitch, setServiceSwitch } from '../risk/switches.js';
import { switchActions, toSwitchChoices, toSwitchTitle, toTraderView } from '../pages/risk-view.js';
import { CONSOLE } from '../../console/page.js';
import type { MarketConsoleDeps } from './page.js';

const TRADING = `${CONSOLE}/trading`;

const acceptSchema = z.strictObject({ accept: z.literal('yes', 'must be yes') });

/** A page with more of them would be too large. */
const SHOWN_TRADERS = 50;

const notices = {
  switch: 'The switch is set. It takes effect on the next order of every customer.',
  accepted: 'The venue’s figures were accepted.',
};

export function serviceTradingPages(deps: MarketConsoleDeps): Router {
  const router = pageRouter();

  const show = async (req: Request, res: Response, form: FormState) => {
    const serviceSwitch = await readServiceSwitch(deps.db.orm);
    const values = { ...readQuery(req), ...form.values };
    const wanted = switchSchema.shape.state.safeParse(values.state);
    if (wanted.success) {
      const action = { ...switchActions[wanted.data], title: toSwitchTitle(wanted.data, 'all customers') };
      const page = { view: 'markets/risk/switch', title: action.title, section: 'trading' };
      const path = [{ label: 'Trading', href: TRADING }];
      return renderPage(deps, req, res, page, { form, state: wanted.data, action, path });
    }
    const page = { view: 'markets/console/service-trading', title: 'Trading', section: 'trading', notices };
    await renderPage(deps, req, res, page, {
      form,
      serviceSwitch,
      choices: toSwitchChoices(serviceSwitch.state, `${TRADING}/switch`),
      traders: (await listTraders(deps.db, SHOWN_TRADERS + 1)).map((trader) => toTraderView(trader)),
      shownTraders: SHOWN_TRADERS,
      report: deps.live?.report,
      warning: deps.config.trading.hasFreeForecasts ? FREE_FORECASTS : undefined,
    });
  };

  router.get('/trading', (req, res) => show(req, res, newForm()));

  addForm(router, '/trading/switch', {
    async act(req, res, fields) {
      const { state, reason = null } = parseInput(switchSchema, filledIn(fields));
      const source = sourceOf(req, res, deps.clock);
      await changeSwitch(deps, byOperator(res), async (tx) => {
        const current = await findServiceSwitch(tx, { isLocked: true });
        if (current && isOpened(current.state, state)) await confirmDanger(tx, res, source);
        await setServiceSwitch(tx, { state, reason }, source);
      });
      res.redirect(303, toAddress(TRADING, { done: 'switch' }));
    },
    show,
  });
  addReconciliation(router, deps);
  return router;
}

function addReconciliation(router: Router, deps: MarketConsoleDeps): void {
  const confirmed = requireConfirmation(deps.clock);
  const requireLive = () => {
    if (!deps.live) throw new AppError('not_found', 'No customer trades live on this server.');
    return deps.live;
  };

  addForm(router, '/trading/reconciliation', {
    before: [confirmed],
    async act(req, res, fields) {
      parseInput(acceptSchema, fields);
      await requireLive().accept(sourceOf(req, res, deps.clock), byOperator(res));
      res.redirect(303, toAddress(TRADING, { done: 'accepted' }));
    },
    async show(req, res, form) {
      const { report } = requireLive();
      const page = {
        view: 'markets/console/reconciliation',
        title: 'Accept the venue’s figures',
        section: 'trading',
      };
      await renderPage(deps, req, res, page, { form, report });
    },
    // The venue cannot be read, or an order's outcome is unknown.
    codes: new Set(['unavailable']),
  });
}
