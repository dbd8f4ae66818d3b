import { and, asc, desc, eq, inArray, sql, type SQL } from 'drizzle-orm';
import { firstRow, intArray, textArray, queryRows, matches } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { DAY_MS } from '../../core/time.js';
import { listenersOf, type Listener } from '../../accounts/webhooks/outbox.js';
import type { Side } from '../market/book.js';
import type { Micros } from '../market/money.js';
import type { Position, Postings } from '../ledger/positions.js';
import type { OrderInput } from '../ledger/order-input.js';
import { ofAccount, type Account } from '../ledger/queries.js';
import type { MarketData } from '../market/source.js';
import { bookHash, withoutTaken, type Taken } from './paper-book.js';
import {
  paperBooks,
  tradingFills,
  tradingOrders,
  tradeModes,
  type ShadowPlace,
  type TradeMode,
} from '../ledger/orders-table.js';

export type OrderRow = typeof tradingOrders.$inferSelect;
export type FillRow = typeof tradingFills.$inferSelect;

export type AccountState = Awaited<ReturnType<typeof readState>>;

interface StateRow {
  id: string | null;
  requestHash: string | null;
  side: Side | null;
  contracts: number;
  cost: string;
  realised: string;
  fees: string;
  reserved: string;
  committedYes: number;
  committedNo: number;
  taken: Taken | null;
  listeners: Listener[];
}

/**
 * A single statement, planned once. The subqueries look up orders by the full key of one index: on nearly empty tables,
 * the planner considers all indexes that begin with the Organization equally good and would keep using a poor one.
 * @param bookHash hash of the book whose taken contracts are read
 */
export async function readState(
  tx: Orm,
  { orgId, mode, ticker, idempotencyKey, replaces }: OrderInput,
  bookHash: string,
) {
  const [row] = await queryRows(tx)<StateRow>`
    select o.id, o.request_hash as "requestHash", p.side, p.contracts::float8, p.cost::text as cost, p.realised::text as realised,
      p.fees::text as fees, out.reserved::text as reserved, out.yes::float8 as "committedYes", out.no::float8 as "committedNo", b.taken,
      ${listenersOf(orgId, 'trade.filled')} as listeners
    from (
      select coalesce(sum(reserved), 0) as reserved,
        coalesce(sum(contracts - filled_contracts) filter (where ticker = ${ticker} and (side = 'yes') = (action = 'sell')), 0) as yes,
        coalesce(sum(contracts - filled_contracts) filter (where ticker = ${ticker} and (side = 'no') = (action = 'sell')), 0) as no
      from trading_orders where org_id = ${orgId} and mode = ${mode} and status in ('pending', 'resting') and id is distinct from ${replaces?.id ?? null}::uuid
    ) out
    left join lateral (
      select id, request_hash from trading_orders
      where org_id = ${orgId} and idempotency_key between ${idempotencyKey} and ${idempotencyKey} order by idempotency_key limit 1
    ) o on true
    left join lateral (
      select side, contracts, cost, realised, fees from trading_positions
      where org_id = ${orgId} and mode = ${mode} and ticker between ${ticker} and ${ticker} order by ticker limit 1
    ) p on true
    left join paper_books b on b.org_id = ${orgId} and b.ticker = ${ticker} and b.book_hash = ${bookHash}`;
  const { id, requestHash, side, contracts, committedYes, committedNo, taken, listeners } = row!;
  return {
    existing: id === null ? undefined : { id, requestHash: requestHash! },
    position: side === null ? undefined : { side, contracts, ...toPositionMoney(row!) },
    reserved: BigInt(row!.reserved),
    /** Contracts of each side that open orders may still sell, or close by buying the other side. */
    committed: { yes: committedYes, no: committedNo },
    taken: taken ?? [],
    /** Listeners for the order's fills. A later query would hold up the account's next order. */
    listeners,
  };
}

const toPositionMoney = ({ cost, realised, fees }: StateRow) => ({
  cost: BigInt(cost),
  realised: BigInt(realised),
  fees: BigInt(fees),
});

