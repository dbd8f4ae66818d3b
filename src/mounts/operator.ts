import { Router } from 'express';
import { requireOperator } from '../identity/session/operator.js';
import type { Context } from '../core/http/context.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { entitlementRoutes } from '../entitlements/operator/routes.js';
import { memberRoutes } from '../identity/members/operator/routes.js';
import { organizationRoutes } from '../identity/organizations/operator/routes.js';
import { productRoutes } from '../entitlements/products/routes.js';
import type { TradingServices } from '../trading/services/services.js';
import { reconciliationRoutes } from '../trading/live/routes.js';
import { tradingControlRoutes } from '../trading/risk/operator/routes.js';
import { userRoutes } from '../identity/users/routes.js';

/** `/operator`: whoever runs the service declares here what there is. Every PUT is idempotent and replaces in full. */
export function operatorRoutes(context: Context, { live }: Pick<TradingServices, 'live'>): Router {
  const router = Router();
  router.use(requireOperator(context), (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  router.use(productRoutes(context));
  router.use(organizationRoutes(context));
  router.use(userRoutes(context));
  router.use(memberRoutes(context));
  router.use(entitlementRoutes(context));
  router.use(reconciliationRoutes(context, live));
  router.use(tradingControlRoutes(context));
  router.use(auditLogRoutes(context));
  return router;
}
