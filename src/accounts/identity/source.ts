import { recordOperatorAudit, type AuditEntry } from '../audit/audit.js';
import type { Tx } from '../../core/db/client.js';

/** Who asks for a change, when and from where: what its audit row says besides the change itself. */
export type Source = Pick<AuditEntry, 'actor' | 'at' | 'ip' | 'requestId'>;

/** When and from where a person did something to their own account. */
export type Whereabouts = Omit<Source, 'actor'>;

export interface Put<T> {
  isNew: boolean;
  resource: T;
}

/** A field that is undefined is not there. */
type Fields = Record<string, string | null | undefined>;

interface Difference {
  before: Fields;
  after: Fields;
}

/** The fields that `wanted` changes, or undefined if there is nothing to change. */
export function findDifference(current: Fields, wanted: Fields): Difference | undefined {
  const changed = Object.keys(wanted).filter((name) => current[name] !== wanted[name]);
  if (changed.length === 0) return undefined;
  const pick = (fields: Fields) => Object.fromEntries(changed.map((name) => [name, fields[name]]));
  return { before: pick(current), after: pick(wanted) };
}

/** Since when something is archived, after `archived` was asked for; undefined leaves it as it was. */
export function toArchivedAt(current: Date | null, archived: boolean | undefined, at: Date): Date | null {
  if (archived === undefined) return current;
  return archived ? (current ?? at) : null;
}

interface Archivable {
  archivedAt: Date | null;
}

/** The verb of the audit row; undefined where nothing of the kind changed. */
export function describeArchiving(
  before: Archivable,
  after: Archivable,
): 'archived' | 'restored' | undefined {
  if ((before.archivedAt === null) === (after.archivedAt === null)) return undefined;
  return after.archivedAt === null ? 'restored' : 'archived';
}

/** People belong to no Organization: what they do to their accounts, and signing in, is in the operator's log. */
export function auditPerson(
  tx: Tx,
  { userId, email }: { userId: string; email: string },
  action: string,
  { at, ip, requestId }: Whereabouts,
  details: AuditEntry['details'] = {},
): Promise<void> {
  return recordOperatorAudit(tx, { at, action, actor: userId, target: email, details, ip, requestId });
}

/** An address as people write it: IPv4 without the IPv6 in which the socket wraps it. */
export const describeAddress = (ip: string): string => ip.replace(/^::ffff:(?=\d+\.)/i, '') || 'unknown';
