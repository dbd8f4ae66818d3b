import type { Router } from 'express';
import { createRouter } from '../core/http/router.js';
import { memberRoutes } from '../accounts/identity/members/operator/routes.js';
import { organizationRoutes } from '../accounts/identity/organizations/operator/routes.js';
import { requireOperator } from '../accounts/identity/session/operator.js';
import { singleSignOnRoutes } from '../accounts/identity/single-sign-on/operator-routes.js';
import { userRoutes } from '../accounts/identity/users/routes.js';
import { serviceKeyRoutes } from '../accounts/service-keys/operator-routes.js';
import { operatorPortalRoutes } from '../accounts/portal/routes.js';
import { operatorWebhookRoutes } from '../accounts/webhooks/operator-routes.js';
import { createWebhookSchemas } from '../accounts/webhooks/schema.js';
import type { Context } from '../core/http/context.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import type { RunningProduct } from '../product.js';
import { webhookTypes } from '../products.js';

const operatorAccountRoutes = [
  ...organizationRoutes,
  ...userRoutes,
  ...singleSignOnRoutes,
  ...memberRoutes,
  ...serviceKeyRoutes,
  ...operatorPortalRoutes,
  ...operatorWebhookRoutes(createWebhookSchemas(webhookTypes)),
  ...auditLogRoutes,
];

/** Every PUT is idempotent and replaces the whole resource. */
export function operatorRouter(context: Context, products: RunningProduct[]): Router {
  const router = createRouter({ strict: false });
  router.use(requireOperator(context), (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  mountRoutes(router, '/operator', operatorAccountRoutes, context);
  for (const { mountOperator } of products) mountOperator(router);
  return router;
}
