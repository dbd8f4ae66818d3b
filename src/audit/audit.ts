import { v7 as uuid } from 'uuid';
import type { Tx } from '../core/db/client.js';
import { asStored, genesisHash, hashRow, OPERATOR_CHAIN } from './chain.js';
import { lockChain, lockOperatorChain, moveChainEnd } from './queries.js';
import { auditLog, operatorChain, operatorLog } from './table.js';

export interface AuditEntry {
  at: Date;
  /** Noun first: `api_key.created`. */
  action: string;
  /** A User's id, `operator` with the name of its token if it has one, `api_key` with its id, `system`, or `unknown`. */
  actor: string;
  target: string;
  details?: Record<string, unknown>;
  ip?: string | undefined;
  requestId?: string | undefined;
}

/**
 * Writes the audit row of a change inside an Organization. `tx` is the change's own transaction: both happen or neither.
 *
 * The row is added to the Organization's chain, whose lock is held until the transaction ends. So that changes never
 * wait for each other in a circle, this comes after every other lock of the transaction, and a change of
 * several Organizations writes in the order of their ids.
 */
export async function recordAudit(tx: Tx, orgId: string, entry: AuditEntry): Promise<void> {
  const end = await lockChain(tx, orgId, genesisHash(orgId));
  const seq = end.seq + 1;
  const { at, ...rest } = toRow(entry);
  // Rows of the same millisecond are in the order of the chain, whichever instance wrote them.
  const row = { orgId, seq, ...rest, id: uuid({ msecs: at.getTime(), seq }) };
  const hash = hashRow(end.hash, { ...row, at: at.toISOString() });
  await tx.insert(auditLog).values({ ...row, at, hash });
  await moveChainEnd(tx, { orgId, seq, hash });
}

/** Writes the audit row of a change that belongs to no Organization. Its chain is the last lock of all, after those of Organizations. */
export async function recordOperatorAudit(tx: Tx, entry: AuditEntry): Promise<void> {
  const end = await lockOperatorChain(tx, genesisHash(OPERATOR_CHAIN));
  const seq = end.seq + 1;
  const { at, ...rest } = toRow(entry);
  const row = { seq, ...rest, id: uuid({ msecs: at.getTime(), seq }) };
  const hash = hashRow(end.hash, { ...row, orgId: OPERATOR_CHAIN, at: at.toISOString() });
  await tx.insert(operatorLog).values({ ...row, at, hash });
  await tx.update(operatorChain).set({ seq, hash });
}

function toRow({ details, ip, requestId, ...rest }: AuditEntry) {
  return { ...rest, details: asStored(details ?? {}), ip: ip ?? null, requestId: requestId ?? null };
}