/** The books from which the Organization's paper orders have taken contracts, without these. */
export async function readTakenBooks(orm: Orm, orgId: string, { books }: Pick<MarketData, 'books'>) {
  const rows = await orm.select().from(paperBooks).where(eq(paperBooks.orgId, orgId));
  return new Map(
    rows.flatMap(({ ticker, bookHash: hash, taken }) => {
      const book = books.get(ticker);
      return book && bookHash(book) === hash ? [[ticker, withoutTaken(book, taken)]] : [];
    }),
  );
}

export interface WrittenFill extends Omit<FillRow, 'orgId' | 'orderId' | 'balanceChange'> {
  ledgerId: string;
  postings: Postings;
}

export interface Execution {
  order: OrderRow;
  isNew: boolean;
  filled?: { fills: WrittenFill[]; position: Position | undefined; cashChange: Micros };
  at: Date;
  /** Liquidity that paper orders, including this one, have taken from the market's book; undefined for live orders. */
  book?: { hash: string; taken: Taken; forgetBefore: Date };
  /** The part of a new live order that paper trading would have filled immediately. */
  shadow?: { contracts: number; value: Micros; fees: Micros };
  /** Paper queue position of a new live order that may rest. */
  place?: { paperAhead: number | null; seen: ShadowPlace } | undefined;
}

/** Writes an order and all its consequences in one statement. Call it under the account's lock. */
export async function writeExecution(tx: Orm, execution: Execution): Promise<void> {
  const { order, isNew, filled, at, book, shadow, place } = execution;
  const { orgId, mode, ticker, id } = order;
  const time = at.toISOString();
  const parts: SQL[] = [isNew ? insertOrder(order) : updateOrder(order)];
  if (shadow)
    parts.push(sql`
    shadowed as (
      insert into execution_marks (org_id, order_id, n, mode, ticker, side, action, contracts, value, fees, at)
      values (${orgId}, ${id}, 0, ${mode}, ${ticker}, ${order.side}, ${order.action}, ${shadow.contracts}, ${String(shadow.value)}::bigint, ${String(shadow.fees)}::bigint,
        ${time}::timestamptz)
    )`);
  if (place)
    parts.push(sql`
    placed as (
      insert into queue_positions (org_id, order_id, at, paper_ahead, prints_seen)
      values (${orgId}, ${id}, ${time}::timestamptz, ${place.paperAhead}, ${JSON.stringify(place.seen)}::jsonb)
    )`);
  if (filled && filled.fills.length > 0) {
    parts.push(...insertFills(order, filled.fills));
    const { side, contracts, cost, realised, fees } = filled.position!;
    parts.push(sql`
    held as (
      insert into trading_positions as p (org_id, mode, ticker, event_ticker, side, contracts, cost, realised, fees, opened_at, updated_at)
      values (${orgId}, ${mode}, ${ticker}, ${order.eventTicker}, ${side}, ${contracts}, ${String(cost)}::bigint, ${String(realised)}::bigint, ${String(fees)}::bigint,
        ${time}::timestamptz, ${time}::timestamptz)
      on conflict (org_id, mode, ticker) do update set side = excluded.side, contracts = excluded.contracts, cost = excluded.cost,
        realised = excluded.realised, fees = excluded.fees, updated_at = excluded.updated_at,
        opened_at = case when p.contracts = 0 then excluded.opened_at else p.opened_at end
    )`);
    if (book)
      parts.push(
        sql`
    taken as (
      insert into paper_books (org_id, ticker, book_hash, taken, updated_at)
      values (${orgId}, ${ticker}, ${book.hash}, ${JSON.stringify(book.taken)}::jsonb, ${time}::timestamptz)
      on conflict (org_id, ticker, book_hash) do update set taken = excluded.taken, updated_at = excluded.updated_at
    )`,
        sql`
    forgotten as (
      delete from paper_books where org_id = ${orgId} and ticker = ${ticker} and book_hash <> ${book.hash}
        and updated_at < ${book.forgetBefore.toISOString()}::timestamptz
    )`,
      );
    parts.push(
      sql`
    spent as (update trading_accounts set cash = cash + ${String(filled.cashChange)}::bigint where org_id = ${orgId} and mode = ${mode})`,
    );
  }
  await tx.execute(sql`with ${sql.join(parts, sql`, `)} select ${id}::text`);
}

