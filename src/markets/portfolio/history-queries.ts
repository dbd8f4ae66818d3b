import { sql } from 'drizzle-orm';
import type { Account } from '../ledger/queries.js';
import type { Orm } from '../../core/db/client.js';
import { timeText, queryRows } from '../../core/db/sql.js';
import { portfolioHistory, type SettlementState } from '../ledger/portfolio-table.js';
import type { OrderFilter } from './order-queries.js';

/** A Monday at midnight UTC. */
export const STEP_ORIGIN = '2001-01-01T00:00:00Z';

interface Span extends Account {
  from: Date;
  stepSeconds: number;
}

const stepOf = ({ stepSeconds }: Span) =>
  sql`date_bin(make_interval(secs => ${stepSeconds}), at, ${STEP_ORIGIN}::timestamptz)`;

export async function listUnrealised(orm: Orm, span: Span): Promise<{ step: Date; unrealised: bigint }[]> {
  const rows = await queryRows(orm)<{ step: string; unrealised: string }>`
    select distinct on (h.bucket) ${timeText(sql`h.bucket`)} as step, unrealised::text
    from (
      select ${stepOf(span)} as bucket, at, unrealised from portfolio_history
      where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at >= ${span.from.toISOString()}::timestamptz
    ) h
    order by h.bucket, at desc`;
  return rows.map(({ step, unrealised }) => ({ step: new Date(step), unrealised: BigInt(unrealised) }));
}

export async function findUnrealisedBefore(orm: Orm, span: Span): Promise<bigint | undefined> {
  const [row] = await queryRows(orm)<{ unrealised: string }>`
    select unrealised::text from portfolio_history
    where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at < ${span.from.toISOString()}::timestamptz
    order by at desc limit 1`;
  return row && BigInt(row.unrealised);
}

export async function sumBooked(orm: Orm, span: Span) {
  const rows = await queryRows(orm)<Record<'step' | 'realised' | 'fees', string>>`
    select ${timeText(sql`l.bucket`)} as step, realised::text, fees::text
    from (
      select ${stepOf(span)} as bucket, -sum(realised) as realised, sum(fees) as fees from ledger_entries
      where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at >= ${span.from.toISOString()}::timestamptz
      group by 1
    ) l
    order by l.bucket`;
  return rows.map(({ step, realised, fees }) => ({
    step: new Date(step),
    realised: BigInt(realised),
    fees: BigInt(fees),
  }));
}

export interface SettlementEventRow {
  ticker: string;
  label: string | null;
  n: number;
  state: SettlementState;
  /** Millionths of a dollar. */
  value: string | null;
  temperature: number | null;
  side: 'yes' | 'no';
  contracts: number;
  cost: string;
  /** Fees of the purchases. */
  fees: string;
  cashChange: string;
  /** The market was already paid, so only the difference moves. */
  isCorrection: boolean;
  /** With microseconds, because it is part of the sort key. */
  at: string;
}

export type SettlementEventPosition = Pick<SettlementEventRow, 'at' | 'ticker' | 'n'>;

type SettlementFilter = Pick<OrderFilter, 'mode' | 'seriesTickers' | 'from' | 'until'>;

/** A successor replaces a provisional event, and confirming a payout is none, so each settlement is one row. */
const selectSettlements = (orgId: string, { mode, seriesTickers, from, until }: SettlementFilter) => sql`
  select s.ticker, o.label, n, state, value::text, temperature, side, contracts::float8, cost::text, o.fees::text, cash_change::text as "cashChange", ${timeText(sql`s.at`)} as at,
    coalesce(e.kind = 'correction', false) as "isCorrection"
  from trading_settlements s
  left join ledger_entries e on e.org_id = s.org_id and e.mode = s.mode and e.ticker = s.ticker and e.settlement_n = s.n
  cross join lateral (
    select min(o.label) as label, coalesce(sum(o.fees) filter (where o.action = 'buy' and o.side = s.side), 0) as fees
    from trading_orders o
    where o.org_id = s.org_id and o.mode = s.mode and o.ticker = s.ticker
  ) o
  where s.org_id = ${orgId}::uuid and s.mode = ${mode}
    ${seriesTickers ? sql`and split_part(s.ticker, '-', 1) in ${[...seriesTickers]}` : sql``}
    ${from ? sql`and s.at >= ${from.toISOString()}::timestamptz` : sql``}
    ${until ? sql`and s.at < ${until.toISOString()}::timestamptz` : sql``}
    and (
      e.id is not null
      or s.state not in ('finalized', 'void') and not exists (
        select from trading_settlements later
        where later.org_id = s.org_id and later.mode = s.mode and later.ticker = s.ticker and later.n > s.n
      )
    )`;

