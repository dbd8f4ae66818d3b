import { and, asc, getTableColumns, inArray, lt, sql, type SQL } from 'drizzle-orm';
import { getTableConfig, type PgTable } from 'drizzle-orm/pg-core';
import { textArray, queryRows, matches } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { paperBooks, queuePositions } from '../ledger/orders-table.js';
import {
  ledgerEntries,
  tradingAccounts,
  tradingPositions,
  tradingSettlements,
} from '../ledger/portfolio-table.js';
import { ofAccount, type Account } from '../ledger/queries.js';
import type { SettlementEvent } from './settlement-event.js';

export const listRecentTickers = (orm: Orm, since: Date, after: string, limit: number) =>
  queryRows(orm)<{ ticker: string }>`select distinct ticker from trading_settlements
    where at >= ${since.toISOString()}::timestamptz and ticker > ${after}
    order by ticker limit ${limit}`;

function eventRows(events: ReadonlyMap<string, SettlementEvent>): SQL {
  const column = (name: 'state' | 'value' | 'temperature') =>
    textArray([...events.values()].map((event) => event[name]?.toString() ?? null));
  return sql`unnest(
    ${textArray([...events.keys()])}::text[], ${column('state')}::text[],
    ${column('value')}::bigint[], ${column('temperature')}::float8[]
  ) as w(ticker, state, value, temperature)`;
}

/** As `isNews` in settlement-event.ts. */
const isNews = (last: SQL): SQL => sql`(
  ${last}.state <> w.state or ${last}.value is distinct from w.value
  or (w.temperature is not null and ${last}.temperature is distinct from w.temperature)
) and (w.state <> 'provisional' or ${last}.state = 'provisional')
  and (w.state <> 'determined' or ${last}.state not in ('finalized', 'void'))`;

/** By account key. */
export type ListAccounts = (
  orm: Orm,
  events: ReadonlyMap<string, SettlementEvent>,
  after: Account,
  limit: number,
) => Promise<Account[]>;

/** With a position that can be paid now, or with no record of one of these events. */
export const listHolders: ListAccounts = (orm, events, after, limit) =>
  queryRows(orm)<Account>`select distinct p.org_id as "orgId", p.mode
    from ${eventRows(events)}
    join trading_positions p on p.ticker = w.ticker and p.contracts > 0
    left join lateral (
      select s.state, s.value, s.temperature from trading_settlements s
      where s.org_id = p.org_id and s.mode = p.mode and s.ticker = p.ticker
      order by s.n desc limit 1
    ) last on true
    where (p.org_id, p.mode) > (${after.orgId}::uuid, ${after.mode})
      and (w.state in ('finalized', 'void') or last.state is null or (${isNews(sql`last`)}))
    order by p.org_id, p.mode limit ${limit}`;

/** The last recorded event differs from the current one. */
export const listOutdatedAccounts: ListAccounts = (orm, events, after, limit) =>
  queryRows(orm)<Account>`select distinct s.org_id as "orgId", s.mode
    from ${eventRows(events)}
    join trading_settlements s on s.ticker = w.ticker
    where (s.org_id, s.mode) > (${after.orgId}::uuid, ${after.mode})
      and ${isNews(sql`s`)}
      and not exists (
        select from trading_settlements later
        where later.org_id = s.org_id and later.mode = s.mode and later.ticker = s.ticker and later.n > s.n
      )
    order by s.org_id, s.mode limit ${limit}`;

export const readPositions = (tx: Orm, account: Account, tickers: string[]) =>
  tx
    .select()
    .from(tradingPositions)
    .where(and(ofAccount(tradingPositions, account), inArray(tradingPositions.ticker, tickers)));

export const readRecorded = (tx: Orm, account: Account, tickers: string[]) =>
  tx
    .select({
      ...getTableColumns(tradingSettlements),
      isClosing: sql`coalesce(${ledgerEntries.kind} = 'settlement', false)`.mapWith(Boolean),
    })
    .from(tradingSettlements)
    .leftJoin(
      ledgerEntries,
      matches(ledgerEntries, {
        orgId: tradingSettlements.orgId,
        mode: tradingSettlements.mode,
        ticker: tradingSettlements.ticker,
        settlementN: tradingSettlements.n,
      }),
    )
    .where(and(ofAccount(tradingSettlements, account), inArray(tradingSettlements.ticker, tickers)))
    .orderBy(asc(tradingSettlements.ticker), asc(tradingSettlements.n));

/** Also corrects the profit of closed ones. No position stays open in a market that has been paid out. */
export async function closePositions(
  tx: Orm,
  { orgId, mode }: Account,
  earned: ReadonlyMap<string, bigint>,
  at: Date,
): Promise<void> {
  await tx.execute(sql`
    update trading_positions p
    set contracts = 0, cost = 0, realised = p.realised + e.realised, updated_at = ${at.toISOString()}::timestamptz
    from unnest(
      ${textArray([...earned.keys()])}::text[], ${textArray([...earned.values()].map(String))}::bigint[]
    ) as e(ticker, realised)
    where p.org_id = ${orgId}::uuid and p.mode = ${mode} and p.ticker = e.ticker`);
}

/** Below zero if necessary: a payout that the venue takes back may already have been spent. */
export async function moveCash(tx: Orm, account: Account, change: bigint): Promise<void> {
  const cash = sql`${tradingAccounts.cash} + ${String(change)}::bigint`;
  await tx
    .update(tradingAccounts)
    .set({ cash, overdrawn: sql`greatest(0, -(${cash}))` })
    .where(ofAccount(tradingAccounts, account));
}

const DELETED_AT_ONCE = 5_000;

async function deleteOld(orm: Orm, table: PgTable, isOld: SQL): Promise<void> {
  const key = sql.join(getTableConfig(table).primaryKeys[0]!.columns, sql`, `);
  for (;;) {
    const deleted = await queryRows(orm)<{ org_id: string }>`
      delete from ${table} where (${key}) in (select ${key} from ${table} where ${isOld} limit ${DELETED_AT_ONCE}) returning org_id`;
    if (deleted.length < DELETED_AT_ONCE) return;
  }
}

export const deleteOldPaperBooks = (orm: Orm, before: Date): Promise<void> =>
  deleteOld(orm, paperBooks, lt(paperBooks.updatedAt, before));

export const deleteOldQueuePositions = (orm: Orm, before: Date): Promise<void> =>
  deleteOld(orm, queuePositions, lt(queuePositions.at, before));
