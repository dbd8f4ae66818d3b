import { createHash, timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler } from 'express';
import { ipKeyGenerator, rateLimit } from 'express-rate-limit';
import type { Context } from '../context.js';
import { AppError } from '../errors.js';
import { notFound } from '../http/problem.js';

const MAX_FAILURES_PER_MINUTE = 30;

/**
 * Lets only the bearer of the operator token through; without a token in the configuration there is nothing behind
 * this address. Refusals are counted per address, and an address with too many is refused whatever it sends.
 * A good token is never counted, so that a script may send as many calls at once as it likes.
 */
export function requireOperator({
  config,
  limitStores,
}: Pick<Context, 'config' | 'limitStores'>): RequestHandler {
  if (config.operatorToken === undefined) return notFound;
  const expected = digest(config.operatorToken);
  const store = limitStores.create('operator-failures');
  const countFailure = rateLimit({
    windowMs: 60_000,
    limit: MAX_FAILURES_PER_MINUTE,
    standardHeaders: 'draft-8',
    legacyHeaders: false,
    identifier: 'operator-failures',
    store,
    keyGenerator: addressOf,
    passOnStoreError: true,
    handler: (req, _res, next) => next(tooManyFailures(req)),
  });
  return async (req, res, next) => {
    const refusal = findRefusal(req, expected);
    const failures = (await store.get?.(addressOf(req)))?.totalHits ?? 0;
    if (!refusal && failures < MAX_FAILURES_PER_MINUTE) next();
    else await countFailure(req, res, (limited?: unknown) => next(limited ?? refusal));
  };
}

function findRefusal(req: Request, expected: Buffer): AppError | undefined {
  const { authorization } = req.headers;
  if (authorization === undefined || authorization === '')
    return new AppError('missing_key', 'Send the operator token as `Authorization: Bearer …`.');
  const given = /^bearer +(.+)$/i.exec(authorization)?.[1];
  // Digests have one length whatever was sent, and comparing them takes the same time wherever they differ.
  if (given !== undefined && timingSafeEqual(digest(given), expected)) return undefined;
  return new AppError('invalid_key', 'This is not the operator token.');
}

const digest = (value: string) => createHash('sha256').update(value).digest();

/** One IPv6 subscriber has a whole /64 to call from. */
const addressOf = (req: Request): string => ipKeyGenerator(req.ip ?? '', 64);

function tooManyFailures(req: Request): AppError {
  const { rateLimit: state } = req as Request & { rateLimit?: { resetTime?: Date } };
  const retryAfterSeconds = state?.resetTime ? (state.resetTime.getTime() - Date.now()) / 1000 : 60;
  return new AppError('rate_limited', 'Too many calls from this address had no valid operator token.', {
    retryAfterSeconds,
  });
}
