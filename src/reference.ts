import { keyChangeRoutes } from './accounts/api-keys/key-change-routes.js';
import { apiKeyReadRoutes, ownKeyRoute } from './accounts/api-keys/routes.js';
import { signInRoutes } from './accounts/identity/sign-in/sign-in-routes.js';
import { entitlementRoutes } from './metering/entitlements/routes.js';
import { healthRoutes } from './health/routes.js';
import { describeRoute, type DescribedRoute } from './core/reference/problem-examples.js';
import { documentationRoutes } from './mounts/documentation.js';
import { auditLogRoutes } from './dashboard/audit-log/operator/routes.js';
import { operatorMarketRoutes } from './markets/product.js';
import { operatorMeteringRoutes } from './metering/product.js';
import { operatorAccountRoutes } from './mounts/operator.js';
import { sessionRoutes } from './accounts/identity/organizations/routes.js';
import { accountRoutes, publicReadRoutes } from './markets/router.js';
import { scoresRoutes } from './markets/scores/routes.js';
import { correctionRoutes } from './metering/corrections/routes.js';
import { usageReadRoutes } from './metering/reports/reading/routes.js';
import { reservationRoutes } from './metering/reservations/routes.js';
import { usageRoutes } from './metering/ingestion/routes.js';
import { deliveryRoutes } from './accounts/webhooks/delivery-routes.js';
import { webhookRoutes } from './accounts/webhooks/routes.js';

const marketRouteSet = new Set<object>([
  ...publicReadRoutes,
  ...accountRoutes,
  ...scoresRoutes,
  ...operatorMarketRoutes,
]);

const routes = [
  ...usageRoutes,
  ...usageReadRoutes,
  ...reservationRoutes,
  ...correctionRoutes,
  ...entitlementRoutes,
  ...publicReadRoutes,
  ...accountRoutes,
  ...scoresRoutes,
  ownKeyRoute,
  ...apiKeyReadRoutes,
  ...keyChangeRoutes,
  ...webhookRoutes,
  ...deliveryRoutes,
  ...signInRoutes,
  ...sessionRoutes,
  ...operatorAccountRoutes,
  ...operatorMeteringRoutes,
  ...operatorMarketRoutes,
  ...auditLogRoutes,
  ...healthRoutes,
  ...documentationRoutes,
];

/** Every route of the service, in reading order. A test compares this list with the mounted routes. */
export const routeDescriptions: DescribedRoute[] = routes.map(describeRoute);

export const describeWithoutMarkets = (): DescribedRoute[] =>
  routes.filter((route) => !marketRouteSet.has(route)).map(describeRoute);
