import { eq, sql } from 'drizzle-orm';
import { isActiveKey } from '../../accounts/api-keys/queries.js';
import { apiKeys } from '../../accounts/api-keys/table.js';
import type { Orm } from '../../core/db/client.js';
import { usageTotals } from '../ingestion/table.js';

/** A new Organization's progress: whether it has usable keys, whether one can send, and its number of events by mode. */
export async function readProgress(orm: Orm, orgId: string, now: Date) {
  const [keys] = await orm
    .select({ canSend: sql<boolean | null>`bool_or('usage:write' = any(${apiKeys.scopes}))` })
    .from(apiKeys)
    .where(isActiveKey(orgId, now));
  const canSend = keys?.canSend ?? null;
  const [sum] = await orm
    .select({
      live: sql<string | null>`sum(${usageTotals.events}) filter (where ${usageTotals.livemode})::text`,
      test: sql<string | null>`sum(${usageTotals.events}) filter (where not ${usageTotals.livemode})::text`,
    })
    .from(usageTotals)
    .where(eq(usageTotals.orgId, orgId));
  const [live, test] = [Number(sum?.live ?? 0), Number(sum?.test ?? 0)];
  return { hasKey: canSend !== null, canSend: canSend === true, live, test };
}
