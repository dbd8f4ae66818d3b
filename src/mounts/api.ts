import type { RequestHandler, Router } from 'express';
import { createRouter } from '../core/http/router.js';
import { countRefusedCalls, keyGuards } from '../accounts/api-keys/guards.js';
import type { CallDeps } from '../accounts/api-keys/key-use.js';
import { ownKeyRoute } from '../accounts/api-keys/routes.js';
import { type Context, requireReady } from '../core/http/context.js';
import { jsonHeaders } from '../core/http/headers.js';
import { mountRoutes } from '../core/reference/define-route.js';
import type { RunningProduct } from '../product.js';

/** Keep the middleware layers few: each costs as much as checking the key. */
export function apiRoutes(context: Context, calls: CallDeps, products: RunningProduct[]): Router {
  const router = createRouter({ strict: false });
  router.use(readyForJson(context));
  const { guard, limitTo } = keyGuards(context, calls);
  for (const { mountApi } of products) mountApi?.(router, limitTo);
  mountRoutes(router, '/api', [ownKeyRoute], { ...context, ...calls }, () => [guard]);
  router.use(countRefusedCalls(calls));
  return router;
}

export function readyForJson({ lifecycle }: Context): RequestHandler {
  const ready = requireReady(lifecycle);
  return (req, res, next) =>
    ready(req, res, (error?: unknown) => {
      if (error) next(error);
      else void jsonHeaders(req, res, next);
    });
}
