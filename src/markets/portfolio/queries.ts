import { and, asc, desc, eq, getTableColumns, gt, inArray, sql } from 'drizzle-orm';
import type { AnyPgColumn } from 'drizzle-orm/pg-core';
import type { Orm } from '../../core/db/client.js';
import { tradingOrders, type TradeMode } from '../ledger/orders-table.js';
import type { Micros } from '../market/money.js';
import { ledgerEntries, tradingPositions, tradingSettlements } from '../ledger/portfolio-table.js';
import { ofAccount } from '../ledger/queries.js';

/** Postgres sums bigints as numeric, which arrives as text. */
const total = (column: AnyPgColumn) => sql`coalesce(sum(${column}), 0)::text`.mapWith(BigInt);

/** One row per market, so the table grows far more slowly than the ledger. */
export async function sumPositions(orm: Orm, orgId: string, mode: TradeMode) {
  const [sums] = await orm
    .select({
      cost: total(tradingPositions.cost),
      realised: total(tradingPositions.realised),
      fees: total(tradingPositions.fees),
      markets: sql`count(*)::int`.mapWith(Number),
    })
    .from(tradingPositions)
    .where(ofAccount(tradingPositions, { orgId, mode }));
  return sums!;
}

/** The order that began the position stores the label. A column of the table alone would be read as the order's own. */
const labelOf = sql<string | null>`(
  select o.label from ${tradingOrders} o
  where (o.org_id, o.mode, o.ticker) = (${tradingPositions}.org_id, ${tradingPositions}.mode, ${tradingPositions}.ticker)
  limit 1
)`;

export async function sumTransfers(orm: Orm, orgId: string, mode: TradeMode): Promise<Micros> {
  const { capital, kind } = ledgerEntries;
  const [sums] = await orm
    .select({ transfers: total(capital) })
    .from(ledgerEntries)
    // A literal, because the planner matches the partial index only to literals.
    .where(and(ofAccount(ledgerEntries, { orgId, mode }), sql`${capital} <> 0`, eq(kind, 'transfer')));
  return -sums!.transfers;
}

export type PositionRow = Awaited<ReturnType<typeof listOpenPositions>>[number];

export const listOpenPositions = (orm: Orm, orgId: string, mode: TradeMode, limit: number) =>
  orm
    .select({ ...getTableColumns(tradingPositions), label: labelOf })
    .from(tradingPositions)
    .where(and(ofAccount(tradingPositions, { orgId, mode }), gt(tradingPositions.contracts, 0)))
    .orderBy(asc(tradingPositions.ticker))
    .limit(limit);

const isOpen = (orgId: string, mode: TradeMode) =>
  and(
    ofAccount(tradingOrders, { orgId, mode }),
    // A literal, because the planner matches the partial index only to literals.
    sql`${tradingOrders.status} in ('pending', 'resting')`,
  );

export async function sumReserved(orm: Orm, orgId: string, mode: TradeMode) {
  const [sums] = await orm
    .select({ reserved: total(tradingOrders.reserved), count: sql`count(*)::int`.mapWith(Number) })
    .from(tradingOrders)
    .where(isOpen(orgId, mode));
  return sums!;
}

export type OpenOrderRow = Awaited<ReturnType<typeof listOpenOrders>>[number];

export const listOpenOrders = (orm: Orm, orgId: string, mode: TradeMode, limit: number) =>
  orm
    .select({
      id: tradingOrders.id,
      ticker: tradingOrders.ticker,
      label: tradingOrders.label,
      side: tradingOrders.side,
      action: tradingOrders.action,
      contracts: tradingOrders.contracts,
      filledContracts: tradingOrders.filledContracts,
      queueAhead: tradingOrders.queueAhead,
      status: tradingOrders.status,
      limitPrice: tradingOrders.limitPrice,
      reserved: tradingOrders.reserved,
      reason: tradingOrders.reason,
      createdAt: tradingOrders.createdAt,
    })
    .from(tradingOrders)
    .where(isOpen(orgId, mode))
    .orderBy(asc(tradingOrders.id))
    .limit(limit);

export type LastSettlementEvent = Awaited<ReturnType<typeof listLastSettlementEvents>>[number];

export async function listLastSettlementEvents(orm: Orm, orgId: string, mode: TradeMode, tickers: string[]) {
  if (tickers.length === 0) return [];
  return orm
    .selectDistinctOn([tradingSettlements.ticker])
    .from(tradingSettlements)
    .where(and(ofAccount(tradingSettlements, { orgId, mode }), inArray(tradingSettlements.ticker, tickers)))
    .orderBy(asc(tradingSettlements.ticker), desc(tradingSettlements.n));
}
