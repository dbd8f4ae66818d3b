import { desc, lt } from 'drizzle-orm';
import { operatorLog } from '../../../audit/table.js';
import type { Orm } from '../../../core/db/client.js';
import type { Range } from '../../../core/http/page.js';

export type OperatorRow = typeof operatorLog.$inferSelect;
/** What belongs to no Organization, newest first: ids are in the order of time. */
export async function listOperatorLog(orm: Orm, { after, limit }: Range): Promise<OperatorRow[]> {
  return orm
    .select()
    .from(operatorLog)
    .where(after === undefined ? undefined : lt(operatorLog.id, after))
    .orderBy(desc(operatorLog.id))
    .limit(limit + 1);
}
