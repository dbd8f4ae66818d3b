import { keyChangeRoutes } from './api-keys/key-change-routes.js';
import { apiKeyReadRoutes, ownKeyRoute } from './api-keys/routes.js';
import { signInRoutes } from './identity/sign-in/sign-in-routes.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { healthRoutes } from './health/routes.js';
import { describeRoute, type DescribedRoute } from './core/reference/problem-examples.js';
import { documentationRoutes } from './mounts/documentation.js';
import { operatorRoutes } from './mounts/operator.js';
import { sessionRoutes } from './identity/organizations/routes.js';
import { accountRoutes, publicReadRoutes } from './mounts/trading.js';
import { scoresRoutes } from './trading/scores/routes.js';
import { usageRoutes } from './usage/routes.js';

/** Every route of the service, in reading order. A test compares this list with what is mounted. */
export const routeDescriptions: DescribedRoute[] = [
  ...usageRoutes,
  ...entitlementRoutes,
  ...publicReadRoutes,
  ...accountRoutes,
  ...scoresRoutes,
  ownKeyRoute,
  ...apiKeyReadRoutes,
  ...keyChangeRoutes,
  ...signInRoutes,
  ...sessionRoutes,
  ...operatorRoutes,
  ...healthRoutes,
  ...documentationRoutes,
].map(describeRoute);
