import type { AuditEntry } from '../../audit/audit.js';

/** Who asks for a change, when and from where: what its audit row says besides the change itself. */
export type Source = Pick<AuditEntry, 'actor' | 'at' | 'ip' | 'requestId'>;

/** What a declarative write found or made. */
export interface Put<T> {
  isNew: boolean;
  resource: T;
}

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
