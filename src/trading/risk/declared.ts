import { eq } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import type { DeclaredLimits } from './limits.js';
import { riskLimits } from '../ledger/risk-table.js';

export interface LimitsRow extends DeclaredLimits {
  updatedAt: Date;
}

/** What was declared for an Organization; undefined if nothing was. */
export async function findLimits(orm: Orm, orgId: string): Promise<LimitsRow | undefined> {
  const [row] = await orm.select().from(riskLimits).where(eq(riskLimits.orgId, orgId));
  if (!row) return undefined;
  const { orgId: _orgId, ...limits } = row;
  return limits;
}

export async function saveLimits(tx: Tx, orgId: string, limits: LimitsRow): Promise<void> {
  await tx
    .insert(riskLimits)
    .values({ orgId, ...limits })
    .onConflictDoUpdate({ target: riskLimits.orgId, set: limits });
}

export async function deleteLimits(tx: Tx, orgId: string): Promise<void> {
  await tx.delete(riskLimits).where(eq(riskLimits.orgId, orgId));
}
