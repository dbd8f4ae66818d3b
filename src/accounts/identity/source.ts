import { recordOperatorAudit, type AuditEntry } from '../audit/audit.js';
import type { Tx } from '../../core/db/client.js';
import { HOUR_MS } from '../../core/time.js';

export type Source = Pick<AuditEntry, 'actor' | 'at' | 'ip' | 'requestId'>;

export type Whereabouts = Omit<Source, 'actor'>;

export interface Put<T> {
  isNew: boolean;
  resource: T;
}

type Fields = Record<string, string | null | undefined>;

export function findDifference(current: Fields, wanted: Fields) {
  const changed = Object.keys(wanted).filter((name) => current[name] !== wanted[name]);
  if (changed.length === 0) return undefined;
  const pick = (fields: Fields) => Object.fromEntries(changed.map((name) => [name, fields[name]]));
  return { before: pick(current), after: pick(wanted) };
}

/** An undefined `archived` keeps the current time. */
export function toArchivedAt(current: Date | null, archived: boolean | undefined, at: Date): Date | null {
  if (archived === undefined) return current;
  return archived ? (current ?? at) : null;
}

interface Archivable {
  archivedAt: Date | null;
}

export function describeArchiving(before: Archivable, after: Archivable) {
  if ((before.archivedAt === null) === (after.archivedAt === null)) return undefined;
  return after.archivedAt === null ? 'restored' : 'archived';
}

/** A person may belong to several Organizations. */
export function auditPerson(
  tx: Tx,
  { userId, email }: { userId: string; email: string },
  action: string,
  { at, ip, requestId }: Whereabouts,
  details: AuditEntry['details'] = {},
): Promise<void> {
  return recordOperatorAudit(tx, { at, action, actor: userId, target: email, details, ip, requestId });
}

/** Sockets put an IPv6 prefix before IPv4 addresses. */
export const describeAddress = (ip: string): string => ip.replace(/^::ffff:(?=\d+\.)/i, '') || 'unknown';

/** The hour of `at`, unless an earlier one is stored. Null without a customer id. */
export const toStripeSince = (value: string | null, current: Date | null | undefined, at: Date) =>
  value === null ? null : (current ?? new Date(Math.floor(at.getTime() / HOUR_MS) * HOUR_MS));
