import { and, eq, gt } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import type { Micros } from '../market/money.js';
import type { Holding } from '../ledger/positions.js';
import type { Taken } from '../orders/paper-book.js';
import { paperBooks } from '../ledger/orders-table.js';
import { tradingAccounts, tradingPositions } from '../ledger/portfolio-table.js';

/** What the paper account has to spend; undefined before it was opened. */
export async function findPaperCash(orm: Orm, orgId: string): Promise<Micros | undefined> {
  const [account] = await orm
    .select({ cash: tradingAccounts.cash })
    .from(tradingAccounts)
    .where(and(eq(tradingAccounts.orgId, orgId), eq(tradingAccounts.mode, 'paper')));
  return account?.cash;
}

/** What the Organization's paper orders have taken from the book with this hash. */
export async function findTaken(orm: Orm, orgId: string, ticker: string, hash: string): Promise<Taken> {
  const [row] = await orm
    .select({ taken: paperBooks.taken })
    .from(paperBooks)
    .where(and(eq(paperBooks.orgId, orgId), eq(paperBooks.ticker, ticker), eq(paperBooks.bookHash, hash)));
  return row?.taken ?? [];
}

/** More than the venue lists of all cities and days at a time. */
const MAX_HOLDINGS = 500;

/** What the paper account holds, by ticker: of an event's markets, or of all. */
export async function listPaperHoldings(
  orm: Orm,
  orgId: string,
  eventTicker?: string,
): Promise<ReadonlyMap<string, Holding>> {
  const rows = await orm
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
        eq(tradingPositions.mode, 'paper'),
        eventTicker === undefined ? undefined : eq(tradingPositions.eventTicker, eventTicker),
        gt(tradingPositions.contracts, 0),
      ),
    )
    .limit(MAX_HOLDINGS);
  return new Map(rows.map(({ ticker, ...holding }) => [ticker, holding]));
}
