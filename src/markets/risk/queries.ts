import { eq, sql } from 'drizzle-orm';
import type { Orm, Tx } from '../../core/db/client.js';
import { selectFromAll, type ReportedDatabase } from '../../core/db/shards.js';
import { queryRows } from '../../core/db/sql.js';
import { firstIdOf } from '../../core/ids.js';
import { users } from '../../accounts/organizations/table.js';
import type { TradeMode } from '../ledger/orders-table.js';
import type { Account } from '../ledger/queries.js';
import { riskLimits, serviceSwitch, tradingSwitches, type SwitchState } from '../ledger/risk-table.js';
import type { DeclaredLimits } from './limits.js';

export interface SwitchInput {
  state: SwitchState;
  reason: string | null;
}

export interface SwitchPart extends SwitchInput {
  changedAt: Date | null;
}

export interface LimitsRow extends DeclaredLimits {
  updatedAt: Date;
}

export async function findLimits(orm: Orm, orgId: string): Promise<LimitsRow | undefined> {
  const [row] = await orm.select().from(riskLimits).where(eq(riskLimits.orgId, orgId));
  if (!row) return undefined;
  const { orgId: _orgId, ...limits } = row;
  return limits;
}

export async function saveLimits(tx: Tx, orgId: string, limits: LimitsRow): Promise<void> {
  await tx
    .insert(riskLimits)
    .values({ orgId, ...limits })
    .onConflictDoUpdate({ target: riskLimits.orgId, set: limits });
}

export async function deleteLimits(tx: Tx, orgId: string): Promise<void> {
  await tx.delete(riskLimits).where(eq(riskLimits.orgId, orgId));
}

/** A switch that was never set is undefined. */
export async function findSwitches(orm: Orm, orgId: string) {
  const [row] = await orm
    .select({ service: serviceSwitch, own: tradingSwitches, userId: users.id, userName: users.name })
    .from(sql`(select 1) as one`)
    .leftJoin(serviceSwitch, sql`true`)
    .leftJoin(tradingSwitches, eq(tradingSwitches.orgId, orgId))
    .leftJoin(users, eq(users.id, tradingSwitches.ownBy));
  const { service, own, userId, userName } = row!;
  return {
    service: service ? toPart(service.state, service.reason, service.updatedAt) : undefined,
    operator: own ? toPart(own.operatorState, own.operatorReason, own.operatorAt) : undefined,
    own: own
      ? {
          ...toPart(own.ownState, own.ownReason, own.ownAt),
          /** Null if never set, or if the member's account is gone. */
          by: userId === null || userName === null ? null : { id: userId, name: userName },
        }
      : undefined,
  };
}

const toPart = (state: SwitchPart['state'], reason: string | null, changedAt: Date | null): SwitchPart => ({
  state,
  reason,
  changedAt,
});

export async function saveSwitch(
  tx: Tx,
  orgId: string,
  owner: 'operator' | 'own',
  { state, reason, changedAt, by }: SwitchPart & { by: string | null },
): Promise<void> {
  const set =
    owner === 'own'
      ? { ownState: state, ownReason: reason, ownAt: changedAt, ownBy: by }
      : { operatorState: state, operatorReason: reason, operatorAt: changedAt };
  await tx
    .insert(tradingSwitches)
    .values({ orgId, ...set })
    .onConflictDoUpdate({ target: tradingSwitches.orgId, set });
}

/** `isLocked` blocks other changes; orders can still read the switch. */
export async function findServiceSwitch(orm: Orm, { isLocked = false } = {}) {
  const query = orm.select().from(serviceSwitch);
  const [row] = await (isLocked ? query.for('no key update') : query);
  return row ? toPart(row.state, row.reason, row.updatedAt) : undefined;
}

export async function saveServiceSwitch(
  tx: Tx,
  { state, reason, changedAt }: SwitchPart & { changedAt: Date },
): Promise<void> {
  const set = { state, reason, updatedAt: changedAt };
  await tx.insert(serviceSwitch).values(set).onConflictDoUpdate({ target: serviceSwitch.id, set });
}

export interface Trader {
  slug: string;
  name: string;
  mode: TradeMode;
  /** The strictest of its switches. */
  state: SwitchState;
  orders: number;
  /** Cost of the open positions, of those in the largest event, and its limit, in micros. */
  cost: string;
  eventCost: string;
  maxEventLoss: string | null;
  maxOpenOrders: number | null;
  /** Realised minus fees, in micros. */
  result: string;
}

/** Accounts of customers with market access, by slug. */
export const listTraders = (db: ReportedDatabase, limit: number, orgId?: string): Promise<Trader[]> =>
  selectFromAll<Trader>(
    db,
    (t) => sql`
    select a.slug, a.name, a.mode, o.orders, p.cost, p."eventCost", p.result,
      l.max_event_loss::text as "maxEventLoss", l.max_open_orders as "maxOpenOrders",
      case when 'halt' in (s.operator_state, s.own_state) then 'halt'
        when 'reduce_only' in (s.operator_state, s.own_state) then 'reduce_only' else 'open' end as state
    from (
      select o.slug, o.name, a.org_id, a.mode from ${t('trading_accounts')} a
      join ${t('organizations')} o on o.id = a.org_id
      where o.market_access <> 'none' and ${orgId === undefined ? sql`o.archived_at is null` : sql`o.id = ${orgId}::uuid`}
      order by o.slug, a.mode limit ${limit}
    ) a
    left join ${t('trading_switches')} s on s.org_id = a.org_id
    left join ${t('risk_limits')} l on l.org_id = a.org_id
    cross join lateral (
      select count(*)::int as orders from ${t('trading_orders')}
      where org_id = a.org_id and mode = a.mode and status in ('pending', 'resting')
    ) o
    cross join lateral (
      select coalesce(sum(cost), 0)::text as cost, coalesce(max(cost), 0)::text as "eventCost",
        coalesce(sum(result), 0)::text as result
      from (
        select sum(cost) filter (where contracts > 0) as cost, sum(realised - fees) as result
        from ${t('trading_positions')} where org_id = a.org_id and mode = a.mode group by event_ticker
      ) events
    ) p
    order by a.slug, a.mode`,
    ({ slug, mode }) => [slug, mode],
    limit,
  );

