import type { Orm } from '../../core/db/client.js';
import { findAccount, listHoldings } from '../ledger/queries.js';
import type { Holding } from '../ledger/positions.js';
import type { Micros } from '../market/money.js';

/** More than the venue lists of all cities and days at a time. */
const MAX_HOLDINGS = 500;

/** What the paper account has to spend; undefined before it was opened. */
export const findPaperCash = async (orm: Orm, orgId: string): Promise<Micros | undefined> =>
  (await findAccount(orm, { orgId, mode: 'paper' }))?.cash;

/** What the paper account holds, by ticker: of an event's markets, or of all. */
export async function listPaperHoldings(
  orm: Orm,
  orgId: string,
  eventTicker?: string,
): Promise<ReadonlyMap<string, Holding>> {
  const rows = await listHoldings(orm, { orgId, mode: 'paper', eventTicker }, MAX_HOLDINGS);
  return new Map(rows.map(({ ticker, ...holding }) => [ticker, holding]));
}
