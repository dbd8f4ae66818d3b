import type { Router } from 'express';
import { countRefusedCalls } from '../accounts/api-keys/guards.js';
import type { CallDeps } from '../accounts/api-keys/key-use.js';
import { answerArchived, createServiceAccess, serviceGuards } from '../accounts/service-keys/access.js';
import { portalRoutes } from '../accounts/portal/routes.js';
import { createRouter } from '../core/http/router.js';
import type { Context } from '../core/http/context.js';
import { mountRoutes } from '../core/reference/define-route.js';
import type { RunningProduct } from '../product.js';
import { readyForJson } from './api.js';

/** For the vendor, who acts for any Organization with a service key. */
export function serviceRoutes(context: Context, calls: CallDeps, products: RunningProduct[]): Router {
  const router = createRouter();
  router.use(readyForJson(context));
  const access = createServiceAccess(context, calls);
  const guards = serviceGuards(context, calls, access);
  // The busiest routes come first, because Express tries each route's pattern in turn.
  for (const { mountService } of products) mountService?.(router, guards, access);
  const portalLimit = guards.limitTo('portal', context.config.limits.dashboardPerMinute);
  mountRoutes(router, '/service', portalRoutes, { ...context, ...calls }, () => [portalLimit]);
  router.use(countRefusedCalls(calls), answerArchived);
  return router;
}
