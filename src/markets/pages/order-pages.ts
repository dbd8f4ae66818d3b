import type { Request, Response, Router } from 'express';
import { found } from '../../core/errors.js';
import { readForm } from '../../core/http/body.js';
import type { Context } from '../../core/http/context.js';
import { isUuid, readPathId } from '../../core/http/request.js';
import { toAddress } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import {
  postForm,
  fieldError,
  listField,
  newForm,
  readQuery,
  textField,
  tryQuery,
  type FormFields,
  type FormState,
} from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { byMember } from '../../accounts/identity/session/authority.js';
import { requireRole, sessionOf } from '../../accounts/identity/session/session.js';
import { isManager, managingRoles } from '../../accounts/organizations/table.js';
import { contractsText, ORDER_SIZE } from '../market/contracts.js';
import type { OrderChange } from '../orders/order.js';
import {
  findChanges,
  findOrder,
  findPlace,
  listFills,
  listOrders,
  MAX_OPEN_ORDERS,
} from '../portfolio/order-queries.js';
import { exportTrades, tradeColumns } from '../portfolio/trades-csv.js';
import type { TradingServices } from '../services/services.js';
import {
  modeQuery,
  ORDERS_PATH,
  PORTFOLIO_PATH,
  readBack,
  readPageQuery,
  ticketAddress,
} from './addresses.js';
import { toOrderPage, toOrderView } from './order-view.js';
import { ORDERS_PAGE_SIZE, readOrdersRequest, toOrdersView } from './orders-view.js';

/** No book has as many levels. */
const MAX_FILLS = 500;

const section = 'portfolio';

export const orderNotices = {
  cancelled: 'Order cancelled. The unfilled part is no longer in the book.',
  cancelling: 'The order is being cancelled. Fills up to then are still being read.',
  decreased: 'Order decreased. It keeps its place in the queue.',
  repeated: 'This order was already placed. It was not placed again.',
};

type OrderPagesDeps = Pick<TradingServices, 'snapshots' | 'orders'>;

export function addOrderPages(router: Router, context: Context, deps: OrderPagesDeps): void {
  const { db, clock, log } = context;
  const { snapshots } = deps;

  router.get('/portfolio/orders', async (req, res) => {
    const query = readQuery(req);
    const { form, result: found } = await tryQuery(res, query, async () => {
      const { filter, sort, after } = readOrdersRequest(query);
      const page = { ...filter, sort, after, limit: ORDERS_PAGE_SIZE + 1 };
      return listOrders(db.orm, sessionOf(res).orgId, page);
    });
    const page = { view: 'markets/portfolio/orders', title: 'Orders', section };
    const view = toOrdersView(query, found, snapshots.current);
    await renderPage(context, req, res, page, { form, ...view });
  });

  addOrder(router, context, deps);

  router.get('/portfolio/trades.csv', async (req, res) => {
    const { orgId } = sessionOf(res);
    const { mode } = readPageQuery(req);
    const now = new Date(clock.now());
    await sendCsv(log, req, res, {
      filename: `trades-${mode}-${now.toISOString().slice(0, 10)}.csv`,
      columns: tradeColumns,
      pieces: exportTrades(db.orm, orgId, mode, now),
    });
  });
}

/** @throws AppError not_found, also for an order of another Organization */
export const requireOrder = async ({ orm }: Context['db'], res: Response, id: unknown) =>
  found(isUuid(id) ? await findOrder(orm, sessionOf(res).orgId, id) : undefined, 'There is no such order.');

function addOrder(router: Router, context: Context, { snapshots, orders }: OrderPagesDeps): void {
  const { orm } = context.db;
  const before = [requireRole(...managingRoles)];

  async function showOrder(req: Request, res: Response, form: FormState): Promise<void> {
    const { orgId, role } = sessionOf(res);
    const order = await requireOrder(context.db, res, req.params.id);
    const [fills, place, changes] = await Promise.all([
      listFills(orm, orgId, order.id, MAX_FILLS),
      order.mode === 'live' && order.status === 'resting' ? findPlace(orm, orgId, order.id) : undefined,
      findChanges(orm, order),
    ]);
    const page = { view: 'markets/portfolio/order', title: 'Order', section, notices: orderNotices };
    const mayChange = isManager(role) && order.status === 'resting';
    const view = { form, mayChange, ...toOrderPage(order, fills, snapshots.current, place, changes) };
    await renderPage(context, req, res, page, view);
  }

  const toChange = (req: Request, res: Response): OrderChange => ({
    orgId: sessionOf(res).orgId,
    id: readPathId(req, 'id', 'order'),
    by: byMember(res),
  });

  router.get('/portfolio/orders/:id', (req, res) => showOrder(req, res, newForm()));

  // The answer says which were filled first. Sent again, it cancels nothing more.
  router.post('/portfolio/orders/cancel', ...before, async (req, res) => {
    const fields = (await readForm(req, res)) as FormFields;
    const ids = listField(fields, 'ids');
    if (ids.length > MAX_OPEN_ORDERS) throw fieldError('ids', `must be at most ${MAX_OPEN_ORDERS}`);
    const readAll = () => Promise.all(ids.map((id) => requireOrder(context.db, res, id)));
    // If one is not theirs, none is cancelled.
    for (const { orgId, id } of await readAll()) await orders.cancel({ orgId, id, by: byMember(res) });
    const all = (await readAll()).map((order) => toOrderView(order, snapshots.current));
    const page = { view: 'markets/portfolio/cancelled', title: 'Cancelled orders', section };
    await renderPage(context, req, res, page, { all, back: readBack(fields) });
  });

  postForm(router, '/portfolio/orders/:id/cancel', {
    before,
    show: showOrder,
    async act(req, res, fields) {
      const { id, mode, status, ticker } = await orders.cancel(toChange(req, res));
      const done = status === 'resting' ? 'cancelling' : 'cancelled';
      const desk = toAddress(readBack(fields) ?? ticketAddress(ticker), { order: id, done });
      const to = {
        desk,
        portfolio: toAddress(PORTFOLIO_PATH, { ...modeQuery(mode), done }),
        ticket: `${toAddress(desk, { from: 'ticket' })}#review`,
      }[textField(fields, 'from') ?? ''];
      res.redirect(303, to ?? `${ORDERS_PATH}/${id}?done=${done}`);
    },
  });

  postForm(router, '/portfolio/orders/:id/decrease', {
    before,
    show: showOrder,
    async act(req, res, fields) {
      const text = textField(fields, 'remainingContracts') ?? '';
      if (!contractsText.safeParse(text).success) throw fieldError('remainingContracts', ORDER_SIZE);
      const { id } = await orders.decrease({ ...toChange(req, res), remaining: Number(text) });
      res.redirect(303, `${ORDERS_PATH}/${id}?done=decreased`);
    },
  });
}
