import { v7 as uuid } from 'uuid';
import type { Orm } from '../db/client.js';
import { auditLog, operatorLog } from './table.js';

export interface AuditEntry {
  at: Date;
  /** Noun first: `api_key.created`. */
  action: string;
  /** A User's id, `operator` or `system`. */
  actor: string;
  target: string;
  details?: Record<string, unknown>;
  ip?: string | undefined;
  requestId?: string | undefined;
}

/** Writes the audit row of a change inside an Organization. `tx` is the change's own transaction: both happen or neither. */
export async function recordAudit(tx: Orm, orgId: string, entry: AuditEntry): Promise<void> {
  await tx.insert(auditLog).values({ orgId, ...toRow(entry) });
}

/** The same for a change that belongs to no Organization. */
export async function recordOperatorAudit(tx: Orm, entry: AuditEntry): Promise<void> {
  await tx.insert(operatorLog).values(toRow(entry));
}

function toRow({ details, ip, requestId, ...rest }: AuditEntry) {
  return { id: uuid(), ...rest, details: details ?? {}, ip: ip ?? null, requestId: requestId ?? null };
}
