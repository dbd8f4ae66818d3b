import { Router, type RequestHandler } from 'express';
import { forgetRefusedKeys, type ApiServices } from './api.js';
import { readHashedSecret } from '../api-keys/bearer-key.js';
import type { Context } from '../core/http/context.js';
import { notFound } from '../core/http/problem.js';
import { addOrderRoutes } from '../trading/orders/routes.js';
import { readLayer } from '../trading/reads/read-layer.js';
import { addReadRoutes } from '../trading/reads/routes.js';
import { requireReady } from '../core/http/availability.js';
import { jsonHeaders } from '../core/http/json-headers.js';
import { perKeyLimit, unknownKeyGuard } from '../core/http/rate-limit.js';
import { addPortfolioRoutes } from '../trading/portfolio/routes.js';
import { addStreamRoute } from '../trading/stream/routes.js';
import { addScoresRoute } from '../trading/scores/routes.js';
import type { TradingServices } from '../trading/services/services.js';

/** Where everybody may read, and what lies below. */
const publicReads = ['/markets', '/signals', '/forecast', '/stations', '/scores', '/stream'];

/** The trading API: reads for everybody, portfolios and orders for an Organization's API key. */
export function tradingRoutes(context: Context, api: ApiServices, trading: TradingServices): Router {
  const router = Router();
  router.use(publicReads, readLayer(context));
  addReadRoutes(router, context, trading);
  addStreamRoute(router, trading);
  addScoresRoute(router, trading.scoreReport);
  router.use(publicReads, notFound);
  router.use(['/portfolio', '/trade', '/trades'], requireReady(context.lifecycle), jsonHeaders);
  const callLimit = keyLimit(context, api);
  addPortfolioRoutes(router, {
    ...context,
    ...api,
    ...trading,
    paperCash: context.config.trading.paperCash,
    callLimit,
  });
  addOrderRoutes(router, { ...api, ...trading, callLimit });
  router.use(['/portfolio', '/trade', '/trades'], forgetRefusedKeys(api.keyUse));
  return router;
}

/** Calls a minute of one key, about its portfolio and its orders together. */
function keyLimit(context: Context, { keys, keyUse }: ApiServices): RequestHandler {
  const guard = unknownKeyGuard(context, {
    keyOf: readHashedSecret,
    hasSeen: (hashedSecret) => keyUse.hasSeen(hashedSecret),
    authenticate: (hashedSecret) => keys.authenticate(hashedSecret, null),
  });
  const limit = perKeyLimit(context, {
    name: 'trading',
    perMinute: context.config.limits.tradingPerMinute,
    keyOf: readHashedSecret,
  });
  return (req, res, next) => guard(req, res, () => limit(req, res, next));
}
