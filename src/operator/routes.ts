import { Router } from 'express';
import { requireOperator } from '../auth/operator.js';
import type { Context } from '../context.js';
import { auditLogRoutes } from './audit-log/routes.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { memberRoutes } from './members/routes.js';
import { organizationRoutes } from './organizations/routes.js';
import { productRoutes } from './products/routes.js';
import type { TradingServices } from '../trading/services.js';
import { reconciliationRoutes } from '../trading/live/routes.js';
import { tradingControlRoutes } from './trading/routes.js';
import { userRoutes } from './users/routes.js';

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
