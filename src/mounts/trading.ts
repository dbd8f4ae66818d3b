import { Router, type Request, type Response } from 'express';
import { countRefusedCalls, keyGuards, type ApiServices } from './api.js';
import type { TradingContext } from '../markets/config.js';
import { isNavigation } from '../core/http/request.js';
import { unknownRoute } from '../core/http/unknown-route.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { placeOrderRoute } from '../markets/orders/order-routes.js';
import { changeOrderRoutes, tradeRoutes } from '../markets/orders/trade-routes.js';
import { readLayer } from '../markets/api/public-read.js';
import { forecastRoutes } from '../markets/api/forecast-routes.js';
import { limitSizings, marketRoutes } from '../markets/api/market-routes.js';
import { createSnapshotReads } from '../markets/api/snapshot-reads.js';
import { requireReady } from '../core/http/context.js';
import { jsonHeaders } from '../core/http/headers.js';
import { executionRoutes } from '../markets/execution/routes.js';
import { portfolioRoutes } from '../markets/portfolio/routes.js';
import { streamRoute } from '../markets/api/stream-routes.js';
import { scoresRoutes } from '../markets/scores/routes.js';
import type { TradingServices } from '../markets/services/services.js';
import { createStationList } from '../markets/api/station-json.js';

/** Paths, with everything below them, that every caller may read. */
const publicReads = ['/markets', '/signals', '/forecast', '/stations', '/scores', '/stream'];

export const publicReadRoutes = [...marketRoutes, ...forecastRoutes, streamRoute];
const orderRoutes = [placeOrderRoute, ...tradeRoutes, ...changeOrderRoutes, ...portfolioRoutes];
/** Belongs to an Organization, although it is below a public path. */
const EXECUTION = '/scores/execution';

/** The trading API: reads without a credential; portfolios and orders with an Organization's API key. */
export function tradingRoutes(context: TradingContext, api: ApiServices, trading: TradingServices): Router {
  const router = Router();
  const callLimit = keyGuards(context, api).limitTo('trading', context.config.limits.tradingPerMinute);
  const deps = { ...context, ...api, ...trading, paperCash: context.config.trading.paperCash };
  router.use(EXECUTION, requireReady(context.lifecycle), jsonHeaders);
  mountRoutes(router, '', executionRoutes, deps, () => [callLimit]);
  router.use(EXECUTION, countRefusedCalls(api));
  const beforeRead = readLayer(context);
  router.use(publicReads, (req, res, next) => {
    if (!redirectToPage(req, res)) void beforeRead(req, res, next);
  });
  mountRoutes(router, '', [...publicReadRoutes, ...scoresRoutes], {
    ...trading,
    reads: createSnapshotReads({ store: trading.snapshots, clock: context.clock }),
    readStations: createStationList(trading),
    sizingLimit: limitSizings(context),
  });
  router.use(publicReads, unknownRoute);
  router.use('/portfolio', (req, res, next) => {
    if (!redirectToPage(req, res)) next();
  });
  router.use(['/portfolio', '/trade', '/trades'], requireReady(context.lifecycle), jsonHeaders);
  mountRoutes(router, '', orderRoutes, deps, () => [callLimit]);
  router.use(['/portfolio', '/trade', '/trades'], countRefusedCalls(api));
  return router;
}

const pages: Record<string, string> = {
  '/markets': '/dashboard/markets',
  '/signals': '/dashboard/markets',
  '/scores': '/dashboard/scores',
  '/portfolio': '/dashboard/portfolio',
};

function redirectToPage(req: Request, res: Response): boolean {
  const page = pages[req.baseUrl];
  // Recognizes programs without parsing their header.
  if (!req.headers.accept?.includes('text/html') || page === undefined || req.path !== '/') return false;
  if (!isNavigation(req)) return false;
  res.setHeader('Vary', 'Accept');
  res.redirect(303, page);
  return true;
}
