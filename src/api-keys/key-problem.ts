import { AppError } from '../core/errors.js';
import { invalidKey } from './bearer-key.js';

/** What a statement may find wrong with the API key of a call. */
export type KeyProblem = 'invalid_key' | 'key_revoked' | 'key_expired' | 'insufficient_scope';

/** The error for a problem that a statement found with an API key, or undefined if the problem is another. */
export function keyError(problem: string | null, scope: string): AppError | undefined {
  switch (problem as KeyProblem | null) {
    case 'invalid_key':
      return invalidKey();
    case 'key_revoked':
      return new AppError('key_revoked', 'This API key has been revoked.');
    case 'key_expired':
      return new AppError('key_expired', 'This API key has expired.');
    case 'insufficient_scope':
      return new AppError('insufficient_scope', `This API key does not have the scope ${scope}.`);
    default:
      return undefined;
  }
}
