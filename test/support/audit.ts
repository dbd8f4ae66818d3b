import { eq } from 'drizzle-orm';
import { auditLog, operatorLog } from '../../src/accounts/audit/table.js';
import type { Database } from '../../src/core/db/client.js';

/** An Organization's audit log, oldest entry first. */
export const auditOf = ({ orm }: Pick<Database, 'orm'>, orgId: string) =>
  orm.select().from(auditLog).where(eq(auditLog.orgId, orgId)).orderBy(auditLog.seq);

/** The operator log's entries about a target, oldest first. */
export const operatorLogOf = ({ orm }: Pick<Database, 'orm'>, target: string) =>
  orm.select().from(operatorLog).where(eq(operatorLog.target, target)).orderBy(operatorLog.seq);
