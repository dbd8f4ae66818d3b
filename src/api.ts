import { Router, type RequestHandler } from 'express';
import { ownKeyRoutes } from './api-keys/own-key.js';
import { createKeyUse, type KeyUse } from './api-keys/key-use.js';
import { readHashedSecret } from './auth/bearer-key.js';
import { createKeyReader, type KeyReader } from './auth/key-reader.js';
import type { Context } from './context.js';
import { createEntitlementReader, type EntitlementReader } from './entitlements/reader.js';
import { entitlementRoutes } from './entitlements/routes.js';
import { perKeyLimit, unknownKeyGuard } from './http/rate-limit.js';
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
  const { limits } = context.config;
  const guard = unknownKeyGuard(context, {
    keyOf: readHashedSecret,
    hasSeen: (hashedSecret) => services.keyUse.hasSeen(hashedSecret),
    authenticate: (hashedSecret) => services.keys.authenticate(hashedSecret, null),
  });
  const perKey = (name: string, perMinute: number): RequestHandler => {
    const limit = perKeyLimit(context, { name, perMinute, keyOf: readHashedSecret });
    return (req, res, next) => guard(req, res, () => limit(req, res, next));
  };
  router.use(usageRoutes({ context, ...services, callLimit: perKey('usage', limits.usagePerMinute) }));
  router.use(
    entitlementRoutes({ ...services, callLimit: perKey('entitlements', limits.entitlementsPerMinute) }),
  );
  router.use(ownKeyRoutes(context, { ...services, guard }));
  return router;
}
