import { Router } from 'express';
import { requireOperator } from '../auth/operator.js';
import { mountRoutes } from '../openapi/define-route.js';
import { auditLogRoutes } from './audit-log/routes.js';
import type { OperatorDeps } from './define-route.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { memberRoutes } from './members/routes.js';
import { organizationRoutes } from './organizations/routes.js';
import { productRoutes } from './products/routes.js';
import { reconciliationRoutes } from './trading/reconciliation-routes.js';
import { tradingControlRoutes } from './trading/routes.js';
import { userRoutes } from './users/routes.js';

export const operatorRoutes = [
  ...productRoutes,
  ...organizationRoutes,
  ...userRoutes,
  ...memberRoutes,
  ...entitlementRoutes,
  ...reconciliationRoutes,
  ...tradingControlRoutes,
  ...auditLogRoutes,
];

/** `/operator`: what there is, is declared here. Every PUT is idempotent and replaces in full. */
export function operatorRouter(deps: OperatorDeps): Router {
  const router = Router();
  router.use(requireOperator(deps), (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  return mountRoutes(router, '/operator', operatorRoutes, deps);
}
