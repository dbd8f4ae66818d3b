import { and, asc, eq, gt, sql } from 'drizzle-orm';
import type { AnyPgColumn } from 'drizzle-orm/pg-core';
import type { Orm, Tx } from '../../core/db/client.js';
import { firstRow, queryRows, matches } from '../../core/db/sql.js';
import { newId } from '../../core/ids.js';
import type { Side } from '../market/book.js';
import type { Micros } from '../market/money.js';
import { tradingOrders, type TradeMode } from './orders-table.js';
import { tradingAccounts, tradingPositions, watchedMarkets } from './portfolio-table.js';

/** More than the markets that the venue lists at one time, over all cities and days. */
const MAX_HOLDINGS = 500;

export const findPaperCash = async (orm: Orm, orgId: string): Promise<Micros | undefined> =>
  (await findAccount(orm, { orgId, mode: 'paper' }))?.cash;

export async function listPaperHoldings(orm: Orm, orgId: string, eventTicker?: string) {
  const rows = await listHoldings(orm, { orgId, mode: 'paper', eventTicker }, MAX_HOLDINGS);
  return new Map(rows.map(({ ticker, ...holding }) => [ticker, holding]));
}

type Watched = typeof watchedMarkets.$inferInsert;

export async function listWatched(orm: Orm, { orgId, userId }: Omit<Watched, 'city'>) {
  const { city } = watchedMarkets;
  const own = matches(watchedMarkets, { orgId, userId });
  return new Set((await orm.select({ city }).from(watchedMarkets).where(own)).map((row) => row.city));
}

export async function setWatched(tx: Tx, watched: Watched, isWatched: boolean) {
  if (isWatched) await tx.insert(watchedMarkets).values(watched).onConflictDoNothing();
  else await tx.delete(watchedMarkets).where(matches(watchedMarkets, watched));
}

export const listPaperPurchases = (orm: Orm, orgId: string) =>
  orm
    .select({
      ticker: tradingOrders.ticker,
      side: tradingOrders.side,
      contracts: sql`(${tradingOrders.contracts} - ${tradingOrders.filledContracts})::float8`.mapWith(Number),
      limitPrice: tradingOrders.limitPrice,
      reserved: tradingOrders.reserved,
    })
    .from(tradingOrders)
    .where(
      and(
        ofAccount(tradingOrders, { orgId, mode: 'paper' }),
        eq(tradingOrders.action, 'buy'),
        // The planner matches the partial index to these literals.
        sql`${tradingOrders.status} in ('pending', 'resting')`,
      ),
    )
    .orderBy(asc(tradingOrders.id));

export interface Account {
  orgId: string;
  mode: TradeMode;
}

export const ofAccount = (table: Record<'orgId' | 'mode', AnyPgColumn>, { orgId, mode }: Account) =>
  and(eq(table.orgId, orgId), eq(table.mode, mode))!;

export const beforeAll: Account = { orgId: '00000000-0000-0000-0000-000000000000', mode: 'live' };

/**
 * Returns the cash; undefined if the account was never opened. Read everything that the lock protects only after this
 * call: a statement that waits for a lock sees other tables as they were before the wait.
 */
export async function lockAccount(tx: Orm, { orgId, mode }: Account): Promise<Micros | undefined> {
  const [row] = await queryRows(tx)<{ cash: string }>`
    select cash::text as cash from trading_accounts where org_id = ${orgId} and mode = ${mode} for update`;
  return row && BigInt(row.cash);
}

/** Opens it once even under concurrent calls. */
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

export const findAccount = (orm: Orm, account: Account) =>
  firstRow(
    orm
      .select({ cash: tradingAccounts.cash, openedAt: tradingAccounts.openedAt })
      .from(tradingAccounts)
      .where(ofAccount(tradingAccounts, account)),
  );

/** Includes closed positions. */
export async function findPosition(orm: Orm, { orgId, mode }: Account, ticker: string) {
  const [row] = await queryRows(orm)<
    { side: Side; contracts: number } & Record<'cost' | 'realised' | 'fees', string>
  >`
    select side, contracts::float8, cost::text as cost, realised::text as realised, fees::text as fees
    from trading_positions where org_id = ${orgId} and mode = ${mode} and ticker = ${ticker}`;
  return row && { ...row, cost: BigInt(row.cost), realised: BigInt(row.realised), fees: BigInt(row.fees) };
}

export function listHoldings(
  orm: Orm,
  { eventTicker, ...account }: Account & { eventTicker?: string | undefined },
  limit: number,
) {
  const { ticker, side, contracts, cost } = tradingPositions;
  return orm
    .select({ ticker, side, contracts, cost })
    .from(tradingPositions)
    .where(
      and(
        ofAccount(tradingPositions, account),
        eventTicker === undefined ? undefined : eq(tradingPositions.eventTicker, eventTicker),
        gt(contracts, 0),
      ),
    )
    .orderBy(asc(ticker))
    .limit(limit);
}

/** Reads the index once per market, however many accounts hold it. */
export async function listHeldTickers(orm: Orm, after: string, limit: number): Promise<{ ticker: string }[]> {
  const found: { ticker: string }[] = [];
  for (let last = after; found.length < limit; last = found.at(-1)!.ticker) {
    const [next] = await queryRows(orm)<{ ticker: string }>`
      select ticker from trading_positions where contracts > 0 and ticker > ${last} order by ticker limit 1`;
    if (!next) break;
    found.push(next);
  }
  return found;
}

export const listRestingTickers = (orm: Orm, limit: number) =>
  queryRows(orm)<{ ticker: string }>`
    select distinct ticker from trading_orders where status = 'resting' order by ticker limit ${limit}`;
