import type { Request, Response, Router } from 'express';
import { AppError } from '../../core/errors.js';
import type { Context } from '../../core/http/context.js';
import { readPathId } from '../../core/http/path-id.js';
import { toAddress, toPager } from '../../core/pages/address.js';
import { sendCsv } from '../../core/pages/csv.js';
import { fieldError, formRoute, newForm, textField, type FormState } from '../../core/pages/form.js';
import { renderPage } from '../../core/pages/layout.js';
import { byMember } from '../../identity/session/authority.js';
import { requireRole, sessionOf } from '../../identity/session/session.js';
import { isManager, managingRoles } from '../../organizations/table.js';
import { contractsText, ORDER_SIZE } from '../market/contracts.js';
import type { OrderChange } from '../orders/order.js';
import { listSettlementEvents } from '../portfolio/history-queries.js';
import { findOrder, listFills, listOrders, listPostings } from '../portfolio/order-queries.js';
import { exportTrades, tradeColumns } from '../portfolio/trades-csv.js';
import type { TradingServices } from '../services/services.js';
import {
  ORDERS_PATH,
  PORTFOLIO_PATH,
  SETTLEMENTS_PATH,
  encodeSettlementCursor,
  readOrderCursor,
  readPageQuery,
  readSettlementCursor,
  toModeTabs,
} from './addresses.js';
import { describePlaced, toOrderPage, toOrderView, toSettlementView } from './order-view.js';

const PAGE_SIZE = 25;
/** Far more than a book has levels. */
const MAX_FILLS = 500;

const section = 'portfolio';

const changed = {
  cancelled: 'What was not filled is out of the book.',
  cancelling: 'The order is to leave the book. What was traded before that is still being read.',
  decreased: 'The order is for fewer contracts now, at the same place in the queue.',
};

const repeated = 'This had been sent before, and was done once. Nothing was ordered again.';

/** The lists of orders and of settlements, an order's own page, and all trades as a file. */
export function addOrderPages(
  router: Router,
  context: Context,
  { snapshots, orders }: Pick<TradingServices, 'snapshots' | 'orders'>,
): void {
  const { db, clock, log } = context;

  router.get('/portfolio/orders', async (req, res) => {
    const { orgId } = sessionOf(res);
    const { mode, cursor } = readPageQuery(req);
    const afterId = readOrderCursor(cursor);
    const found = await listOrders(db.orm, orgId, { mode, afterId, limit: PAGE_SIZE + 1 });
    const page = found.slice(0, PAGE_SIZE);
    const nextCursor = found.length > PAGE_SIZE ? page.at(-1)!.id : undefined;
    const query = { mode: mode === 'paper' ? undefined : mode };
    await renderPage(
      context,
      req,
      res,
      { view: 'portfolio/orders', title: 'Orders', section },
      {
        mode,
        modes: toModeTabs(ORDERS_PATH, mode),
        orders: page.map((order) => toOrderView(order, snapshots.current)),
        pager: toPager(ORDERS_PATH, query, { cursor, nextCursor }),
        csvHref: toAddress(`${PORTFOLIO_PATH}/trades.csv`, query),
        portfolioHref: toAddress(PORTFOLIO_PATH, query),
      },
    );
  });

  async function showOrder(req: Request, res: Response, form: FormState): Promise<void> {
    const { orgId, role } = sessionOf(res);
    const id = readPathId(req, 'id', 'order');
    const order = await findOrder(db.orm, orgId, id);
    if (!order) throw new AppError('not_found', 'There is no such order.');
    const [fills, postings] = await Promise.all([
      listFills(db.orm, orgId, id, MAX_FILLS),
      listPostings(db.orm, orgId, id, MAX_FILLS),
    ]);
    const notices = { placed: describePlaced(order), repeated, ...changed };
    await renderPage(
      context,
      req,
      res,
      { view: 'portfolio/order', title: 'Order', section, notices },
      toOrderPage(order, fills, postings, {
        snapshot: snapshots.current,
        form,
        mayChange: isManager(role) && order.status === 'resting',
      }),
    );
  }

  const toChange = (req: Request, res: Response): OrderChange => ({
    orgId: sessionOf(res).orgId,
    id: readPathId(req, 'id', 'order'),
    by: byMember(res),
  });

  router.get('/portfolio/orders/:id', (req, res) => showOrder(req, res, newForm()));

  router.post(
    '/portfolio/orders/:id/cancel',
    requireRole(...managingRoles),
    formRoute({
      show: showOrder,
      async act(req, res) {
        const { id, status } = await orders.cancel(toChange(req, res));
        res.redirect(303, `${ORDERS_PATH}/${id}?done=${status === 'resting' ? 'cancelling' : 'cancelled'}`);
      },
    }),
  );

  router.post(
    '/portfolio/orders/:id/decrease',
    requireRole(...managingRoles),
    formRoute({
      show: showOrder,
      async act(req, res, fields) {
        const text = textField(fields, 'remainingContracts') ?? '';
        if (!contractsText.safeParse(text).success) throw fieldError('remainingContracts', ORDER_SIZE);
        const { id } = await orders.decrease({ ...toChange(req, res), remaining: Number(text) });
        res.redirect(303, `${ORDERS_PATH}/${id}?done=decreased`);
      },
    }),
  );

  router.get('/portfolio/settlements', async (req, res) => {
    const { orgId } = sessionOf(res);
    const { mode, cursor } = readPageQuery(req);
    const after = readSettlementCursor(cursor);
    const found = await listSettlementEvents(db.orm, orgId, { mode, after, limit: PAGE_SIZE + 1 });
    const settlements = found.slice(0, PAGE_SIZE);
    const nextCursor = found.length > PAGE_SIZE ? encodeSettlementCursor(settlements.at(-1)!) : undefined;
    const query = { mode: mode === 'paper' ? undefined : mode };
    await renderPage(
      context,
      req,
      res,
      { view: 'portfolio/settlements', title: 'Settlements', section },
      {
        mode,
        modes: toModeTabs(SETTLEMENTS_PATH, mode),
        settlements: settlements.map((each) => toSettlementView(each, snapshots.current)),
        pager: toPager(SETTLEMENTS_PATH, query, { cursor, nextCursor }),
        portfolioHref: toAddress(PORTFOLIO_PATH, query),
      },
    );
  });

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
