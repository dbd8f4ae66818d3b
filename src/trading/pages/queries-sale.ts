import { and, eq } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import type { Taken } from '../orders/paper-book.js';
import { paperBooks, type TradeMode } from '../ledger/orders-table.js';
import { tradingPositions } from '../ledger/portfolio-table.js';

/** A position, also one of which everything is sold. */
export async function findPosition(orm: Orm, orgId: string, mode: TradeMode, ticker: string) {
  const [row] = await orm
    .select({
      ticker: tradingPositions.ticker,
      side: tradingPositions.side,
      contracts: tradingPositions.contracts,
      cost: tradingPositions.cost,
    })
    .from(tradingPositions)
    .where(
      and(
        eq(tradingPositions.orgId, orgId),
        eq(tradingPositions.mode, mode),
        eq(tradingPositions.ticker, ticker),
      ),
    );
  return row;
}

/** What the Organization's paper orders have taken from a book already. */
export async function findTaken(orm: Orm, orgId: string, ticker: string, bookHash: string): Promise<Taken> {
  const [row] = await orm
    .select({ taken: paperBooks.taken })
    .from(paperBooks)
    .where(
      and(eq(paperBooks.orgId, orgId), eq(paperBooks.ticker, ticker), eq(paperBooks.bookHash, bookHash)),
    );
  return row?.taken ?? [];
}
