import { AppError } from '../errors.js';
import { sqlState } from './client.js';

/** Another request changed what this one had decided about. */
export class ConcurrentChangeError extends AppError {
  constructor() {
    super('unavailable', 'The same resource is being changed by other requests.', { retryAfterSeconds: 1 });
  }
}

/** A row appeared or went between a look and a write (23505, 23503), or two transactions stood in each other's way. */
const conflictStates = new Set(['23505', '23503', '40001', '40P01']);
const MAX_ATTEMPTS = 10;

const isConflict = (error: unknown): boolean =>
  error instanceof ConcurrentChangeError || conflictStates.has(sqlState(error) ?? '');

/** Starts again when another request got in between, and then sees what that one did. */
export async function retryOnConflict<T>(
  work: () => Promise<T>,
  isRetried: (error: unknown) => boolean = isConflict,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isRetried(error) || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}
