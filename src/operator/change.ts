import type { AuditEntry } from '../audit/audit.js';
import { sqlState, type Orm } from '../db/client.js';
import { AppError } from '../errors.js';

/** Who asks for a change, when and from where: what its audit row says besides the change itself. */
export type Source = Pick<AuditEntry, 'actor' | 'at' | 'ip' | 'requestId'>;

/** What a declarative write found or made. */
export interface Put<T> {
  isNew: boolean;
  resource: T;
}

/** Another request changed what this one had decided about. */
export class ConcurrentChangeError extends AppError {
  constructor() {
    super('unavailable', 'The same resource is being changed by other requests.', { retryAfterSeconds: 1 });
  }
}

/** A row appeared or went between a look and a write (23505, 23503), or two transactions stood in each other's way. */
const conflictStates = new Set(['23505', '23503', '40001', '40P01']);
const MAX_ATTEMPTS = 10;

/** Starts again when another request got in between, and then sees what that one did. */
export async function retryOnConflict<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      const isConflict = error instanceof ConcurrentChangeError || conflictStates.has(sqlState(error) ?? '');
      if (!isConflict || attempt === MAX_ATTEMPTS) throw error;
    }
  }
}

/** One change in one transaction, with its audit row. Inside `work` use only the `tx` it is given. */
export const inTransaction = <T>(orm: Orm, work: (tx: Orm) => Promise<T>): Promise<T> =>
  retryOnConflict(() => orm.transaction(work));

type Fields = Record<string, string | null>;

export interface Difference {
  before: Fields;
  after: Fields;
}

/** The fields that `wanted` changes, or undefined if there is nothing to change. */
export function findDifference(current: Fields, wanted: Fields): Difference | undefined {
  const changed = Object.keys(wanted).filter((name) => current[name] !== wanted[name]);
  if (changed.length === 0) return undefined;
  const pick = (fields: Fields) => Object.fromEntries(changed.map((name) => [name, fields[name] ?? null]));
  return { before: pick(current), after: pick(wanted) };
}
