import { isNull, sql, type SQL } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { timeText, queryRows } from '../../core/db/sql.js';
import {
  queuePositions,
  type ShadowPlace,
  type TradeMode,
  type tradingOrders,
} from '../ledger/orders-table.js';
import type { Side } from '../market/book.js';
import { perContract, valueOf } from '../market/contracts.js';
import { DOLLAR, type Micros } from '../market/money.js';
import { executionMarks } from './table.js';

/** Seconds after a fill. */
export const horizons = [15, 30, 60] as const;

/** A fill, or the shadow paper fill of a live order (`n` is 0). */
export interface DueMark extends Omit<
  typeof executionMarks.$inferSelect,
  'markedAt' | 'missed' | 'after15' | 'after30' | 'after60'
> {
  /** Per contract. */
  price: Micros;
  hasTaken: boolean;
}

export interface PriceMark {
  missed: boolean | null;
  /** Prices in the order of `horizons`. */
  after: (Micros | null)[];
}

interface Span {
  from: Date;
  until: Date;
  limit: number;
}

type DueRow = Omit<DueMark, 'price' | 'value' | 'fees' | 'at' | 'n' | 'hasTaken'> & {
  fees: string;
  at: string;
};

/** Such orders never rest, so all of their fills are immediate. */
const takesAtOnce = sql`o.time_in_force in ('immediate_or_cancel', 'fill_or_kill')`;

export async function listDueFills(orm: Orm, { from, until, limit }: Span): Promise<DueMark[]> {
  const rows = await queryRows(orm)<DueRow & { n: number; price: string; hasTaken: boolean }>`
    select f.org_id as "orgId", f.order_id as "orderId", f.n, o.mode, o.ticker, o.side, o.action, f.contracts::float8, f.price::text,
      f.fee::text as fees, ${timeText(sql`f.filled_at`)} as at, ${takesAtOnce} as "hasTaken"
    from trading_fills f
    join trading_orders o on o.org_id = f.org_id and o.id = f.order_id
    left join execution_marks m on m.org_id = f.org_id and m.order_id = f.order_id and m.n = f.n
    where f.filled_at > ${from.toISOString()}::timestamptz and f.filled_at <= ${until.toISOString()}::timestamptz and m.n is null
    order by f.filled_at, f.order_id, f.n limit ${limit}`;
  return rows.map((row) => {
    const price = BigInt(row.price);
    const value = valueOf(price, row.contracts);
    return { ...row, price, value, fees: BigInt(row.fees), at: new Date(row.at) };
  });
}

export async function listDueShadows(orm: Orm, { from, until, limit }: Span): Promise<DueMark[]> {
  const rows = await queryRows(orm)<DueRow & { value: string }>`
    select org_id as "orgId", order_id as "orderId", mode, ticker, side, action, contracts::float8, value::text, fees::text, ${timeText(sql`at`)} as at
    from execution_marks
    where marked_at is null and at > ${from.toISOString()}::timestamptz and at <= ${until.toISOString()}::timestamptz
    order by at, order_id limit ${limit}`;
  return rows.map((row) => {
    const value = BigInt(row.value);
    const price = row.contracts === 0 ? DOLLAR : perContract(value, row.contracts);
    return { ...row, n: 0, price, value, fees: BigInt(row.fees), at: new Date(row.at), hasTaken: false };
  });
}

/** Leaves existing marks unchanged. */
export async function writeMarks(orm: Orm, marks: readonly (DueMark & PriceMark)[], markedAt: Date) {
  const rows = marks.map(({ after: [after15, after30, after60], ...mark }) => ({
    ...mark,
    markedAt,
    after15,
    after30,
    after60,
  }));
  const { orgId, orderId, n } = executionMarks;
  await orm
    .insert(executionMarks)
    .values(rows)
    .onConflictDoUpdate({
      target: [orgId, orderId, n],
      set: {
        markedAt: sql`excluded.marked_at`,
        after15: sql`excluded.after_15`,
        after30: sql`excluded.after_30`,
        after60: sql`excluded.after_60`,
      },
      setWhere: isNull(executionMarks.markedAt),
    });
}

type ShownOrder = 'orgId' | 'id' | 'ticker' | 'side' | 'action' | 'limitPrice' | 'venueOrderId';

/** Has its last known queue position. */
export interface QueuedLive
  extends
    Pick<typeof tradingOrders.$inferSelect, ShownOrder>,
    Pick<typeof queuePositions.$inferSelect, 'venueAhead' | 'paperAhead'> {
  remaining: number;
  seen: ShadowPlace;
}

