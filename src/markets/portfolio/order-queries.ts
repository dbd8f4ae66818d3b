import { and, asc, between, desc, eq, getTableColumns, gt, gte, inArray, lt, sql } from 'drizzle-orm';
import { apiKeys } from '../../accounts/api-keys/table.js';
import type { Orm } from '../../core/db/client.js';
import { firstRow, matches } from '../../core/db/sql.js';
import { firstIdOf } from '../../core/ids.js';
import { memberships, users } from '../../accounts/organizations/table.js';
import {
  isOpen,
  openStatuses,
  queuePositions,
  tradingFills,
  tradingOrders,
  type OrderStatus,
  type TradeMode,
} from '../ledger/orders-table.js';
import { ledgerEntries } from '../ledger/portfolio-table.js';
import { ofAccount } from '../ledger/queries.js';

/** `reserved` also covers the rest. */
export const MAX_OPEN_ORDERS = 100;

const bigSum = (text: ReturnType<typeof sql>) => sql`coalesce((${text}), 0)::text`.mapWith(BigInt);

const fillsOf = sql`${tradingFills} f where f.org_id = ${tradingOrders.orgId} and f.order_id = ${tradingOrders.id}`;
const entriesOf = sql`${ledgerEntries} l where l.org_id = ${tradingOrders.orgId} and l.order_id = ${tradingOrders.id}`;

// Only filling and matching need these columns.
const {
  requestHash: _hash,
  exact: _exact,
  booked: _booked,
  printsSeen: _seen,
  feeRule: _rule,
  ...orderColumns
} = getTableColumns(tradingOrders);

/** Each sum reads the few rows of one order. */
const selectOrders = (orm: Orm) =>
  orm
    .select({
      ...orderColumns,
      keyName: apiKeys.name,
      keyPrefix: apiKeys.prefix,
      /** Null if the person is no longer a member. */
      personName: users.name,
      value: bigSum(sql`select sum(floor(f.price * f.contracts))::bigint from ${fillsOf}`),
      balanceChange: bigSum(sql`select sum(f.balance_change) from ${fillsOf}`),
      realised: bigSum(sql`select -sum(l.realised) from ${entriesOf}`),
    })
    .from(tradingOrders)
    .leftJoin(apiKeys, matches(apiKeys, { orgId: tradingOrders.orgId, id: tradingOrders.apiKeyId }))
    .leftJoin(memberships, matches(memberships, { orgId: tradingOrders.orgId, userId: tradingOrders.userId }))
    .leftJoin(users, eq(users.id, memberships.userId));

export type ListedOrder = NonNullable<Awaited<ReturnType<typeof findOrder>>>;

export const findOrder = (orm: Orm, orgId: string, id: string) =>
  firstRow(selectOrders(orm).where(matches(tradingOrders, { orgId, id })));

/** The beginning of a desk order's idempotency key, which names the order that it replaces. */
export const replacesKey = (id: string): string => `replaces-${id}-`;

/** The order that this one replaced, and the one that replaced it. */
export function findChanges(orm: Orm, { orgId, id, idempotencyKey }: ListedOrder) {
  const old = /^replaces-([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})-/.exec(idempotencyKey)?.[1];
  // A hexadecimal id follows, whatever the collation.
  const isNext = between(tradingOrders.idempotencyKey, replacesKey(id), `${replacesKey(id)}g`);
  const next = selectOrders(orm).where(and(eq(tradingOrders.orgId, orgId), isNext));
  return Promise.all([old && findOrder(orm, orgId, old), firstRow(next)]);
}

export const orderSorts = ['newest', 'oldest', 'market'] as const;
/** `market`: by ticker, then oldest first. */
export type OrderSort = (typeof orderSorts)[number];
export type OrderPosition = Pick<ListedOrder, 'id' | 'ticker'>;

export interface OrderFilter {
  mode: TradeMode;
  statuses?: readonly OrderStatus[] | undefined;
  seriesTickers?: readonly string[] | undefined;
  /** Inclusive. */
  from?: Date | undefined;
  /** Exclusive. */
  until?: Date | undefined;
}

interface OrderPage extends OrderFilter {
  sort: OrderSort;
  after: OrderPosition | undefined;
  limit: number;
}

const orders = {
  newest: [desc(tradingOrders.id)],
  oldest: [asc(tradingOrders.id)],
  market: [asc(tradingOrders.ticker), asc(tradingOrders.id)],
};

export const listOrders = (
  orm: Orm,
  orgId: string,
  { mode, statuses, seriesTickers, from, until, sort, after, limit }: OrderPage,
): Promise<ListedOrder[]> =>
  selectOrders(orm)
    .where(
      and(
        ofAccount(tradingOrders, { orgId, mode }),
        statuses && inArray(tradingOrders.status, [...statuses]),
        seriesTickers && inArray(tradingOrders.seriesTicker, [...seriesTickers]),
        // Ids begin with a timestamp, so their index also serves time ranges.
        from && gte(tradingOrders.id, firstIdOf(from.getTime())),
        until && lt(tradingOrders.id, firstIdOf(until.getTime())),
        after && isAfter(after, sort),
      ),
    )
    .orderBy(...orders[sort])
    .limit(limit);

/** Open ones first, then the newest. */
export async function listLatestOrders(orm: Orm, orgId: string, mode: TradeMode, limit: number) {
  const page = { mode, sort: 'newest', after: undefined } as const;
  const [open, newest] = await Promise.all([
    listOrders(orm, orgId, { ...page, statuses: openStatuses, limit: MAX_OPEN_ORDERS }),
    listOrders(orm, orgId, { ...page, limit }),
  ]);
  return [...open, ...newest.filter(({ status }) => !isOpen(status))].slice(0, Math.max(limit, open.length));
}

function isAfter({ id, ticker }: OrderPosition, sort: OrderSort) {
  if (sort === 'newest') return lt(tradingOrders.id, id);
  if (sort === 'oldest') return gt(tradingOrders.id, id);
  return sql`(${tradingOrders.ticker}, ${tradingOrders.id}) > (${ticker}, ${id}::uuid)`;
}

/** Returns the last recorded place of a live order. */
export function findPlace(orm: Orm, orgId: string, orderId: string) {
  const { at, venueAhead, paperAhead } = queuePositions;
  return firstRow(
    orm
      .select({ at, venueAhead, paperAhead })
      .from(queuePositions)
      .where(matches(queuePositions, { orgId, orderId }))
      .orderBy(desc(at))
      .limit(1),
  );
}

export const listFills = (orm: Orm, orgId: string, orderId: string, limit: number) =>
  orm
    .select()
    .from(tradingFills)
    .where(matches(tradingFills, { orgId, orderId }))
    .orderBy(asc(tradingFills.n))
    .limit(limit);
