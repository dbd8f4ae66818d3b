import { eq, sql } from 'drizzle-orm';
import type { Orm } from '../db/client.js';
import { auditChains, auditLog } from './table.js';

export type ChainEnd = typeof auditChains.$inferSelect;

/** The end of an Organization's chain, held until the transaction ends. One statement, so that two cannot both begin it. */
export async function lockChain(tx: Orm, orgId: string, genesis: string): Promise<ChainEnd> {
  const [end] = await tx
    .insert(auditChains)
    .values({ orgId, seq: 0, hash: genesis })
    .onConflictDoUpdate({ target: auditChains.orgId, set: { seq: sql`${auditChains.seq}` } })
    .returning();
  return end!;
}

export async function moveChainEnd(tx: Orm, { orgId, seq, hash }: ChainEnd): Promise<void> {
  await tx.update(auditChains).set({ seq, hash }).where(eq(auditChains.orgId, orgId));
}

export async function insertAuditRow(tx: Orm, row: typeof auditLog.$inferInsert): Promise<void> {
  await tx.insert(auditLog).values(row);
}
