import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows, timeText } from '../../core/db/select-rows.js';
import type { TradeMode } from '../ledger/orders-table.js';
import type { SettlementState } from '../ledger/portfolio-table.js';

/** Steps of time begin on Mondays, at midnight UTC. */
export const STEP_ORIGIN = '2001-01-01T00:00:00Z';

interface Span {
  orgId: string;
  mode: TradeMode;
  from: Date;
  stepSeconds: number;
}

const stepOf = ({ stepSeconds }: Span) =>
  sql`date_bin(make_interval(secs => ${stepSeconds}), at, ${STEP_ORIGIN}::timestamptz)`;

interface WorthText {
  step: string;
  unrealised: string;
}

/** What the open positions were worth less their cost at the end of each step, where that was written down. */
export async function listUnrealised(orm: Orm, span: Span): Promise<{ step: Date; unrealised: bigint }[]> {
  const rows = await selectRows<WorthText>(
    orm,
    sql`
      select distinct on (h.bucket) ${timeText(sql`h.bucket`)} as step, unrealised::text
      from (
        select ${stepOf(span)} as bucket, at, unrealised from portfolio_history
        where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at >= ${span.from.toISOString()}::timestamptz
      ) h
      order by h.bucket, at desc`,
  );
  return rows.map(({ step, unrealised }) => ({ step: new Date(step), unrealised: BigInt(unrealised) }));
}

/** The last one that was written down before a time. */
export async function findUnrealisedBefore(orm: Orm, span: Span): Promise<bigint | undefined> {
  const [row] = await selectRows<{ unrealised: string }>(
    orm,
    sql`
      select unrealised::text from portfolio_history
      where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at < ${span.from.toISOString()}::timestamptz
      order by at desc limit 1`,
  );
  return row && BigInt(row.unrealised);
}

interface BookedText {
  step: string;
  realised: string;
  fees: string;
}

/** What was realised and paid in fees within each step. */
export async function sumBooked(
  orm: Orm,
  span: Span,
): Promise<{ step: Date; realised: bigint; fees: bigint }[]> {
  const rows = await selectRows<BookedText>(
    orm,
    sql`
      select ${timeText(sql`l.bucket`)} as step, realised::text, fees::text
      from (
        select ${stepOf(span)} as bucket, -sum(realised) as realised, sum(fees) as fees from ledger_entries
        where org_id = ${span.orgId}::uuid and mode = ${span.mode} and at >= ${span.from.toISOString()}::timestamptz
        group by 1
      ) l
      order by l.bucket`,
  );
  return rows.map(({ step, realised, fees }) => ({
    step: new Date(step),
    realised: BigInt(realised),
    fees: BigInt(fees),
  }));
}

/** One word of the venue about a market's end. */
export interface WordRow {
  ticker: string;
  /** The bracket in words. */
  label: string | null;
  n: number;
  state: SettlementState;
  /** Millionths of a dollar. */
  value: string | null;
  temperature: number | null;
  side: 'yes' | 'no';
  contracts: number;
  cost: string;
  cashChange: string;
  /** True if the market had been paid already: what this word moves is the difference. */
  isCorrection: boolean;
  /** With microseconds: it is part of the list's order. */
  at: string;
}

/** Where a page of them begins: behind this one. */
export type WordPosition = Pick<WordRow, 'at' | 'ticker' | 'n'>;

/** Newest first. */
export const listWords = (
  orm: Orm,
  orgId: string,
  { mode, after, limit }: { mode: TradeMode; after: WordPosition | undefined; limit: number },
): Promise<WordRow[]> =>
  selectRows(
    orm,
    sql`
      select ticker, (select o.label from trading_orders o where o.org_id = s.org_id and o.mode = s.mode and o.ticker = s.ticker limit 1) as label, n, state, value::text, temperature, side, contracts::float8, cost::text, cash_change::text as "cashChange", ${timeText(sql`at`)} as at,
        exists (
          select from trading_settlements e
          where e.org_id = s.org_id and e.mode = s.mode and e.ticker = s.ticker and e.n < s.n and e.state in ('finalized', 'void')
        ) as "isCorrection"
      from trading_settlements s
      where org_id = ${orgId}::uuid and mode = ${mode}
        ${
          after
            ? // The bound on the time alone is what the index can jump to.
              sql`and s.at <= ${after.at}::timestamptz and (s.at, ticker, n) < (${after.at}::timestamptz, ${after.ticker}, ${after.n})`
            : sql``
        }
      order by s.at desc, ticker desc, n desc
      limit ${limit}`,
  );
