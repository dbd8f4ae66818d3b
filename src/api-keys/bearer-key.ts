import type { Request } from 'express';
import { hashSecret, isSecretShaped } from './secret.js';
import { AppError } from '../core/errors.js';

const sessionCookie = /(^|;\s*)(__Host-)?gauge_session=/;
const secretInQuery = /org_(live|test)_|[?&](api[-_]?key|key|token|access_token|secret)=/i;

const hashedSecret = Symbol('hashed secret');

/**
 * The hashed secret that a call presents. Says nothing yet about whether such a key exists. It is computed once per
 * request: the limits need it before the route does.
 * @throws AppError session_cookie_not_allowed, key_in_query_string, missing_key, invalid_key
 */
export function readHashedSecret(req: Request & { [hashedSecret]?: string }): string {
  return (req[hashedSecret] ??= hashSecret(readSecret(req)));
}

/** The hashed secret that has been read from the request, if a route or a limit has asked for it. */
export const knownHashedSecret = (req: Request & { [hashedSecret]?: string }): string | undefined =>
  req[hashedSecret];

const howToSend = 'Send the API key as `Authorization: Bearer org_live_…`';

function readSecret(req: Request): string {
  const { authorization, cookie } = req.headers;
  if (cookie !== undefined && sessionCookie.test(cookie)) {
    throw new AppError(
      'session_cookie_not_allowed',
      'Call this route with an API key alone, without the session cookie.',
    );
  }
  if (secretInQuery.test(req.url)) {
    throw new AppError(
      'key_in_query_string',
      'Send the API key in the Authorization header; addresses end up in logs.',
    );
  }
  if (authorization === undefined || authorization === '') {
    throw new AppError('missing_key', `${howToSend}.`);
  }
  const secret = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (secret === undefined && !/^bearer\b/i.test(authorization))
    throw new AppError('invalid_key', `${howToSend}; the word Bearer is missing.`);
  if (secret === undefined || !isSecretShaped(secret)) throw invalidKey();
  return secret;
}

export function invalidKey(): AppError {
  return new AppError('invalid_key', 'There is no such API key.');
}
