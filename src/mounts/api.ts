import { Router, type ErrorRequestHandler, type RequestHandler } from 'express';
import type { CallRefusal } from '../accounts/api-keys/key-use-queries.js';
import { createKeyUse, type KeyUse } from '../accounts/api-keys/key-use.js';
import { ownKeyRoute } from '../accounts/api-keys/routes.js';
import {
  knownHashedSecret,
  readHashedSecret,
  createKeyReader,
  type KeyReader,
} from '../accounts/api-keys/bearer-key.js';
import { type Context, requireReady } from '../core/http/context.js';
import { createEntitlementReader, type EntitlementReader } from '../metering/entitlements/reader.js';
import { entitlementRoutes } from '../metering/entitlements/routes.js';
import { AppError, type ErrorCode } from '../core/errors.js';
import { jsonHeaders } from '../core/http/headers.js';
import { perKeyLimit, unknownKeyGuard } from '../core/http/rate-limit.js';
import { mountRoutes } from '../core/reference/define-route.js';
import { correctionRoutes } from '../metering/corrections/routes.js';
import { createIngestion, type Ingestion } from '../metering/ingestion/ingestion.js';
import { usageReadRoutes } from '../metering/reports/reading/routes.js';
import { createReservations, type Reservations } from '../metering/reservations/reservations.js';
import { reservationRoutes } from '../metering/reservations/routes.js';
import { createSettlements, type Settlements } from '../metering/reservations/settlements.js';
import { usageRoutes } from '../metering/ingestion/routes.js';
import { createThresholds, type Thresholds } from '../metering/thresholds/thresholds.js';

export interface ApiServices {
  ingestion: Ingestion;
  reservations: Reservations;
  settlements: Settlements;
  thresholds: Thresholds;
  keys: KeyReader;
  keyUse: KeyUse;
  entitlements: EntitlementReader;
}

export function createApiServices(context: Context): ApiServices {
  const thresholds = createThresholds(context);
  return {
    thresholds,
    ingestion: createIngestion({ ...context, thresholds }),
    reservations: createReservations(context),
    settlements: createSettlements({ ...context, thresholds }),
    keys: createKeyReader(context),
    keyUse: createKeyUse(context),
    entitlements: createEntitlementReader(context),
  };
}

/** `/api`, for runtimes with an API key. Few layers: each further layer costs as much as checking the key. */
export function apiRoutes(context: Context, services: ApiServices): Router {
  const router = Router();
  const ready = requireReady(context.lifecycle);
  router.use((req, res, next) =>
    ready(req, res, (error?: unknown) => {
      if (error) next(error);
      else void jsonHeaders(req, res, next);
    }),
  );
  const { limits } = context.config;
  const { guard, limitTo } = keyGuards(context, services);
  const deps = { ...context, ...services };
  const usageLimit = limitTo('usage', limits.usagePerMinute);
  const entitlementsLimit = limitTo('entitlements', limits.entitlementsPerMinute);
  mountRoutes(router, '/api', [...usageRoutes, ...reservationRoutes, ...correctionRoutes], deps, () => [
    usageLimit,
  ]);
  mountRoutes(router, '/api', usageReadRoutes, deps, () => [usageLimit]);
  mountRoutes(router, '/api', entitlementRoutes, deps, () => [entitlementsLimit]);
  mountRoutes(router, '/api', [ownKeyRoute], deps, () => [guard]);
  router.use(countRefusedCalls(services));
  return router;
}

/** Guards of routes for API keys: the look-up of keys not seen before, and with `limitTo` the calls per minute of each key. */
export function keyGuards(context: Context, { keys, keyUse }: Pick<ApiServices, 'keys' | 'keyUse'>) {
  const guard = unknownKeyGuard(context, {
    keyOf: readHashedSecret,
    hasSeen: (hashedSecret) => keyUse.hasSeen(hashedSecret),
    authenticate: (hashedSecret) => keys.authenticate(hashedSecret, null),
  });
  const limitTo = (name: string, perMinute: number): RequestHandler => {
    const limit = perKeyLimit(context, { name, perMinute, keyOf: readHashedSecret });
    return (req, res, next) => guard(req, res, () => limit(req, res, next));
  };
  return { guard, limitTo };
}

/**
 * Counts a refused call for its key if the key is known to exist: nothing is stored for guesses. A previously valid
 * key that is now refused counts as unknown again, so it is limited as a guess and looked up first.
 */
export function countRefusedCalls({
  keys,
  keyUse,
}: Pick<ApiServices, 'keys' | 'keyUse'>): ErrorRequestHandler {
  return (error, req, _res, next) => {
    const code = error instanceof AppError ? error.code : undefined;
    const hashedSecret = knownHashedSecret(req);
    if (code !== undefined && hashedSecret !== undefined) {
      const refusal = refusals[code];
      if (refusal && keys.identify(hashedSecret)) keyUse.refuse(hashedSecret, refusal);
      if (refusal === 'ended' || code === 'invalid_key') keyUse.forget(hashedSecret);
    }
    next(error);
  };
}

const refusals: Partial<Record<ErrorCode, CallRefusal>> = {
  key_revoked: 'ended',
  key_expired: 'ended',
  insufficient_scope: 'unscoped',
  rate_limited: 'limited',
};
