import { and, desc, eq, lt } from 'drizzle-orm';
import { auditLog, operatorLog } from '../../../audit/table.js';
import type { Orm } from '../../../core/db/client.js';
import type { Range } from '../../../core/http/page.js';

export type OperatorRow = typeof operatorLog.$inferSelect;
export type AuditRow = typeof auditLog.$inferSelect;

/** Newest first: ids are in the order of time. */
export async function listAuditLog(orm: Orm, orgId: string, { after, limit }: Range): Promise<AuditRow[]> {
  return orm
    .select()
    .from(auditLog)
    .where(and(eq(auditLog.orgId, orgId), after === undefined ? undefined : lt(auditLog.id, after)))
    .orderBy(desc(auditLog.id))
    .limit(limit + 1);
}

/** The same of what belongs to no Organization. */
export async function listOperatorLog(orm: Orm, { after, limit }: Range): Promise<OperatorRow[]> {
  return orm
    .select()
    .from(operatorLog)
    .where(after === undefined ? undefined : lt(operatorLog.id, after))
    .orderBy(desc(operatorLog.id))
    .limit(limit + 1);
}
