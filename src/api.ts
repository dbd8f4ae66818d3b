import { Router } from 'express';
import { createKeyUse, type KeyUse } from './api-keys/key-use.js';
import { readHashedSecret } from './auth/bearer-key.js';
import { createKeyReader, type KeyReader } from './auth/key-reader.js';
import type { Context } from './context.js';
import { perKeyLimit, unknownKeyGuard } from './http/rate-limit.js';
import { createIngestion, type Ingestion } from './usage/ingestion.js';
import { usageRoutes } from './usage/routes.js';

/** What the usage and entitlements API keeps running between requests. */
export interface ApiServices {
  ingestion: Ingestion;
  keys: KeyReader;
  keyUse: KeyUse;
}

export function createApiServices(context: Context): ApiServices {
  return {
    ingestion: createIngestion(context),
    keys: createKeyReader(context),
    keyUse: createKeyUse(context),
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
  const perKey = (name: string, perMinute: number) => [
    guard,
    perKeyLimit(context, { name, perMinute, keyOf: readHashedSecret }),
  ];
  router.use(usageRoutes({ context, ...services, limit: perKey('usage', limits.usagePerMinute) }));
  return router;
}
