import { Router } from 'express';
import { requireOperator } from '../identity/session/operator.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { entitlementRoutes } from '../entitlements/operator/routes.js';
import { memberRoutes } from '../identity/members/operator/routes.js';
import { organizationRoutes } from '../identity/organizations/operator/routes.js';
import { productRoutes } from '../entitlements/products/routes.js';
import { reconciliationRoutes, type LiveDeps } from '../trading/live/routes.js';
import { tradingControlRoutes } from '../trading/risk/operator/routes.js';
import { customerUsageRoutes } from '../usage/operator/routes.js';
import { userRoutes } from '../identity/users/routes.js';

export const operatorRoutes = [
  ...productRoutes,
  ...organizationRoutes,
  ...userRoutes,
  ...memberRoutes,
  ...entitlementRoutes,
  ...customerUsageRoutes,
  ...reconciliationRoutes,
  ...tradingControlRoutes,
  ...auditLogRoutes,
];

/** `/operator`: what there is, is declared here. Every PUT is idempotent and replaces in full. */
export function operatorRouter(deps: LiveDeps): Router {
  const router = Router();
  router.use(requireOperator(deps), (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  return mountRoutes(router, '/operator', operatorRoutes, deps);
}
