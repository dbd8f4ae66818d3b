import { and, asc, desc, eq, gte, inArray, isNotNull, sql, type SQL } from 'drizzle-orm';
import { textArray, firstRow, queryRow } from '../../core/db/sql.js';
import type { Orm } from '../../core/db/client.js';
import { whenKeyIsBad } from '../../accounts/api-keys/bearer-key.js';
import type { Role } from '../../accounts/organizations/table.js';
import type { Micros } from '../market/money.js';
import { liveAccounts, tradingOrders } from '../ledger/orders-table.js';
import { ledgerEntries, tradingAccounts, tradingSettlements } from '../ledger/portfolio-table.js';
import { ofAccount } from '../ledger/queries.js';
import type { OrderHint } from './account-stream.js';
import { permissions, type StoredPermissions } from '../risk/queries.js';

const MODE = 'live';
const isLive = (table: Parameters<typeof ofAccount>[0], orgId: string) =>
  ofAccount(table, { orgId, mode: MODE });

export type LiveAccountRow = typeof liveAccounts.$inferSelect;
export type LiveOrderRow = typeof tradingOrders.$inferSelect;

export const findLiveAccount = (orm: Orm, orgId: string): Promise<LiveAccountRow | undefined> =>
  firstRow(orm.select().from(liveAccounts).where(eq(liveAccounts.orgId, orgId)));

/** Opens it without cash; an existing account stays as it is. */
export async function insertAccount(tx: Orm, orgId: string, at: Date): Promise<void> {
  await tx
    .insert(tradingAccounts)
    .values({ orgId, mode: MODE, cash: 0n, openedAt: at })
    .onConflictDoNothing();
}

export async function insertLiveAccount(tx: Orm, row: LiveAccountRow): Promise<void> {
  await tx.insert(liveAccounts).values(row).onConflictDoNothing();
}

export async function updateLiveAccount(
  tx: Orm,
  orgId: string,
  values: Partial<Omit<LiveAccountRow, 'orgId' | 'openedAt'>>,
): Promise<void> {
  await tx.update(liveAccounts).set(values).where(eq(liveAccounts.orgId, orgId));
}

export async function addCash(tx: Orm, orgId: string, change: Micros): Promise<void> {
  await tx
    .update(tradingAccounts)
    .set({ cash: sql`${tradingAccounts.cash} + ${String(change)}::bigint` })
    .where(isLive(tradingAccounts, orgId));
}

export type NewEntry = typeof ledgerEntries.$inferInsert;

export async function insertEntry(tx: Orm, entry: NewEntry): Promise<void> {
  await tx.insert(ledgerEntries).values(entry);
}

/** A literal, because the planner matches the partial index only to literals. */
const isOpen = sql`${tradingOrders.status} in ('pending', 'resting')`;

/** Oldest first. */
const listOpenIf = (orm: Orm, orgId: string, condition: SQL, limit: number): Promise<LiveOrderRow[]> =>
  orm
    .select()
    .from(tradingOrders)
    .where(and(isLive(tradingOrders, orgId), isOpen, condition))
    .orderBy(asc(tradingOrders.id))
    .limit(limit);

export const listOpenOrders = (orm: Orm, orgId: string, status: 'pending' | 'resting', limit: number) =>
  listOpenIf(orm, orgId, eq(tradingOrders.status, status), limit);

/** Except those whose changes are already booked. */
export function listHinted(orm: Orm, orgId: string, hints: readonly OrderHint[], limit: number) {
  const { clientOrderId, venueOrderId, status, contracts, filledContracts } = tradingOrders;
  const column = (read: (hint: OrderHint) => string | number | null) =>
    textArray(hints.map((hint) => read(hint)?.toString() ?? null));
  return listOpenIf(
    orm,
    orgId,
    sql`exists (
          select 1 from unnest(${column((hint) => hint.venueOrderId)}::text[], ${column((hint) => hint.clientOrderId)}::text[],
            ${column((hint) => hint.fillId)}::text[], ${column((hint) => hint.filled)}::numeric[], ${column((hint) => hint.remaining)}::numeric[])
            h (id, name, fill, filled, remaining)
          where (h.id = ${venueOrderId} or h.name = ${clientOrderId}) and case
            when h.fill is null then ${status} = 'pending' or h.filled > ${filledContracts} or h.remaining < ${contracts} - ${filledContracts}
            else not exists (select 1 from trading_fills f where f.org_id = ${orgId}::uuid and f.venue_fill_id = h.fill) end
        )`,
    limit,
  );
}

/** Newest first. `fromId` is the lowest id possible at the start of the period. */
export const listOrdersSince = (orm: Orm, orgId: string, fromId: string, limit: number) =>
  orm
    .select()
    .from(tradingOrders)
    .where(and(isLive(tradingOrders, orgId), gte(tradingOrders.id, fromId)))
    .orderBy(desc(tradingOrders.id))
    .limit(limit);

