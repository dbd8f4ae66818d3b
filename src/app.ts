import express, { type Express } from 'express';
import helmet from 'helmet';
import { apiRoutes, type ApiServices } from './api.js';
import type { Context } from './context.js';
import { requireReady } from './http/availability.js';
import { notFound, problemHandler } from './http/problem.js';
import { requestContext } from './http/request-context.js';
import { healthRoutes } from './health/routes.js';
import { documentationRoutes } from './openapi/routes.js';

/** For answers that are read by programs: nothing in them may ever be shown as a page. */
const jsonHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: { defaultSrc: ["'none'"], frameAncestors: ["'none'"] },
  },
});

/** The sitemap of the service: its faces in reading order. */
export function createApp(context: Context, services: ApiServices): Express {
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.set('trust proxy', context.config.trustProxy);
  app.use(requestContext(context));
  app.use(healthRoutes(context));
  app.use(documentationRoutes());
  app.use(requireReady(context.lifecycle));
  app.use('/api', jsonHeaders, apiRoutes(context, services));
  app.use(notFound);
  app.use(problemHandler);
  return app;
}