export interface StoredSwitch {
  state: string;
  reason: string | null;
}

export interface StoredPermissions {
  access: string | null;
  service: StoredSwitch | null;
  switches: { operator: StoredSwitch; own: StoredSwitch } | null;
}

/** Selects the permissions of `given.org_id`. */
export const permissions = sql`
      (select market_access from organizations where id = given.org_id) as "access",
      (select jsonb_build_object('state', state, 'reason', reason) from service_switch) as "service",
      (select jsonb_build_object(
          'operator', jsonb_build_object('state', operator_state, 'reason', operator_reason),
          'own', jsonb_build_object('state', own_state, 'reason', own_reason))
        from trading_switches where org_id = given.org_id) as "switches"`;

/** Amounts are text: JSON numbers would round them. */
export interface StoredRisk extends StoredPermissions {
  isHere: boolean;
  cash: string | null;
  isFromToday: boolean | null;
  limits: Record<string, string | null> | null;
  positions: Record<'ticker' | 'eventTicker' | 'side' | 'contracts' | 'cost', string>[];
  pending: Record<'ticker' | 'eventTicker' | 'side' | 'action' | 'contracts' | 'limitPrice', string>[];
  /** At the last valuation before midnight. */
  equity: string | null;
  deposits: string;
  /** Counts from midnight; set only without a valuation before. */
  spent: string | null;
}

/** `replaces` is the id of an open order that does not count. */
export type RiskAccount = Account & { replaces?: string | undefined };

/** One statement. After the account's row is locked, it sees every switch and limit that was set before. */
export async function selectRisk(
  orm: Orm,
  { orgId, mode, midnight, replaces }: RiskAccount & { midnight: Date },
): Promise<StoredRisk> {
  const since = sql`${midnight.toISOString()}::timestamptz`;
  const [row] = await queryRows(orm)<StoredRisk>`
    select
      a.org_id is not null as "isHere",
      a.cash::text as "cash",
      a.opened_at >= ${since} as "isFromToday",
      ${permissions},
      (select jsonb_build_object(
          'maxOrderContracts', max_order_contracts::text, 'maxOrderCost', max_order_cost::text,
          'maxPositionContracts', max_position_contracts::text, 'maxEventLoss', max_event_loss::text,
          'maxDailyLoss', max_daily_loss::text, 'maxOpenOrders', max_open_orders::text,
          'priceCollar', price_collar::text)
        from risk_limits where org_id = given.org_id) as "limits",
      (select coalesce(jsonb_agg(jsonb_build_object(
          'ticker', ticker, 'eventTicker', event_ticker, 'side', side,
          'contracts', contracts::text, 'cost', cost::text)), '[]')
        from trading_positions
        where org_id = given.org_id and mode = given.mode and contracts > 0) as "positions",
      (select coalesce(jsonb_agg(jsonb_build_object(
          'ticker', ticker, 'eventTicker', event_ticker, 'side', side, 'action', action,
          'contracts', (contracts - filled_contracts)::text, 'limitPrice', limit_price::text)), '[]')
        from trading_orders
        where org_id = given.org_id and mode = given.mode and status in ('pending', 'resting') and id is distinct from ${replaces ?? null}::uuid) as "pending",
      (h.cash + h.liquidation)::text as "equity",
      (select coalesce(-sum(capital), 0)::text from ledger_entries
        where org_id = given.org_id and mode = given.mode and capital <> 0
          and at > coalesce(h.at, '-infinity')) as "deposits",
      case when h.at is null and a.opened_at < ${since} then
        (select coalesce(sum(fees + realised), 0)::text from ledger_entries
          where org_id = given.org_id and mode = given.mode and at >= ${since})
      end as "spent"
    from (select ${orgId}::uuid as org_id, ${mode}::text as mode) given
    left join trading_accounts a on a.org_id = given.org_id and a.mode = given.mode
    left join lateral (
      select at, cash, liquidation from portfolio_history
      where org_id = given.org_id and mode = given.mode and at < ${since}
      order by at desc limit 1
    ) h on true`;
  return row!;
}

export type LargestOrders = Awaited<ReturnType<typeof selectLargestOrders>>;

/** Counts from `midnight`. Order ids sort by time. */
export async function selectLargestOrders(
  orm: Orm,
  { orgId, mode, midnight }: { orgId: string; mode: TradeMode; midnight: Date },
) {
  const [row] = await queryRows(orm)<{ largest: string; dearest: string }>`
    select coalesce(max(contracts), 0)::text as "largest",
      coalesce(max(trunc(limit_price * contracts) + fees) filter (where action = 'buy'), 0)::text as "dearest"
    from trading_orders
    where org_id = ${orgId}::uuid and mode = ${mode} and id >= ${firstIdOf(midnight.getTime())}::uuid`;
  return { largestOrder: Number(row!.largest), dearestOrder: BigInt(row!.dearest) };
}
