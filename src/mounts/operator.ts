import { Router } from 'express';
import { requireOperator } from '../accounts/identity/session/operator.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { auditLogRoutes } from '../dashboard/audit-log/operator/routes.js';
import { entitlementRoutes } from '../metering/entitlements/operator/routes.js';
import { memberRoutes } from '../accounts/identity/members/operator/routes.js';
import { organizationRoutes } from '../accounts/identity/organizations/operator/routes.js';
import { productRoutes } from '../metering/entitlements/products/routes.js';
import type { TradingContext } from '../markets/config.js';
import { reconciliationRoutes } from '../markets/live/routes.js';
import type { TradingServices } from '../markets/services/services.js';
import { tradingControlRoutes } from '../markets/risk/operator/routes.js';
import { backfillRoutes } from '../metering/backfills/routes.js';
import { operatorCorrectionRoutes } from '../metering/corrections/routes.js';
import { customerUsageRoutes } from '../metering/reports/operator/routes.js';
import { userRoutes } from '../accounts/identity/users/routes.js';

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

/** `/operator`: products, Organizations and their settings. Every PUT is idempotent and replaces in full. */
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
