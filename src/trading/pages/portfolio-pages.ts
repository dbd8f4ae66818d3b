import type { Router } from 'express';
import { mayManage } from '../../api-keys/views.js';
import { sessionOf } from '../../identity/session/session.js';
import type { TradingContext } from '../config.js';
import { originOf } from '../../core/http/own-origin.js';
import { renderPage } from '../../core/pages/layout.js';
import { pageRouter } from '../../core/pages/page-router.js';
import { readSwitch } from '../risk/switches.js';
import type { TradingServices } from '../services/services.js';
import { readCurve } from '../portfolio/portfolio-history.js';
import { readPortfolio, type PortfolioDeps } from '../portfolio/portfolio.js';
import { readPageQuery } from './portfolio-pages-input.js';
import { addOrderPages } from './portfolio-pages-orders.js';
import { addSalePages } from './portfolio-pages-sale.js';
import { listOrders } from '../portfolio/queries-orders.js';
import { listWords } from '../portfolio/queries-history.js';
import { toVenueView } from './portfolio-view-venue.js';
import { toCurveView } from './portfolio-view-curve.js';
import { toOrderView, toSettlementView } from './portfolio-view-orders.js';
import { PORTFOLIO_PATH, toModeTabs } from './portfolio-view-text.js';
import { toPortfolioView } from './portfolio-view.js';
import { curlOfFirstTrade } from './portfolio-view-first-trade.js';

/** What the first page shows of the lists that have pages of their own. */
const RECENT = 5;

/** `/dashboard/portfolio`: what the Organization holds and how it came to it, for every role. */
export function portfolioPages(context: TradingContext, trading: TradingServices): Router {
  const { db, clock, config } = context;
  const { snapshots } = trading;
  const deps: PortfolioDeps = { db, clock, snapshots, paperCash: config.trading.paperCash };
  const router = pageRouter();

  router.get('/portfolio', async (req, res) => {
    const { orgId, role } = sessionOf(res);
    const { mode, range } = readPageQuery(req);
    const portfolio = await readPortfolio(deps, orgId, mode);
    const now = new Date(clock.now());
    const [tradingSwitch, curve, orders, words] = await Promise.all([
      readSwitch(db.orm, orgId),
      readCurve(db.orm, orgId, portfolio, range, now),
      listOrders(db.orm, orgId, { mode, afterId: undefined, limit: RECENT }),
      listWords(db.orm, orgId, { mode, after: undefined, limit: RECENT }),
    ]);
    const snapshot = snapshots.current;
    const canTrade = mayManage(role);
    await renderPage(
      context,
      req,
      res,
      { view: 'portfolio/portfolio', title: 'Portfolio', section: 'portfolio' },
      {
        modes: toModeTabs(PORTFOLIO_PATH, mode),
        portfolio: toPortfolioView(portfolio, { snapshot, sources: snapshots.sources, now }, canTrade),
        curve: toCurveView(curve, { mode, range }),
        orders: orders.map((order) => toOrderView(order, snapshot)),
        words: words.map((word) => toSettlementView(word, snapshot)),
        tradingSwitch,
        venue: mode === 'live' ? toVenueView(trading.live?.reportOf(orgId)) : undefined,
        query: mode === 'paper' ? '' : `?mode=${mode}`,
        firstTrade: curlOfFirstTrade(originOf(req), snapshot),
      },
    );
  });

  addOrderPages(router, context, trading);
  addSalePages(router, context, trading);
  return router;
}
