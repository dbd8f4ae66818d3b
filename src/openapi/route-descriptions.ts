import { apiKeyDescriptions } from '../api-keys/description.js';
import { entitlementDescriptions } from '../entitlements/description.js';
import { healthDescriptions } from '../health/description.js';
import { usageDescriptions } from '../usage/description.js';
import type { RouteDescription } from './description.js';
import { documentationDescriptions } from './own-description.js';

/** Every route of the service, in reading order. A test compares this list with what is mounted. */
export const routeDescriptions: RouteDescription[] = [
  ...usageDescriptions,
  ...entitlementDescriptions,
  ...apiKeyDescriptions,
  ...healthDescriptions,
  ...documentationDescriptions,
];