/** Oldest first within each market. */
export async function listShadowedResting(orm: Orm, limit: number): Promise<QueuedLive[]> {
  const rows = await queryRows(orm)<Omit<QueuedLive, 'limitPrice'> & { limitPrice: string }>`
    select o.org_id as "orgId", o.id, o.ticker, o.side, o.action, o.limit_price::text as "limitPrice",
      (o.contracts - o.filled_contracts)::float8 as remaining, o.venue_order_id as "venueOrderId", q.venue_ahead::float8 as "venueAhead",
      q.paper_ahead::float8 as "paperAhead", q.prints_seen as seen
    from trading_orders o
    join lateral (
      select venue_ahead, paper_ahead, prints_seen from queue_positions
      where org_id = o.org_id and order_id = o.id order by at desc limit 1
    ) q on true
    where o.mode = 'live' and o.status = 'resting' order by o.ticker, o.org_id, o.id limit ${limit}`;
  return rows.map((row) => ({ ...row, limitPrice: BigInt(row.limitPrice) }));
}

export async function insertPlaces(orm: Orm, rows: readonly (typeof queuePositions.$inferInsert)[]) {
  if (rows.length > 0)
    await orm
      .insert(queuePositions)
      .values([...rows])
      .onConflictDoNothing();
}

/** `until` is exclusive. */
export interface ExecutionPeriod {
  orgId: string;
  from: Date;
  until: Date;
}

/** A purchase gains when the price rises. */
const direction = sql`case m.action when 'buy' then 1 else -1 end`;
const settledValue = sql`case m.side when 'yes' then s.value else ${String(DOLLAR)}::bigint - s.value end`;

const marksOf = ({ orgId, from, until }: ExecutionPeriod, mode: TradeMode, n: SQL): SQL => sql`
  execution_marks m
  left join (
    select distinct on (ticker) ticker, state, value from trading_settlements
    where org_id = ${orgId}::uuid and mode = ${mode} order by ticker, n desc
  ) s on s.ticker = m.ticker and s.state = 'finalized'
  where m.org_id = ${orgId}::uuid and m.mode = ${mode} and m.at >= ${from.toISOString()}::timestamptz
    and m.at < ${until.toISOString()}::timestamptz and ${n}`;

/** In fractional millionths of a dollar; null if the price is unknown. */
const gainAt = (price: SQL): SQL => sql`${direction} * (${price} * m.contracts - m.value)`;
const roundedSum = (amount: SQL, filter: SQL): SQL =>
  sql`round(sum(${amount}) filter (where ${filter}))::text`;

export type FillSums = Awaited<ReturnType<typeof sumFills>>;

/** @param isNear only fills near the extreme of the day so far, which are left out otherwise */
export async function sumFills(orm: Orm, period: ExecutionPeriod, mode: TradeMode, isNear = false) {
  const columns = [sql`m.after_15`, sql`m.after_30`, sql`m.after_60`];
  const ends = [sql`m.after_60`, settledValue];
  const [row] = await queryRows(orm)<Record<string, string | number | null>>`
    select count(*)::int as fills, coalesce(sum(m.contracts), 0)::float8 as contracts, coalesce(sum(m.fees), 0)::text as fees,
      count(m.missed)::int as judged, (count(*) filter (where m.missed))::int as missed,
      coalesce(sum(m.contracts) filter (where m.missed), 0)::float8 as "missedContracts",
      ${sql.join(
        columns.map(
          (price, i) => sql`count(${price})::int as ${sql.identifier(`n${i}`)},
        coalesce(sum(m.contracts) filter (where ${price} is not null), 0)::float8 as ${sql.identifier(`c${i}`)},
        ${roundedSum(gainAt(price), sql`true`)} as ${sql.identifier(`g${i}`)}`,
        ),
        sql`, `,
      )},
      ${sql.join(
        ends.map(
          (price, i) => sql`count(${price})::int as ${sql.identifier(`e${i}`)},
        ${roundedSum(sql`${gainAt(price)} - m.fees`, sql`true`)} as ${sql.identifier(`p${i}`)},
        ${roundedSum(sql`${gainAt(price)} - m.fees`, sql`m.missed`)} as ${sql.identifier(`q${i}`)}`,
        ),
        sql`, `,
      )}
    from ${marksOf(period, mode, sql`m.n > 0`)} and ${isNear} = exists (
      select 1 from trading_fills f where f.org_id = m.org_id and f.order_id = m.order_id and f.n = m.n and f.near_extreme
    )`;
  const number = (name: string) => Number(row![name]);
  const amount = (name: string) => toMicros(row![name]);
  return {
    fills: number('fills'),
    contracts: number('contracts'),
    fees: amount('fees')!,
    judged: number('judged'),
    missed: number('missed'),
    missedContracts: number('missedContracts'),
    /** Fills whose price at that time is known, and their gain before fees. */
    after: columns.map((_, i) => ({
      fills: number(`n${i}`),
      contracts: number(`c${i}`),
      gain: amount(`g${i}`),
    })),
    /** After fees: at the price a minute later, and at the market's payout. */
    pnl: ends.map((_, i) => ({ fills: number(`e${i}`), all: amount(`p${i}`), missed: amount(`q${i}`) })),
  };
}

