import { createHash, timingSafeEqual } from 'node:crypto';
import type { Request, RequestHandler } from 'express';
import { ipKeyGenerator, rateLimit } from 'express-rate-limit';
import type { OperatorToken } from '../config.js';
import type { Context } from '../context.js';
import { AppError } from '../errors.js';
import { notFound } from '../http/problem.js';
import type { OperatorAuthority } from './authority.js';

const MAX_FAILURES_PER_MINUTE = 30;

/**
 * Lets only the bearer of an operator token through; without a token in the configuration there is nothing behind
 * this address. Refusals are counted per address, and an address with too many is refused whatever it sends.
 * A good token is never counted, so that a script may send as many calls at once as it likes.
 */
export function requireOperator({
  config,
  limitStores,
}: Pick<Context, 'config' | 'limitStores'>): RequestHandler {
  if (config.operatorTokens.length === 0) return notFound;
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
    const found = findOperator(req, config.operatorTokens);
    const failures = (await store.get?.(addressOf(req)))?.totalHits ?? 0;
    if (!(found instanceof AppError) && failures < MAX_FAILURES_PER_MINUTE) {
      res.locals.operator = found;
      next();
      return;
    }
    const refusal = found instanceof AppError ? found : undefined;
    await countFailure(req, res, (limited?: unknown) => next(limited ?? refusal));
  };
}

function findOperator(req: Request, tokens: readonly OperatorToken[]): OperatorAuthority | AppError {
  const { authorization } = req.headers;
  if (authorization === undefined || authorization === '')
    return new AppError('missing_key', 'Send the operator token as `Authorization: Bearer …`.');
  const given = /^bearer +(.+)$/i.exec(authorization)?.[1];
  if (given === undefined) return unknownToken();
  const find = () => findToken(given, tokens);
  const token = find();
  return token
    ? { kind: 'operator', actor: token.actor, isConfigured: () => find() !== undefined }
    : unknownToken();
}

/** All tokens are compared, and digests have one length: it takes the same time wherever what was sent differs. */
function findToken(given: string, tokens: readonly OperatorToken[]): OperatorToken | undefined {
  const digested = digest(given);
  return tokens.filter(({ token }) => timingSafeEqual(digested, digest(token)))[0];
}

const unknownToken = () => new AppError('invalid_key', 'This is not the operator token.');

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
