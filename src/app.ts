import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import express, { Router, type Express, type Request, type Response } from 'express';
import { knownHashedSecret } from './api-keys/bearer-key.js';
import type { KeyReader } from './api-keys/key-reader.js';
import { requireReady } from './core/http/availability.js';
import { rememberClientAddress, requestContext, type Caller } from './core/http/request-context.js';
import { jsonHeaders } from './core/http/json-headers.js';
import { setOwnOrigin } from './core/http/own-origin.js';
import { notFound, problemHandler } from './core/http/problem.js';
import { requireWholeAddress } from './core/http/request-line.js';
import { mountRoutes } from './core/reference/define-route.js';
import { healthRoutes } from './health/routes.js';
import type { SessionPerson, SessionPrincipal } from './identity/session/session.js';
import { apiRoutes, type ApiServices } from './mounts/api.js';
import { dashboardRoutes, pagePaths, type DashboardOptions } from './mounts/dashboard.js';
import { documentationRouter } from './mounts/documentation.js';
import { operatorRouter } from './mounts/operator.js';
import { tradingRoutes } from './mounts/trading.js';
import type { TradingContext } from './trading/config.js';
import type { TradingServices } from './trading/services/services.js';

/** The sitemap of the service: its faces in reading order. The API goes first, because it is called the most. */
export function createApp(
  context: TradingContext,
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
  app.use(requestContext(context, callerOf(services.keys)));
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
const listRoutes = async () => (await import('./reference.js')).routeDescriptions;

function callerOf(keys: KeyReader) {
  return (req: Request, res: Response): Caller => {
    const hashedSecret = knownHashedSecret(req);
    if (hashedSecret !== undefined) return { ...keys.identify(hashedSecret) };
    const { person, session } = res.locals as { person?: SessionPerson; session?: SessionPrincipal };
    return person ? { orgId: session?.orgId, userId: person.userId } : {};
  };
}
