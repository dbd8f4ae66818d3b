import { Router } from 'express';
import { ownKeyRoutes } from './api-keys/own-key.js';
import { createKeyUse, type KeyUse } from './api-keys/key-use.js';
import { createKeyReader, type KeyReader } from './auth/key-reader.js';
import type { Context } from './context.js';
import { createEntitlementReader, type EntitlementReader } from './entitlements/reader.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { createIngestion, type Ingestion } from './usage/ingestion.js';
import { usageRoutes } from './usage/routes.js';

/** What the usage and entitlements API keeps running between requests. */
export interface ApiServices {
  ingestion: Ingestion;
  keys: KeyReader;
  keyUse: KeyUse;
  entitlements: EntitlementReader;
}

export function createApiServices(context: Context): ApiServices {
  return {
    ingestion: createIngestion(context),
    keys: createKeyReader(context),
    keyUse: createKeyUse(context),
    entitlements: createEntitlementReader(context),
  };
}

/** `/api`: called by runtimes with an Organization's API key. */
export function apiRoutes(context: Context, services: ApiServices): Router {
  const router = Router();
  router.use(usageRoutes({ context, ...services }));
  router.use(entitlementRoutes(services));
  router.use(ownKeyRoutes(context, services));
  return router;
}
