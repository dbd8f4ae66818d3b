import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import express, { type Express } from 'express';
import helmet from 'helmet';
import { apiRoutes, type ApiServices } from './api.js';
import type { Context } from './context.js';
import { dashboardRoutes, type DashboardOptions } from './dashboard.js';
import { notFound, problemHandler } from './http/problem.js';
import { requestContext } from './http/request-context.js';
import { healthRoutes } from './health/routes.js';

/** The sitemap of the service: its faces in reading order. */
export function createApp(context: Context, services: ApiServices, options: DashboardOptions = {}): Express {
  const app = express();
  app.disable('x-powered-by');
  app.set('etag', false);
  app.set('query parser', 'simple');
  app.set('trust proxy', context.config.trustProxy);
  app.engine('ejs', ejs.renderFile);
  app.set('view engine', 'ejs');
  app.set('views', fileURLToPath(new URL('../views', import.meta.url)));
  app.use(requestContext(context));
  app.use(healthRoutes(context));
  app.use('/api', helmet(), apiRoutes(context, services));
  app.use(dashboardRoutes(context, options));
  app.use(notFound);
  app.use(problemHandler);
  return app;
}
