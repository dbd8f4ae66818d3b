import { Router } from 'express';
import { requireOperator } from '../identity/session/operator.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { entitlementRoutes } from '../entitlements/operator/routes.js';
import { memberRoutes } from '../identity/members/operator/routes.js';
import { organizationRoutes } from '../identity/organizations/operator/routes.js';
import { productRoutes } from '../entitlements/products/routes.js';
import type { TradingContext } from '../trading/config.js';
import { reconciliationRoutes } from '../trading/live/routes.js';
import type { TradingServices } from '../trading/services/services.js';
import { tradingControlRoutes } from '../trading/risk/operator/routes.js';
import { backfillRoutes } from '../usage/backfills/routes.js';
import { operatorCorrectionRoutes } from '../usage/corrections/routes.js';
import { customerUsageRoutes } from '../usage/operator/routes.js';
import { userRoutes } from '../identity/users/routes.js';

export const operatorMarketRoutes = [...reconciliationRoutes, ...tradingControlRoutes];

const ownRoutes = [
  ...productRoutes,
  ...organizationRoutes,
  ...userRoutes,
  ...memberRoutes,
  ...entitlementRoutes,
  ...customerUsageRoutes,
  ...operatorCorrectionRoutes,
  ...backfillRoutes,
];

export const operatorRoutes = [...ownRoutes, ...operatorMarketRoutes, ...auditLogRoutes];

/** `/operator`: what there is, is declared here. Every PUT is idempotent and replaces in full. */
export function operatorRouter(context: TradingContext, trading: TradingServices | undefined): Router {
  const router = Router();
  router.use(requireOperator(context), (_req, res, next) => {
    res.setHeader('Cache-Control', 'no-store');
    next();
  });
  mountRoutes(router, '/operator', [...ownRoutes, ...auditLogRoutes], context);
  if (trading) mountRoutes(router, '/operator', operatorMarketRoutes, { ...context, ...trading });
  return router;
}
