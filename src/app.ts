import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import express, { type Express } from 'express';
import { apiRoutes, type ApiServices } from './mounts/api.js';
import type { Context } from './core/http/context.js';
import { dashboardRoutes, pagePaths, type DashboardOptions } from './mounts/dashboard.js';
import { healthRoutes } from './health/routes.js';
import { requireReady } from './core/http/availability.js';
import { jsonHeaders } from './core/http/json-headers.js';
import { setOwnOrigin } from './core/http/own-origin.js';
import { rememberClientAddress } from './core/http/client-address.js';
import { notFound, problemHandler } from './core/http/problem.js';
import { requestContext } from './core/http/request-context.js';
import { requireWholeAddress } from './core/http/request-line.js';
import { documentationRoutes } from './mounts/documentation.js';
import { operatorRoutes } from './mounts/operator.js';
import { tradingRoutes } from './mounts/trading.js';
import type { TradingServices } from './trading/services/services.js';

/** The sitemap of the service: its faces in reading order. The API goes first, because it is called the most. */
export function createApp(
  context: Context,
  services: ApiServices,
  trading: TradingServices,
  options: DashboardOptions = {},
): Express {
  const app = express();
  const ready = requireReady(context.lifecycle);
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.set('trust proxy', context.config.trustProxy);
  app.engine('ejs', ejs.renderFile);
  app.set('view engine', 'ejs');
  app.set('views', fileURLToPath(new URL('../views', import.meta.url)));
  rememberClientAddress(app);
  setOwnOrigin(app, context.config);
  app.use(requestContext(context, (hashedSecret) => services.keys.identify(hashedSecret)));
  // Pages have theirs behind their headers, so that it ends in a page.
  app.use((req, res, next) =>
    pagePaths.some((path) => req.url.startsWith(path)) ? next() : requireWholeAddress(req, res, next),
  );
  app.use('/api', apiRoutes(context, services));
  app.use(tradingRoutes(context, services, trading));
  app.use(healthRoutes(context));
  app.use(documentationRoutes(context));
  app.use(ready);
  app.use(dashboardRoutes(context, trading, options));
  app.use('/operator', jsonHeaders, operatorRoutes(context, trading));
  app.use(notFound);
  app.use(problemHandler);
  return app;
}
