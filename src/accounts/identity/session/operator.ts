import { createHash, timingSafeEqual } from 'node:crypto';
import type { ErrorRequestHandler, Request, RequestHandler, Response } from 'express';
import { rateLimit, type AugmentedRequest } from 'express-rate-limit';
import { recordOperatorAudit, change, byProof } from '../../audit/audit.js';
import type { OperatorToken } from '../../../core/config.js';
import type { Context } from '../../../core/http/context.js';
import { AppError } from '../../../core/errors.js';
import { notFound } from '../../../core/http/problem.js';
import type { Tx } from '../../../core/db/client.js';
import { isNavigation, prefersHtml, requestIdOf } from '../../../core/http/request.js';
import type { Clock } from '../../../core/time.js';
import { toAddress } from '../../../core/pages/address.js';
import {
  ConfirmationDue,
  isConfirmedAt,
  operatorFactorRequired,
  operatorPerson,
  operatorsOnly,
  type OperatorAuthority,
} from './authority.js';
import type { Source } from '../source.js';
import { keepTyped, personOf, type ReadSession } from './session.js';
import { addressOf, passLimits } from '../../../core/http/rate-limit.js';

const MAX_FAILURES_PER_MINUTE = 30;

/**
 * Without a configured token, the route does not exist. An IP address with too many refusals is refused even with a
 * valid token. Valid tokens are never counted, so scripts may send any number of concurrent calls.
 */
export function requireOperator(
  context: Pick<Context, 'config' | 'limitStores' | 'db' | 'clock' | 'log'>,
): RequestHandler {
  const { config, limitStores } = context;
  if (config.operatorTokens.length === 0) {
    if (config.production) return notFound;
    return (_req, _res, next) =>
      next(
        new AppError(
          'not_found',
          'The operator API needs OPERATOR_TOKEN. Set it in .env, and restart Gauge.',
        ),
      );
  }
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
    if (found instanceof AppError || failures >= MAX_FAILURES_PER_MINUTE) {
      const limited = await passLimits(req, res, [countFailure]).catch((error: unknown) => error);
      await auditRefusal(context, req, res);
      // A valid token still passes if the minute ended between reading the count and incrementing it.
      if (limited !== undefined || found instanceof AppError) {
        next(limited ?? found);
        return;
      }
    }
    res.locals.operator = found;
    next();
  };
}

/** Must be mounted after `requirePerson`. Each change repeats this check; see `byOperator`. */
export const requireOperatorPerson: RequestHandler = (req, res, next) => {
  const person = personOf(res);
  if (!person.isOperator) throw operatorsOnly();
  if (person.hasSecondFactor) {
    res.locals.operator = operatorPerson(person, false);
    next();
  } else if (isNavigation(req)) res.redirect(303, '/set-up');
  else throw operatorFactorRequired();
};

/** Must be mounted after `requireOperatorPerson`. Each change repeats this check. @throws ConfirmationDue */
export function requireConfirmation(clock: Clock): RequestHandler {
  return (_req, res, next) => {
    const person = personOf(res);
    if (!isConfirmedAt(person, new Date(clock.now()))) throw new ConfirmationDue();
    res.locals.operator = operatorPerson(person, true);
    next();
  };
}

/** For a change that turns out to be dangerous only inside its transaction. @throws ConfirmationDue */
export const confirmDanger = (tx: Tx, res: Response, { at }: Source): Promise<void> =>
  operatorPerson(personOf(res), true).confirm(tx, at);

/** Stores what the person typed. Must be mounted after all pages. */
export const leadToConfirmation =
  (readSession: ReadSession): ErrorRequestHandler =>
  async (error, req, res, next) => {
    if (!(error instanceof ConfirmationDue && prefersHtml(req))) return next(error);
    const page = isNavigation(req)
      ? req.originalUrl
      : await keepTyped(readSession, req, res, personOf(res).userId);
    res.redirect(303, toAddress('/confirm', { next: page }));
  };

/**
 * Records only an IP address's first refusal in a minute and the one that exhausts its allowance, so that strangers
 * cannot fill the log. Never rejects, so the caller gets the refusal in any case.
 */
async function auditRefusal(deps: Pick<Context, 'db' | 'clock' | 'log'>, req: Request, res: Response) {
  const failures = (req as Partial<AugmentedRequest>).rateLimit?.used;
  if (failures !== 1 && failures !== MAX_FAILURES_PER_MINUTE) return;
  const entry = {
    at: new Date(deps.clock.now()),
    action: 'operator.token_refused',
    actor: 'unknown',
    target: 'operator',
    details: { hasToken: req.headers.authorization !== undefined, failures },
    ip: req.ip,
    requestId: requestIdOf(res),
  };
  await change(deps, byProof, (tx) => recordOperatorAudit(tx, entry)).catch((error: unknown) =>
    deps.log.warn(
      { err: error, ip: req.ip },
      'the refusal of an operator token could not be written to the audit log',
    ),
  );
}

const howToSend = 'Send the operator token as `Authorization: Bearer …`';

function findOperator(req: Request, tokens: readonly OperatorToken[]): OperatorAuthority | AppError {
  const { authorization } = req.headers;
  if (authorization === undefined || authorization === '')
    return new AppError('missing_key', `${howToSend}.`);
  const given = /^bearer +(.+)$/i.exec(authorization)?.[1];
  if (given === undefined)
    return /^bearer\b/i.test(authorization)
      ? unknownToken()
      : new AppError('invalid_key', `${howToSend}. The word Bearer is missing.`);
  const find = () => findToken(given, tokens);
  const token = find();
  if (!token) return unknownToken();
  return {
    actor: token.actor,
    confirm() {
      // A reload can withdraw a token at any time.
      return find() ? Promise.resolve() : Promise.reject(withdrawnToken());
    },
  };
}

/** `timingSafeEqual` requires inputs of equal length. */
function findToken(given: string, tokens: readonly OperatorToken[]): OperatorToken | undefined {
  const digested = digest(given);
  return tokens.find(({ token }) => timingSafeEqual(digested, digest(token)));
}

const withdrawnToken = () => new AppError('invalid_key', 'This operator token is no longer valid.');

const unknownToken = () => new AppError('invalid_key', 'This is not the operator token.');

const digest = (value: string) => createHash('sha256').update(value).digest();

function tooManyFailures(req: Request): AppError {
  const { rateLimit: state } = req as Request & { rateLimit?: { resetTime?: Date } };
  const retryAfterSeconds = state?.resetTime ? (state.resetTime.getTime() - Date.now()) / 1000 : 60;
  return new AppError(
    'rate_limited',
    'Too many calls from this address did not have a valid operator token.',
    {
      retryAfterSeconds,
    },
  );
}
