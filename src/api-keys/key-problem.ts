import { AppError } from '../core/errors.js';
import type { Scope } from '../core/scopes.js';
import { invalidKey } from './bearer-key.js';

/** What a statement may find wrong with the API key of a call. */
export type KeyProblem =
  | 'invalid_key'
  | 'key_revoked'
  | 'organization_archived'
  | 'key_expired'
  | 'insufficient_scope'
  | 'no_market_access';

/**
 * SQL: the first branches of a `case` that finds what is wrong with `k`, a row of `api_keys`, or nulls where there is none.
 * @param now a timestamptz
 * @param scope what the key has to have, if a scope is asked for
 */
export const whenKeyIsBad = (now: string, scope?: Scope): string => `
      when k.id is null then 'invalid_key'
      when k.revoked_at is not null then 'key_revoked'
      when k.archived_at is not null then 'organization_archived'
      when k.expires_at <= ${now} then 'key_expired'${
        scope === undefined
          ? ''
          : `
      when not ('${scope}' = any (k.scopes)) then 'insufficient_scope'`
      }`;

/** The error for a problem that a statement found with an API key, or undefined if the problem is another. */
export function keyError(problem: string | null, scope: string): AppError | undefined {
  switch (problem as KeyProblem | null) {
    case 'invalid_key':
      return invalidKey();
    case 'key_revoked':
      return new AppError('key_revoked', 'This API key has been revoked.');
    case 'organization_archived':
      return new AppError(
        'key_revoked',
        'The Organization of this API key was archived. Its keys work again once the operator of this service restores it.',
      );
    case 'key_expired':
      return new AppError('key_expired', 'This API key has expired.');
    case 'insufficient_scope':
      return new AppError('insufficient_scope', `This API key does not have the scope ${scope}.`);
    case 'no_market_access':
      return new AppError(
        'entitlement_required',
        'The Organization of this API key has no access to markets. The operator of this service can give it.',
      );
    default:
      return undefined;
  }
}

/** Reads and parses input. Where that fails the error of the key goes first: without a good key nothing else is learnt. */
export async function preferKeyError<T>(
  authenticate: () => Promise<unknown>,
  read: () => T | Promise<T>,
): Promise<T> {
  try {
    return await read();
  } catch (error) {
    await authenticate();
    throw error;
  }
}
