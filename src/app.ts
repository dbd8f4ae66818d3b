import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import express, { Router, type Express } from 'express';
import { apiRoutes, type ApiServices } from './api.js';
import type { Context } from './context.js';
import { dashboardRoutes, pagePaths, type DashboardOptions } from './dashboard.js';
import { healthRoutes } from './health/routes.js';
import { requireReady } from './http/availability.js';
import { jsonHeaders } from './http/json-headers.js';
import { setOwnOrigin } from './http/own-origin.js';
import { rememberClientAddress } from './http/client-address.js';
import { notFound, problemHandler } from './http/problem.js';
import { requestContext } from './http/request-context.js';
import { requireWholeAddress } from './http/request-line.js';
import { mountRoutes } from './openapi/define-route.js';
import { documentationRouter } from './openapi/routes.js';
import { operatorRouter } from './operator/routes.js';
import { tradingRoutes } from './trading.js';
import type { TradingServices } from './trading/services.js';

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
  app.use(mountRoutes(Router(), '', healthRoutes, context));
  app.use(documentationRouter(context, listRoutes));
  app.use(ready);
  app.use(dashboardRoutes(context, trading, options));
  app.use('/operator', jsonHeaders, operatorRouter({ ...context, ...trading }));
  app.use(notFound);
  app.use(problemHandler);
  return app;
}

/** Loaded with the first request for the document, so that a start does not wait for it. */
const listRoutes = async () => (await import('./route-descriptions.js')).routeDescriptions;
