import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express';
import { createRouter } from './core/http/router.js';
import { knownHashedSecret, type KeyReader } from './accounts/api-keys/bearer-key.js';
import { requireReady, type Context } from './core/http/context.js';
import {
  rememberClientAddress,
  requestContext,
  type Caller,
  setClock,
  setOwnOrigin,
  requireWholeAddress,
} from './core/http/request.js';
import { jsonHeaders } from './core/http/headers.js';
import { accountErrorTitles, accountStatuses } from './accounts/errors.js';
import { commonStatuses, type StatusByCode } from './core/errors.js';
import { setErrorStatuses } from './core/http/problem.js';
import { unknownRoute } from './core/http/unknown-route.js';
import { pageErrorHandler } from './core/pages/error-page.js';
import { sendFavicon } from './core/pages/layout.js';
import { mountRoutes } from './core/reference/define-route.js';
import { createFrame } from './dashboard/frame.js';
import { createReadiness, type ReadinessWatch } from './health/readiness.js';
import { healthRoutes } from './health/routes.js';
import {
  createSessionReader,
  type SessionPerson,
  type SessionPrincipal,
} from './accounts/identity/session/session.js';
import { sessionCookie } from './accounts/identity/session/session-cookie.js';
import { apiRoutes } from './mounts/api.js';
import { dashboardRoutes, type DashboardOptions } from './mounts/dashboard.js';
import { documentationRouter } from './mounts/documentation.js';
import { operatorRouter } from './mounts/operator.js';
import { portalRouter } from './mounts/portal.js';
import { serviceRoutes } from './mounts/service.js';
import { createOwnValuesReader } from './mounts/own-values.js';
import type { RunningProduct } from './product.js';
import type { Running } from './products.js';

/** The API is mounted first because it gets the most requests. */
export function createApp(
  context: Context,
  { products, services }: Running,
  options: DashboardOptions = {},
  readiness: ReadinessWatch = createReadiness(context),
): Express {
  const app = express();
  const ready = requireReady(context.lifecycle);
  // Without configured keys, sessions last until the process ends.
  const sessionKeys = context.config.sessionKeys ?? [randomBytes(32).toString('hex')];
  app.disable('x-powered-by');
  app.enable('strict routing');
  app.enable('case sensitive routing');
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.set('trust proxy', context.config.trustProxy);
  setErrorStatuses(
    app,
    Object.assign(
      {},
      commonStatuses,
      accountStatuses,
      ...products.map(({ errors }) => errors),
    ) as StatusByCode,
  );
  app.engine('ejs', ejs.renderFile);
  app.set('view engine', 'ejs');
  app.set('views', fileURLToPath(new URL('../views', import.meta.url)));
  rememberClientAddress(app);
  setOwnOrigin(app, context.config);
  setClock(app, context.clock);
  app.use(requestContext(context, callerOf(services.keys)));
  app.use(requireWholeAddress);
  app.use('/api', apiRoutes(context, services, products));
  app.use('/service', serviceRoutes(context, services, products));
  for (const { router } of products) if (router) app.use(router);
  app.use(mountRoutes(createRouter(), '', healthRoutes, { ...context, readiness }));
  app.use(
    documentationRouter(context, {
      describeService: () => describe(products),
      session: sessionCookie(sessionKeys),
      readOwnValues: createOwnValuesReader({
        ...context,
        readSession: createSessionReader(context),
        parts: products.map(({ readOwnPart }) => readOwnPart),
      }),
    }),
  );
  app.use('/favicon.ico', jsonHeaders, sendFavicon);
  app.use(ready);
  const readFrame = createFrame(context, products);
  app.use('/portal', portalRouter(context, { products, services }));
  app.use(dashboardRoutes(context, { products, services }, sessionKeys, readFrame, options));
  app.use('/operator', jsonHeaders, operatorRouter(context, products));
  app.use(unknownRoute);
  const explain: ErrorRequestHandler = (error, _req, _res, _next) => readiness.explain(error);
  app.use(explain);
  app.use(pageErrorHandler(context, readFrame, accountErrorTitles));
  return app;
}

/** Health and metrics alone have a socket that callers cannot use up. */
export function healthApp(app: Express): Express {
  const paths = new Set<string>(healthRoutes.map(({ path }) => path));
  const health = express();
  health.disable('x-powered-by');
  health.use((req, res, next) => {
    if (paths.has(req.path)) app(req, res, next);
    else res.sendStatus(404);
  });
  return health;
}

/** Imported on first use, to keep startup fast. */
async function describe(products: readonly RunningProduct[]) {
  const { describeService } = await import('./reference.js');
  return describeService(products);
}

function callerOf(keys: KeyReader) {
  return (req: Request, res: Response): Caller => {
    const hashedSecret = knownHashedSecret(req);
    if (hashedSecret !== undefined) return { ...keys.identify(hashedSecret) };
    const { person, session } = res.locals as { person?: SessionPerson; session?: SessionPrincipal };
    return person ? { orgId: session?.orgId, userId: person.userId } : {};
  };
}
