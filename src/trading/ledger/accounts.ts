import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import { newId } from '../market/ids.js';
import type { Micros } from '../market/money.js';
import type { TradeMode } from './orders-table.js';

interface Owner {
  orgId: string;
  mode: TradeMode;
}

/**
 * Makes everybody else who is about to spend this account's money wait until the transaction ends, and says how much
 * there is; undefined if the account was never opened. What may be read under this lock must be read after it: a
 * statement that waits for a lock sees the other tables as they were before it waited.
 */
export async function lockAccount(tx: Orm, { orgId, mode }: Owner): Promise<Micros | undefined> {
  const [row] = await selectRows<{ cash: string }>(
    tx,
    sql`select cash::text as cash from trading_accounts where org_id = ${orgId} and mode = ${mode} for update`,
  );
  return row && BigInt(row.cash);
}

/** Opens an Organization's paper account with play money, unless it is open: two that do it at once open one. */
export async function openPaperAccount(
  orm: Orm,
  { orgId, cash, at }: { orgId: string; cash: Micros; at: Date },
): Promise<void> {
  const [time, amount] = [at.toISOString(), String(cash)];
  await orm.execute(sql`
    with opened as (
      insert into trading_accounts (org_id, mode, cash, opened_at)
      values (${orgId}, 'paper', ${amount}::bigint, ${time}::timestamptz)
      on conflict do nothing
      returning org_id
    )
    insert into ledger_entries (org_id, id, mode, kind, at, cash, positions, fees, realised, capital)
    select org_id, ${newId(at.getTime())}::uuid, 'paper', 'deposit', ${time}::timestamptz, ${amount}::bigint, 0, 0, 0, -${amount}::bigint
    from opened`);
}
