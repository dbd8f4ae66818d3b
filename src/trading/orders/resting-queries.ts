import { and, asc, desc, eq, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import { tradingOrders } from '../ledger/orders-table.js';
import { ofAccount, type Account } from '../ledger/queries.js';
import type { OrderRow } from './queries.js';

// Written out, because only so it is seen to be the condition of the index.
const isResting = sql`${tradingOrders.status} = 'resting'`;

/** Paper orders of one account in one market, with how far the one that is furthest behind has seen the prints. */
export interface RestingMarket {
  ticker: string;
  orgId: string;
  since: Date;
}

/** In the order of markets and accounts, from the one after `after` on. */
export async function listRestingMarkets(
  orm: Orm,
  after: Pick<RestingMarket, 'ticker' | 'orgId'>,
  limit: number,
): Promise<RestingMarket[]> {
  const rows = await selectRows<{ ticker: string; orgId: string; since: string }>(
    orm,
    sql`select ticker, org_id as "orgId", min(prints_seen ->> 'at') as since from trading_orders
    where mode = 'paper' and status = 'resting' and (ticker, org_id) > (${after.ticker}, ${after.orgId}::uuid)
    group by ticker, org_id order by ticker, org_id limit ${limit}`,
  );
  return rows.map((row) => ({ ...row, since: new Date(row.since) }));
}

/** What an account has standing in a market's book, oldest first. As many as its limit of open orders lets be. */
export function listResting(orm: Orm, account: Account, ticker: string): Promise<OrderRow[]> {
  return orm
    .select()
    .from(tradingOrders)
    .where(and(ofAccount(tradingOrders, account), eq(tradingOrders.ticker, ticker), isResting))
    .orderBy(asc(tradingOrders.id));
}

/** On paper: what the documentation offers to cancel must not be real money. */
export async function findNewestResting(orm: Orm, orgId: string): Promise<OrderRow | undefined> {
  const [order] = await orm
    .select()
    .from(tradingOrders)
    .where(and(ofAccount(tradingOrders, { orgId, mode: 'paper' }), isResting))
    .orderBy(desc(tradingOrders.id))
    .limit(1);
  return order;
}

/** Live orders that stand in the venue's book, oldest first. */
export function listRestingLive(orm: Orm, limit: number): Promise<OrderRow[]> {
  return orm
    .select()
    .from(tradingOrders)
    .where(and(eq(tradingOrders.mode, 'live'), isResting))
    .orderBy(asc(tradingOrders.ticker), asc(tradingOrders.orgId), asc(tradingOrders.id))
    .limit(limit);
}
