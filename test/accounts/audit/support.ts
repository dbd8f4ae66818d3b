import { sql } from 'drizzle-orm';
import { recordAudit, recordAudits, type AuditEntry } from '../../../src/accounts/audit/audit.js';
import { verifyChains, type ChainReport, type NotedHead } from '../../../src/accounts/audit/verify.js';
import { inChange } from '../../support/change.js';
import type { Database } from '../../../src/core/db/client.js';
import { auditLog } from '../../../src/accounts/audit/table.js';

export const at = new Date('2031-03-04T05:06:07.089Z');

/** Writes each row in its own transaction, as real changes do; row n has `target n` as its target. */
export async function writeRows(
  db: Database,
  orgId: string,
  count: number,
  values: Partial<AuditEntry> = {},
): Promise<void> {
  for (let i = 1; i <= count; i++) {
    const entry = { at, action: 'test.written', actor: 'system', target: `target ${i}`, ...values };
    await inChange(db, (tx) => recordAudit(tx, orgId, entry));
  }
}

/** In one transaction, which is faster for long logs. */
export async function writeRowsAtOnce(
  db: Database,
  orgId: string,
  count: number,
  values: { action?: string; target?: string } = {},
): Promise<void> {
  const fields = { orgId, at, action: 'test.written', actor: 'system', ...values };
  const entries = Array.from({ length: count }, (_, i) => ({ target: `target ${i + 1}`, ...fields }));
  await inChange(db, (tx) => recordAudits(tx, entries));
}

export async function verify(
  db: Database,
  orgId: string,
  options: { noted?: NotedHead[]; batchSize?: number } = {},
): Promise<ChainReport> {
  const [report] = await verifyChains(db.orm, { orgId, ...options });
  return report!;
}

/** Swaps the numbers of two rows via an unused number, because numbers must be unique. */
export async function swapRows(db: Database, orgId: string, a: number, b: number): Promise<void> {
  const renumber = (from: number, to: number) =>
    db.orm
      .update(auditLog)
      .set({ seq: to })
      .where(sql`org_id = ${orgId} and seq = ${from}`);
  await renumber(a, -1);
  await renumber(b, a);
  await renumber(-1, b);
}

/** Adds `by` to the number of every row numbered `from` or higher. */
export async function shiftRows(db: Database, orgId: string, from: number, by: number): Promise<void> {
  await db.orm.execute(sql`update audit_log set seq = -seq where org_id = ${orgId} and seq >= ${from}`);
  await db.orm.execute(sql`update audit_log set seq = -seq + ${by} where org_id = ${orgId} and seq < 0`);
}
