import { keyChangeRoutes } from './api-keys/key-change-routes.js';
import { apiKeyReadRoutes, ownKeyRoute } from './api-keys/routes.js';
import { signInRoutes } from './identity/sign-in/sign-in-routes.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { healthRoutes } from './health/routes.js';
import { describeRoute, type DescribedRoute } from './core/reference/problem-examples.js';
import { documentationRoutes } from './mounts/documentation.js';
import { operatorMarketRoutes, operatorRoutes } from './mounts/operator.js';
import { sessionRoutes } from './identity/organizations/routes.js';
import { accountRoutes, publicReadRoutes } from './mounts/trading.js';
import { scoresRoutes } from './trading/scores/routes.js';
import { correctionRoutes } from './usage/corrections/routes.js';
import { usageReadRoutes } from './usage/reading/routes.js';
import { reservationRoutes } from './usage/reservations/routes.js';
import { usageRoutes } from './usage/routes.js';
import { deliveryRoutes } from './webhooks/delivery-routes.js';
import { webhookRoutes } from './webhooks/routes.js';

const ofMarkets = new Set<object>([
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
  ...operatorRoutes,
  ...healthRoutes,
  ...documentationRoutes,
];

/** Every route of the service, in reading order. A test compares this list with what is mounted. */
export const routeDescriptions: DescribedRoute[] = routes.map(describeRoute);

/** What a service without markets answers. */
export const describeWithoutMarkets = (): DescribedRoute[] =>
  routes.filter((route) => !ofMarkets.has(route)).map(describeRoute);