const toSqlTime = (time: Date | null): string | null => time && time.toISOString();

const insertOrder = (o: OrderRow): SQL => sql`
    written as (
      insert into trading_orders (org_id, id, mode, idempotency_key, request_hash, client_order_id, venue_order_id, ticker, event_ticker, series_ticker, label,
        side, action, contracts, limit_price, time_in_force, status, reason, filled_contracts, exact, booked, fees, reserved, expires_at, post_only, cancel_on, queue_ahead, prints_seen,
        fee_rule, book_fetched_at, api_key_id, user_id, created_at, sent_at, finished_at)
      values (${o.orgId}, ${o.id}, ${o.mode}, ${o.idempotencyKey}, ${o.requestHash}, ${o.clientOrderId}, ${o.venueOrderId}, ${o.ticker}, ${o.eventTicker}, ${o.seriesTicker}, ${o.label},
        ${o.side}, ${o.action}, ${o.contracts}, ${String(o.limitPrice)}::bigint, ${o.timeInForce}, ${o.status}, ${o.reason}, ${o.filledContracts},
        ${String(o.exact)}::bigint, ${String(o.booked)}::bigint, ${String(o.fees)}::bigint, ${String(o.reserved)}::bigint,
        ${toSqlTime(o.expiresAt)}::timestamptz, ${o.postOnly}, ${textArray(o.cancelOn)}::text[], ${o.queueAhead}, ${o.printsSeen && JSON.stringify(o.printsSeen)}::jsonb, ${JSON.stringify(o.feeRule)}::jsonb,
        ${o.bookFetchedAt.toISOString()}::timestamptz, ${o.apiKeyId}, ${o.userId}, ${o.createdAt.toISOString()}::timestamptz,
        ${toSqlTime(o.sentAt)}::timestamptz, ${toSqlTime(o.finishedAt)}::timestamptz)
    )`;

const updateOrder = (o: OrderRow): SQL => sql`
    written as (
      update trading_orders set venue_order_id = ${o.venueOrderId}, status = ${o.status}, reason = ${o.reason}, filled_contracts = ${o.filledContracts},
        exact = ${String(o.exact)}::bigint, booked = ${String(o.booked)}::bigint, fees = ${String(o.fees)}::bigint, reserved = ${String(o.reserved)}::bigint,
        contracts = ${o.contracts}, cancel_requested_at = ${toSqlTime(o.cancelRequestedAt)}::timestamptz, cancel_reason = ${o.cancelReason},
        unknown_since = ${toSqlTime(o.unknownSince)}::timestamptz,
        queue_ahead = ${o.queueAhead}, prints_seen = ${o.printsSeen && JSON.stringify(o.printsSeen)}::jsonb, finished_at = ${toSqlTime(o.finishedAt)}::timestamptz
      where org_id = ${o.orgId} and id = ${o.id}
    )`;

function insertFills({ orgId, id, mode, ticker }: OrderRow, fills: readonly WrittenFill[]): SQL[] {
  const list = (valueOf: (fill: WrittenFill) => string | number | bigint) =>
    `{${fills.map(valueOf).join(',')}}`;
  const n = intArray(fills.map((fill) => fill.n));
  const times = list(({ filledAt }) => filledAt.toISOString());
  return [
    sql`
    filled as (
      insert into trading_fills (org_id, order_id, n, price, contracts, fee, balance_change, filled_at, venue_fill_id, near_extreme)
      select ${orgId}::uuid, ${id}::uuid, f.* from unnest(${n}::int[], ${list(({ price }) => price)}::bigint[], ${list(({ contracts }) => contracts)}::numeric[],
        ${list(({ fee }) => fee)}::bigint[], ${list(({ postings }) => postings.cash)}::bigint[], ${times}::timestamptz[],
        ${textArray(fills.map(({ venueFillId }) => venueFillId))}::text[], ${list(({ nearExtreme }) => String(nearExtreme))}::boolean[]) f
    )`,
    sql`
    posted as (
      insert into ledger_entries (org_id, mode, kind, ticker, order_id, fill_n, id, at, cash, positions, fees, realised, capital)
      select ${orgId}::uuid, ${mode}, 'fill', ${ticker}, ${id}::uuid, e.* from unnest(${n}::int[], ${list(({ ledgerId }) => ledgerId)}::uuid[], ${times}::timestamptz[],
        ${list(({ postings }) => postings.cash)}::bigint[], ${list(({ postings }) => postings.positions)}::bigint[], ${list(({ postings }) => postings.fees)}::bigint[],
        ${list(({ postings }) => postings.realised)}::bigint[], ${list(({ postings }) => postings.capital)}::bigint[]) e
    )`,
  ];
}

