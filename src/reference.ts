import { apiKeyDescriptions } from './api-keys/description.js';
import { signInDescriptions } from './identity/sign-in/description.js';
import { entitlementDescriptions } from './entitlements/description.js';
import { healthDescriptions } from './health/description.js';
import { auditLogDescriptions } from './dashboard/audit-log/operator/description.js';
import { grantDescriptions } from './entitlements/operator/description.js';
import { memberDescriptions } from './identity/members/operator/description.js';
import { organizationDescriptions } from './identity/organizations/operator/description.js';
import { productDescriptions } from './entitlements/products/description.js';
import { tradingControlDescriptions } from './trading/risk/operator/description.js';
import { userDescriptions } from './identity/users/description.js';
import { sessionDescriptions } from './identity/organizations/description.js';
import { marketDataDescriptions } from './trading/reads/description.js';
import { orderDescriptions } from './trading/orders/description.js';
import { portfolioDescriptions } from './trading/portfolio/description.js';
import { reconciliationDescriptions } from './trading/live/description.js';
import { usageDescriptions } from './usage/description.js';
import { scoresDescriptions } from './trading/scores/description.js';
import type { RouteDescription } from './core/reference/description.js';
import { documentationDescriptions } from './core/reference/own-description.js';

/** Every route of the service, in reading order. A test compares this list with what is mounted. */
export const routeDescriptions: RouteDescription[] = [
  ...usageDescriptions,
  ...entitlementDescriptions,
  ...marketDataDescriptions,
  ...orderDescriptions,
  ...portfolioDescriptions,
  ...scoresDescriptions,
  ...apiKeyDescriptions,
  ...signInDescriptions,
  ...sessionDescriptions,
  ...productDescriptions,
  ...organizationDescriptions,
  ...userDescriptions,
  ...memberDescriptions,
  ...grantDescriptions,
  ...reconciliationDescriptions,
  ...tradingControlDescriptions,
  ...auditLogDescriptions,
  ...healthDescriptions,
  ...documentationDescriptions,
];
