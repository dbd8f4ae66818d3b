import { sql } from 'drizzle-orm';
import type { Clock } from '../core/clock.js';
import type { Orm } from '../core/db/client.js';

const DAY_MS = 86_400_000;
/** A day more than the longest grace period, so that a cut-over can be looked at until it is over. */
export const CALLS_KEPT_MS = 8 * DAY_MS;
/** A write is repeated within minutes, if at all. */
const RECEIPTS_KEPT_MS = DAY_MS;
/** Rows in one statement: none runs long, however much has gathered. */
const ROWS_AT_ONCE = 5_000;

/** Deletes calls by minute that no page shows any more, and the receipts of their writes. */
export async function deleteOldKeyCalls({ orm }: { orm: Orm }, clock: Clock): Promise<void> {
  const before = new Date(clock.now() - CALLS_KEPT_MS).toISOString();
  while ((await deleteSome(orm, before)) === ROWS_AT_ONCE);
  const receiptsBefore = new Date(clock.now() - RECEIPTS_KEPT_MS).toISOString();
  await orm.execute(sql`delete from api_key_use_receipts where at < ${receiptsBefore}::timestamptz`);
}

async function deleteSome(orm: Orm, before: string): Promise<number> {
  const result = await orm.execute(sql`
    with deleted as (
      delete from api_key_calls where (org_id, api_key_id, minute) in (
        select org_id, api_key_id, minute from api_key_calls where minute < ${before}::timestamptz limit ${ROWS_AT_ONCE}
      )
      returning 1
    )
    select count(*)::int as rows from deleted`);
  return (result as { rows: [{ rows: number }] }).rows[0].rows;
}