export async function findTrade(orm: Orm, orgId: string, by: { id: string } | { idempotencyKey: string }) {
  const isIt = 'id' in by ? eq(tradingOrders.id, by.id) : eq(tradingOrders.idempotencyKey, by.idempotencyKey);
  const [order] = await orm
    .select()
    .from(tradingOrders)
    .where(and(eq(tradingOrders.orgId, orgId), isIt));
  if (!order) return undefined;
  return { order, fills: await listFills(orm, orgId, [order.id]) };
}

export const listFills = (orm: Orm, orgId: string, orderIds: string[]): Promise<FillRow[]> =>
  orm
    .select()
    .from(tradingFills)
    .where(and(eq(tradingFills.orgId, orgId), inArray(tradingFills.orderId, orderIds)))
    .orderBy(tradingFills.orderId, tradingFills.n);

export function listOrders(orm: Orm, { orgId, mode, ticker, cursor, limit }: ListFilter) {
  const modes = mode ? [mode] : tradeModes;
  // Merges one page per mode, so that each mode's orders are read from the end of an index, and at most one page of
  // them.
  const page = (of: TradeMode) => sql`(
    select id from trading_orders where org_id = ${orgId} and mode = ${of}
      ${ticker === undefined ? sql`` : sql`and ticker = ${ticker}`}
      ${cursor === undefined ? sql`` : sql`and id < ${cursor}`}
    order by id desc limit ${limit})`;
  const ids = sql`${sql.join(modes.map(page), sql` union all `)}`;
  return orm
    .select()
    .from(tradingOrders)
    .where(and(eq(tradingOrders.orgId, orgId), sql`${tradingOrders.id} in (${ids})`))
    .orderBy(desc(tradingOrders.id))
    .limit(limit);
}

export interface ListFilter {
  orgId: string;
  mode?: TradeMode | undefined;
  ticker?: string | undefined;
  cursor?: string | undefined;
  limit: number;
}

// A literal, because the planner matches the partial index only to literal conditions.
const isResting = sql`${tradingOrders.status} = 'resting'`;

/** An account with resting paper orders in a market, and the oldest print watermark among them. */
export type RestingMarket = Awaited<ReturnType<typeof listRestingMarkets>>[number];

export async function listRestingMarkets(orm: Orm, after: { ticker: string; orgId: string }, limit: number) {
  const rows = await queryRows(orm)<{ ticker: string; orgId: string; since: string }>`
    select ticker, org_id as "orgId", min(prints_seen ->> 'at') as since from trading_orders
    where mode = 'paper' and status = 'resting' and (ticker, org_id) > (${after.ticker}, ${after.orgId}::uuid)
    group by ticker, org_id order by ticker, org_id limit ${limit}`;
  return rows.map((row) => ({ ...row, since: new Date(row.since) }));
}

/** Oldest first. The account's limit on open orders bounds the list. */
export const listResting = (orm: Orm, account: Account, ticker: string): Promise<OrderRow[]> =>
  orm
    .select()
    .from(tradingOrders)
    .where(and(ofAccount(tradingOrders, account), eq(tradingOrders.ticker, ticker), isResting))
    .orderBy(asc(tradingOrders.id));

