import { apiKeyDescriptions } from '../api-keys/description.js';
import { signInDescriptions } from '../auth/description.js';
import { entitlementDescriptions } from '../entitlements/description.js';
import { healthDescriptions } from '../health/description.js';
import { auditLogDescriptions } from '../operator/audit-log/description.js';
import { grantDescriptions } from '../operator/entitlements/description.js';
import { memberDescriptions } from '../operator/members/description.js';
import { organizationDescriptions } from '../operator/organizations/description.js';
import { productDescriptions } from '../operator/products/description.js';
import { tradingControlDescriptions } from '../operator/trading/description.js';
import { userDescriptions } from '../operator/users/description.js';
import { sessionDescriptions } from '../organizations/description.js';
import { marketDataDescriptions } from '../trading/reads/description.js';
import { orderDescriptions } from '../trading/orders/description.js';
import { portfolioDescriptions } from '../trading/portfolio/description.js';
import { reconciliationDescriptions } from '../trading/live/description.js';
import { usageDescriptions } from '../usage/description.js';
import { scoresDescriptions } from '../trading/scores/description.js';
import type { RouteDescription } from './description.js';
import { documentationDescriptions } from './own-description.js';

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
