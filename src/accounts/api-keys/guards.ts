import type { ErrorRequestHandler, RequestHandler } from 'express';
import type { Context } from '../../core/http/context.js';
import { AppError, type ErrorCode } from '../../core/errors.js';
import { perKeyLimit, unknownKeyGuard } from '../../core/http/rate-limit.js';
import { knownHashedSecret, readHashedSecret } from './bearer-key.js';
import type { CallDeps } from './key-use.js';
import type { CallRefusal } from './key-use-queries.js';

/** @param name shown in responses */
export type LimitCalls = (name: string, perMinute: number) => RequestHandler;

/** `guard` looks up keys that this instance has not seen; `limitTo` also limits each key's calls per minute. */
export function keyGuards(context: Context, { keys, keyUse }: CallDeps) {
  const guard = unknownKeyGuard(context, {
    keyOf: readHashedSecret,
    hasSeen: (hashedSecret) => keyUse.hasSeen(hashedSecret),
    authenticate: (hashedSecret) => keys.authenticate(hashedSecret, null),
  });
  const limitTo: LimitCalls = (name, perMinute) => {
    const limit = perKeyLimit(context, { name, perMinute, keyOf: readHashedSecret });
    return (req, res, next) => guard(req, res, () => limit(req, res, next));
  };
  return { guard, limitTo };
}

/** Only for existing keys, so that guessed keys are not stored. A refused key's next call is limited as a guess. */
export function countRefusedCalls({ keys, keyUse }: CallDeps): ErrorRequestHandler {
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

export const refusals: Partial<Record<ErrorCode, CallRefusal>> = {
  key_revoked: 'ended',
  key_expired: 'ended',
  insufficient_scope: 'unscoped',
  rate_limited: 'limited',
};
