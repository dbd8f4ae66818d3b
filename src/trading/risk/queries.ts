import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import type { TradeMode } from '../ledger/orders-table.js';

/** A switch as it is stored; null if nobody has touched it. */
export interface StoredSwitch {
  state: string;
  reason: string | null;
}

/** The account as the database has it: amounts are text, since JSON numbers would round them. */
export interface StoredRisk {
  isHere: boolean;
  cash: string | null;
  isFromToday: boolean | null;
  service: StoredSwitch | null;
  switches: { operator: StoredSwitch; own: StoredSwitch } | null;
  limits: Record<string, string | null> | null;
  positions: Record<'ticker' | 'eventTicker' | 'side' | 'contracts' | 'cost', string>[];
  pending: Record<'ticker' | 'eventTicker' | 'side' | 'action' | 'contracts' | 'limitPrice', string>[];
  /** At the last valuation before midnight. */
  equity: string | null;
  deposits: string;
  /** Fees and losses since midnight; only where nothing was valued before it. */
  spent: string | null;
}

/**
 * Everything that an order is judged on, as of one moment: one statement. Read in the transaction that writes the order,
 * after the account's row was locked, it sees every switch and limit that was set before.
 */
export async function selectRisk(
  orm: Orm,
  { orgId, mode, midnight }: { orgId: string; mode: TradeMode; midnight: Date },
): Promise<StoredRisk> {
  const since = sql`${midnight.toISOString()}::timestamptz`;
  const [row] = await selectRows<StoredRisk>(
    orm,
    sql`
    select
      a.org_id is not null as "isHere",
      a.cash::text as "cash",
      a.opened_at >= ${since} as "isFromToday",
      (select jsonb_build_object('state', state, 'reason', reason) from service_switch) as "service",
      (select jsonb_build_object(
          'operator', jsonb_build_object('state', operator_state, 'reason', operator_reason),
          'own', jsonb_build_object('state', own_state, 'reason', own_reason))
        from trading_switches where org_id = given.org_id) as "switches",
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
        where org_id = given.org_id and mode = given.mode and status = 'pending') as "pending",
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
    ) h on true`,
  );
  return row!;
}

export interface LargestOrders {
  largestOrder: number;
  dearestOrder: bigint;
}

/** What the account's orders since `midnight` have asked for at the most. Their ids are in the order of time. */
export async function selectLargestOrders(
  orm: Orm,
  { orgId, mode, midnight }: { orgId: string; mode: TradeMode; midnight: Date },
): Promise<LargestOrders> {
  const firstId = `${midnight.getTime().toString(16).padStart(12, '0')}${'0'.repeat(20)}`;
  const [row] = await selectRows<{ largest: string; dearest: string }>(
    orm,
    sql`
    select coalesce(max(contracts), 0)::text as "largest",
      coalesce(max(trunc(limit_price * contracts)) filter (where action = 'buy'), 0)::text as "dearest"
    from trading_orders
    where org_id = ${orgId}::uuid and mode = ${mode} and id >= ${firstId}::uuid`,
  );
  return { largestOrder: Number(row!.largest), dearestOrder: BigInt(row!.dearest) };
}
