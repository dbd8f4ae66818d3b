import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import type { TradeMode } from '../ledger/orders-table.js';
import { portfolioHistory } from '../ledger/portfolio-table.js';

interface Account {
  orgId: string;
  mode: TradeMode;
}

/** Accounts that hold something, in their order: the index is read once per account, however much it holds. */
export const listHoldingAccounts = (orm: Orm, after: Account, limit: number) =>
  selectRows<Account>(
    orm,
    sql`with recursive holding as (
      (
        select org_id, mode from trading_positions
        where contracts > 0 and (org_id, mode) > (${after.orgId}::uuid, ${after.mode})
        order by org_id, mode limit 1
      )
      union all
      select next.org_id, next.mode from holding, lateral (
        select p.org_id, p.mode from trading_positions p
        where p.contracts > 0 and (p.org_id, p.mode) > (holding.org_id, holding.mode)
        order by p.org_id, p.mode limit 1
      ) next
    )
    select org_id as "orgId", mode from holding limit ${limit}`,
  );

/** Adds a point, or sets the one of this moment right. */
export async function writePoint(orm: Orm, point: typeof portfolioHistory.$inferInsert): Promise<void> {
  const { orgId, mode, at, ...values } = point;
  await orm
    .insert(portfolioHistory)
    .values({ orgId, mode, at, ...values })
    .onConflictDoUpdate({
      target: [portfolioHistory.orgId, portfolioHistory.mode, portfolioHistory.at],
      set: values,
    });
}

/** All accounts, in their order. */
export const listAccounts = (orm: Orm, after: Account, limit: number) =>
  selectRows<Account>(
    orm,
    sql`select org_id as "orgId", mode from trading_accounts
    where (org_id, mode) > (${after.orgId}::uuid, ${after.mode})
    order by org_id, mode limit ${limit}`,
  );

/** Leaves the last point of each day (UTC) of what is older. */
export async function thinOutPoints(orm: Orm, { orgId, mode }: Account, before: Date): Promise<void> {
  await orm.execute(sql`
    delete from portfolio_history p
    where p.org_id = ${orgId}::uuid and p.mode = ${mode} and p.at < ${before.toISOString()}::timestamptz
      and exists (
        select from portfolio_history later
        where later.org_id = p.org_id and later.mode = p.mode and later.at > p.at
          and later.at < date_trunc('day', p.at, 'UTC') + interval '24 hours'
      )`);
}