const toMicros = (text: string | number | null | undefined): Micros | null =>
  text === null || text === undefined ? null : BigInt(text);

export type ShadowedOrder = Awaited<ReturnType<typeof listShadowed>>[number];

const shadowsOf = (period: ExecutionPeriod): SQL => sql`(
    select m.*, ${settledValue} as settled from ${marksOf(period, 'live', sql`m.n = 0`)}
  ) m
  join trading_orders o on o.org_id = ${period.orgId}::uuid and o.id = m.order_id and o.finished_at is not null
    and ${takesAtOnce}`;

export async function listShadowed(orm: Orm, period: ExecutionPeriod, limit: number) {
  const rows = await queryRows(orm)<
    Record<string, string | null> & { contracts: number; filled: number; paper: number }
  >`
    select m.order_id as id, m.ticker, o.label, m.side, m.action, ${timeText(sql`m.at`)} as at, o.contracts::float8 as contracts, o.filled_contracts::float8 as filled,
      (abs(o.booked + o.fees))::text as "liveValue", o.fees::text as "liveFees", m.contracts::float8 as paper, m.value::text as value,
      m.fees::text as fees, m.after_60::text as "after60"
    from ${shadowsOf(period)}
    order by m.at desc, m.order_id desc limit ${limit}`;
  return rows.map((row) => ({
    id: row.id!,
    ticker: row.ticker!,
    label: row.label!,
    side: row.side as Side,
    action: row.action as 'buy' | 'sell',
    at: new Date(row.at!),
    contracts: row.contracts,
    live: { contracts: row.filled, value: BigInt(row.liveValue!), fees: BigInt(row.liveFees!) },
    paper: { contracts: row.paper, value: BigInt(row.value!), fees: BigInt(row.fees!) },
    after60: toMicros(row.after60),
  }));
}

export type ShadowSums = Awaited<ReturnType<typeof sumShadowed>>;

export async function sumShadowed(orm: Orm, period: ExecutionPeriod) {
  const ends = [sql`m.after_60`, sql`m.settled`];
  const [row] = await queryRows(orm)<Record<string, string | number | null>>`
    select count(*)::int as orders, coalesce(sum(o.filled_contracts), 0)::float8 as live, coalesce(sum(o.fees), 0)::text as "liveFees",
      coalesce(sum(m.contracts), 0)::float8 as paper, coalesce(sum(m.fees), 0)::text as "paperFees",
      percentile_cont(0.5) within group (order by extract(epoch from o.finished_at - o.sent_at) * 1000)::float8 as "roundTripMs",
      ${sql.join(
        ends.map(
          (price, i) => sql`count(${price})::int as ${sql.identifier(`e${i}`)},
        ${roundedSum(sql`o.booked + ${direction} * ${price} * o.filled_contracts`, sql`true`)} as ${sql.identifier(`l${i}`)},
        ${roundedSum(sql`${gainAt(price)} - m.fees`, sql`true`)} as ${sql.identifier(`p${i}`)}`,
        ),
        sql`, `,
      )}
    from ${shadowsOf(period)}`;
  const number = (name: string) => Number(row![name]);
  const amount = (name: string) => toMicros(row![name]);
  return {
    orders: number('orders'),
    live: { contracts: number('live'), fees: amount('liveFees')! },
    paper: { contracts: number('paper'), fees: amount('paperFees')! },
    /** After fees: at the price a minute later, and at the market's payout. */
    pnl: ends.map((_, i) => ({ orders: number(`e${i}`), live: amount(`l${i}`), paper: amount(`p${i}`) })),
    /** Median, from sending to the venue's response. */
    roundTripMs: row!.roundTripMs === null ? null : Math.round(number('roundTripMs')),
  };
}

/** The simulated paper queue against the venue's positions, over all recorded rows. */
export async function readQueueErrors(orm: Orm, { orgId, from, until }: ExecutionPeriod) {
  const [row] = await queryRows(orm)<
    Record<'orders' | 'places', number> & Record<'median' | 'p90', number | null>
  >`
    select count(distinct order_id)::int as orders, count(*)::int as places,
      percentile_cont(0.5) within group (order by abs(venue_ahead - paper_ahead))::float8 as median,
      percentile_cont(0.9) within group (order by abs(venue_ahead - paper_ahead))::float8 as p90
    from queue_positions
    where org_id = ${orgId}::uuid and at >= ${from.toISOString()}::timestamptz and at < ${until.toISOString()}::timestamptz
      and venue_ahead is not null and paper_ahead is not null`;
  const round = (error: number | null) => error && Math.round(error * 100) / 100;
  const { orders, places, median, p90 } = row!;
  return { orders, places, medianError: round(median), p90Error: round(p90) };
}
