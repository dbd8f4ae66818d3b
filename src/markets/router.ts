import type { Request, Response, Router } from 'express';
import { createRouter } from '../core/http/router.js';
import { countRefusedCalls, keyGuards } from '../accounts/api-keys/guards.js';
import type { CallDeps } from '../accounts/api-keys/key-use.js';
import type { Context } from '../core/http/context.js';
import { isNavigation } from '../core/http/request.js';
import { unknownRoute } from '../core/http/unknown-route.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { placeOrderRoute } from './orders/order-routes.js';
import { changeOrderRoutes, tradeRoutes } from './orders/trade-routes.js';
import { readLayer } from './api/public-read.js';
import { forecastRoutes } from './api/forecast-routes.js';
import { limitSizings, marketRoutes } from './api/market-routes.js';
import { createSnapshotReads } from './api/snapshot-reads.js';
import { requireReady } from '../core/http/context.js';
import { jsonHeaders } from '../core/http/headers.js';
import { executionRoutes } from './execution/routes.js';
import { portfolioRoutes } from './portfolio/routes.js';
import { streamRoute } from './api/stream-routes.js';
import { scoresRoutes } from './scores/routes.js';
import type { TradingServices } from './services/services.js';
import { createStationList } from './api/station-json.js';

/** These cover everything below them. */
const publicReads = ['/markets', '/signals', '/forecast', '/stations', '/scores', '/stream'];

export const publicReadRoutes = [...marketRoutes, ...forecastRoutes, streamRoute];
const orderRoutes = [placeOrderRoute, ...tradeRoutes, ...changeOrderRoutes, ...portfolioRoutes];
/** Belongs to an Organization, although below a public path. */
const EXECUTION = '/scores/execution';

/** Portfolios and orders require an Organization's API key. */
export function tradingRoutes(context: Context, calls: CallDeps, trading: TradingServices): Router {
  const router = createRouter({ strict: false });
  const callLimit = keyGuards(context, calls).limitTo('trading', context.config.limits.tradingPerMinute);
  const deps = { ...context, ...calls, ...trading, paperCash: context.config.trading.paperCash };
  router.use(EXECUTION, requireReady(context.lifecycle), jsonHeaders);
  mountRoutes(router, '', executionRoutes, deps, () => [callLimit]);
  router.use(EXECUTION, countRefusedCalls(calls));
  const beforeRead = readLayer(context);
  router.use(publicReads, (req, res, next) => {
    if (!redirectToPage(req, res)) void beforeRead(req, res, next);
  });
  mountRoutes(router, '', [...publicReadRoutes, ...scoresRoutes], {
    ...trading,
    reads: createSnapshotReads({
      store: trading.snapshots,
      clock: context.clock,
      minutes: trading.minutes,
    }),
    readStations: createStationList(trading),
    sizingLimit: limitSizings(context),
  });
  router.use(publicReads, unknownRoute);
  router.use('/portfolio', (req, res, next) => {
    if (!redirectToPage(req, res)) next();
  });
  router.use(['/portfolio', '/trade', '/trades'], requireReady(context.lifecycle), jsonHeaders);
  mountRoutes(router, '', orderRoutes, deps, () => [callLimit]);
  router.use(['/portfolio', '/trade', '/trades'], countRefusedCalls(calls));
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
  // Rules out API clients without parsing their headers.
  if (!req.headers.accept?.includes('text/html') || page === undefined || req.path !== '/') return false;
  if (!isNavigation(req)) return false;
  res.setHeader('Vary', 'Accept');
  res.redirect(303, page);
  return true;
}