export const listOrdersNamed = (orm: Orm, orgId: string, names: string[]): Promise<LiveOrderRow[]> =>
  orm
    .select()
    .from(tradingOrders)
    .where(
      and(
        eq(tradingOrders.orgId, orgId),
        sql`${tradingOrders.clientOrderId} = any(${textArray(names)}::text[])`,
      ),
    );

export function listSettledSince(orm: Orm, orgId: string, since: Date, limit: number) {
  const { ticker, side, contracts, cashChange } = tradingSettlements;
  return orm
    .select({ ticker, side, contracts, cashChange })
    .from(tradingSettlements)
    .where(
      and(
        isLive(tradingSettlements, orgId),
        gte(tradingSettlements.at, since),
        inArray(tradingSettlements.state, ['finalized', 'void']),
      ),
    )
    .orderBy(asc(tradingSettlements.at))
    .limit(limit);
}

export async function listBookedTransfers(orm: Orm, orgId: string, ids: readonly string[]) {
  if (ids.length === 0) return new Set();
  const rows = await orm
    .select({ id: ledgerEntries.transferId })
    .from(ledgerEntries)
    .where(
      and(
        eq(ledgerEntries.orgId, orgId),
        isNotNull(ledgerEntries.transferId),
        sql`${ledgerEntries.transferId} = any(${textArray(ids)}::text[])`,
      ),
    );
  return new Set(rows.map(({ id }) => id));
}

export async function countFillsSinceAdjustment(orm: Orm, orgId: string): Promise<number> {
  const ofLedger = isLive(ledgerEntries, orgId);
  const last = orm
    .select({ id: sql`max(${ledgerEntries.id}::text)::uuid` })
    .from(ledgerEntries)
    .where(and(ofLedger, inArray(ledgerEntries.kind, ['deposit', 'adjustment'])));
  const [row] = await orm
    .select({ count: sql<string>`count(*)` })
    .from(ledgerEntries)
    .where(and(ofLedger, eq(ledgerEntries.kind, 'fill'), sql`${ledgerEntries.id} > (${last})`));
  return Number(row!.count);
}

/** Equal fingerprints mean that nothing changed between them. */
export async function readFingerprint(orm: Orm, orgId: string): Promise<string> {
  const last = async (table: typeof ledgerEntries | typeof tradingOrders) => {
    const rows = await orm
      .select({ id: table.id })
      .from(table)
      .where(isLive(table, orgId))
      .orderBy(desc(table.id))
      .limit(1);
    return rows[0]?.id ?? '';
  };
  return `${await last(ledgerEntries)} ${await last(tradingOrders)}`;
}

export const SENDING_SCOPE = 'trading:write';

export interface StoredGrounds extends StoredPermissions {
  /** Null if the key is valid or a person placed the order. */
  keyProblem: string | null;
  isOfPerson: boolean;
  /** Null if the person is no member of the Organization. */
  role: Role | null;
  isArchived: boolean;
  isCancelRequested: boolean;
  /** Held, and closed by no earlier open order. */
  closable: string;
  orderGroupId: string | null;
}

/** One statement, so it is consistent. Undefined if the order does not exist. */
export const selectGrounds = (orm: Orm, { orgId, id }: { orgId: string; id: string }, at: Date) =>
  queryRow(orm)<StoredGrounds>`
    select ${permissions},
      case when o.api_key_id is not null then
        case ${sql.raw(whenKeyIsBad('given.at', SENDING_SCOPE))} end
      end as "keyProblem",
      o.user_id is not null as "isOfPerson",
      (select role from memberships where org_id = given.org_id and user_id = o.user_id) as "role",
      (select archived_at is not null from organizations where id = given.org_id) as "isArchived",
      o.cancel_requested_at is not null as "isCancelRequested",
      greatest(0, coalesce((
        select contracts from trading_positions p
        where p.org_id = given.org_id and p.mode = o.mode and p.ticker = o.ticker
          and (p.side = 'yes') = ((o.side = 'yes') = (o.action = 'sell'))
      ), 0) - coalesce((
        select sum(e.contracts - e.filled_contracts) from trading_orders e
        where e.org_id = given.org_id and e.mode = o.mode and e.status in ('pending', 'resting')
          and e.ticker = o.ticker and e.id < o.id
          and ((e.side = 'yes') = (e.action = 'sell')) = ((o.side = 'yes') = (o.action = 'sell'))
      ), 0))::text as "closable",
      (select order_group_id from live_accounts where org_id = given.org_id) as "orderGroupId"
    from (select ${orgId}::uuid as org_id, ${at.toISOString()}::timestamptz as at) given
    join trading_orders o on o.org_id = given.org_id and o.id = ${id}::uuid
    left join api_keys k on k.org_id = given.org_id and k.id = o.api_key_id`;