/** Paper only: the documentation must not suggest cancelling a live order. */
export const findNewestResting = (orm: Orm, orgId: string): Promise<OrderRow | undefined> =>
  firstRow(
    orm
      .select()
      .from(tradingOrders)
      .where(and(ofAccount(tradingOrders, { orgId, mode: 'paper' }), isResting))
      .orderBy(desc(tradingOrders.id))
      .limit(1),
  );

export const listRestingLive = (orm: Orm, limit: number): Promise<OrderRow[]> =>
  orm
    .select()
    .from(tradingOrders)
    .where(and(eq(tradingOrders.mode, 'live'), isResting))
    .orderBy(asc(tradingOrders.ticker), asc(tradingOrders.orgId), asc(tradingOrders.id))
    .limit(limit);

const LEARNED_DAYS = 30;
const ENOUGH_ORDERS = 30;

/**
 * Estimates from the account's live orders how far off the paper queue is. `orders` counts those for which the venue
 * has reported a queue position. `factor` multiplies the queue ahead of a new paper order. Without enough orders, it is
 * 1. Otherwise, it is one plus the median difference between the venue's first number and the paper queue's, as a share
 * of the contracts that the book showed at the order's price when the order was sent.
 */
export async function readQueueCorrection(orm: Orm, orgId: string, at: Date) {
  const since = new Date(at.getTime() - LEARNED_DAYS * DAY_MS).toISOString();
  const [row] = await queryRows(orm)<{ orders: number; median: number | null }>`
    select count(*)::int as orders, percentile_cont(0.5) within group (order by gap / shown)::float8 as median
    from (
      select (array_agg((prints_seen ->> 'atPrice')::numeric order by at))[1] as shown,
        (array_agg(venue_ahead - paper_ahead order by at) filter (where venue_ahead - paper_ahead is not null))[1] as gap
      from queue_positions where org_id = ${orgId}::uuid and at >= ${since}::timestamptz group by order_id
    ) o
    where shown > 0 and gap is not null`;
  const { orders, median } = row!;
  return { orders, factor: orders < ENOUGH_ORDERS ? 1 : Math.max(0, 1 + median!) };
}

/** A live order whose last request to the venue is in flight, or whose outcome is unknown. */
export type UnresolvedOrder = Awaited<ReturnType<typeof listUnresolved>>[number];

/** A response that takes longer than this is overdue. */
const OVERDUE_MS = 10_000;

/** Oldest first; limited to one market if `ticker` is given. */
export async function listUnresolved(
  orm: Orm,
  orgId: string,
  { ticker, at, limit }: { ticker?: string; at: Date; limit: number },
) {
  const { id, label, reason, status, unknownSince, sentAt } = tradingOrders;
  const rows = await orm
    .select({ id, ticker: tradingOrders.ticker, label, reason, unknownSince, sentAt })
    .from(tradingOrders)
    .where(
      and(
        ofAccount(tradingOrders, { orgId, mode: 'live' }),
        sql`${status} in ('pending', 'resting')`,
        sql`(${unknownSince} is not null or (${status} = 'pending' and ${sentAt} is not null))`,
        ticker === undefined ? undefined : eq(tradingOrders.ticker, ticker),
      ),
    )
    .orderBy(sql`coalesce(${unknownSince}, ${sentAt})`, asc(id))
    .limit(limit);
  return rows.map(({ unknownSince: unknown, sentAt: sent, ...row }) => {
    const since = (unknown ?? sent)!;
    const isOverdue = at.getTime() - since.getTime() > OVERDUE_MS;
    // The response is overdue or was lost.
    return { ...row, since, isLost: isOverdue || (unknown !== null && row.reason !== null) };
  });
}

export const describeUnresolved = ({ ticker, since }: UnresolvedOrder): string =>
  `the outcome of an earlier order in ${ticker} has been unknown since ${since.toISOString()}`;

export async function markSent(tx: Orm, { orgId, id }: Pick<OrderRow, 'orgId' | 'id'>, at: Date) {
  await tx.update(tradingOrders).set({ sentAt: at }).where(matches(tradingOrders, { orgId, id }));
}