/** Newest first. */
export const listSettlementEvents = (
  orm: Orm,
  orgId: string,
  {
    after,
    limit,
    ...filter
  }: SettlementFilter & { after: SettlementEventPosition | undefined; limit: number },
): Promise<SettlementEventRow[]> =>
  queryRows(orm)`${selectSettlements(orgId, filter)}
    ${
      after
        ? // Redundant, but the index can seek only by a bound on the time.
          sql`and s.at <= ${after.at}::timestamptz and (s.at, s.ticker, n) < (${after.at}::timestamptz, ${after.ticker}, ${after.n})`
        : sql``
    }
    order by s.at desc, s.ticker desc, n desc
    limit ${limit}`;

/** Without those that are only announced. */
export async function sumSettlements(orm: Orm, orgId: string, filter: SettlementFilter) {
  const [sums] = await queryRows(orm)<{ count: number; paid: string; payout: string }>`
    select count(*)::int as count, coalesce(sum(e.cost::bigint + e.fees::bigint) filter (where not e."isCorrection"), 0)::text as paid,
      coalesce(sum(e."cashChange"::bigint), 0)::text as payout
    from (${selectSettlements(orgId, filter)}) e
    where e.state in ('finalized', 'void') or e."cashChange" <> '0'`;
  const { count, paid, payout } = sums!;
  return { count, paid: BigInt(paid), payout: BigInt(payout), result: BigInt(payout) - BigInt(paid) };
}

/** By key. Reads the index once per account, however many positions it has. */
export async function listHoldingAccounts(orm: Orm, after: Account, limit: number): Promise<Account[]> {
  const found: Account[] = [];
  for (let last = after; found.length < limit; last = found.at(-1)!) {
    const [next] = await queryRows(orm)<Account>`select org_id as "orgId", mode from trading_positions
      where contracts > 0 and (org_id, mode) > (${last.orgId}::uuid, ${last.mode})
      order by org_id, mode limit 1`;
    if (!next) break;
    found.push(next);
  }
  return found;
}

export async function writePoint(orm: Orm, point: typeof portfolioHistory.$inferInsert): Promise<void> {
  const { orgId, mode, at, ...values } = point;
  await orm
    .insert(portfolioHistory)
    .values({ orgId, mode, at, ...values })
    .onConflictDoUpdate({
      target: [portfolioHistory.orgId, portfolioHistory.mode, portfolioHistory.at],
      set: values,
    });
}

export const listAccounts = (orm: Orm, after: Account, limit: number) =>
  queryRows(orm)<Account>`select org_id as "orgId", mode from trading_accounts
    where (org_id, mode) > (${after.orgId}::uuid, ${after.mode})
    order by org_id, mode limit ${limit}`;

/** Keeps the last point of each UTC day. */
export async function thinOutPoints(orm: Orm, { orgId, mode }: Account, before: Date): Promise<void> {
  await orm.execute(sql`
    delete from portfolio_history p
    where p.org_id = ${orgId}::uuid and p.mode = ${mode} and p.at < ${before.toISOString()}::timestamptz
      and exists (
        select from portfolio_history later
        where later.org_id = p.org_id and later.mode = p.mode and later.at > p.at
          and later.at < date_trunc('day', p.at, 'UTC') + interval '24 hours'
      )`);
}
