import type { z } from 'zod';
import type { Context } from '../../core/http/context.js';
import { fieldError } from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import type { TradingContext } from '../config.js';
import { perContract } from '../market/contracts.js';
import { formatDollars, type Micros } from '../market/money.js';
import {
  horizons,
  listShadowed,
  sumFills,
  sumShadowed,
  type FillSums,
  type Period,
  type ShadowedOrder,
} from './queries.js';
import { MOST_DAYS, USUAL_DAYS, type executionQuerySchema, type executionSchema } from './schema.js';

type Execution = z.output<typeof executionSchema>;
export type ExecutionQuery = z.output<typeof executionQuerySchema>;

/**
 * Whole days in UTC.
 * @throws AppError invalid_request
 */
export function toPeriod(
  { from, to }: Pick<ExecutionQuery, 'from' | 'to'>,
  nowMs: number,
): Pick<Period, 'from' | 'until'> {
  const last = Date.parse(to ?? new Date(nowMs).toISOString().slice(0, 10));
  const first = from === undefined ? last - (USUAL_DAYS - 1) * DAY_MS : Date.parse(from);
  if (first > last) throw fieldError('from', 'must not be after `to`');
  if (last - first >= MOST_DAYS * DAY_MS)
    throw fieldError('from', `must be within ${MOST_DAYS} days of \`to\``);
  return { from: new Date(first), until: new Date(last + DAY_MS) };
}

/** How an Organization's orders were filled, on paper and live. */
export async function readExecution(
  { db: { orm }, config }: Pick<TradingContext, 'db' | 'config'>,
  period: Period,
  { withLive, limit = 25 }: { withLive: boolean; limit?: number | undefined },
): Promise<Execution> {
  const paper = await sumFills(orm, period, 'paper');
  const live = withLive ? await sumFills(orm, period, 'live') : null;
  return {
    from: period.from.toISOString(),
    until: period.until.toISOString(),
    paperLatencyMs: config.trading.paperLatencyMs,
    paper: toFills(paper),
    live: live && toFills(live),
    shadow: withLive ? await readShadow(orm, period, limit) : null,
  };
}

async function readShadow(
  orm: Context['db']['orm'],
  period: Period,
  limit: number,
): Promise<Execution['shadow']> {
  const { orders: count, live, paper, pnl, roundTripMs } = await sumShadowed(orm, period);
  const [afterMinute, settled] = pnl.map((one) => ({
    orders: one.orders,
    live: formatAmount(one.live),
    paper: formatAmount(one.paper),
  }));
  return {
    count,
    live: { contracts: live.contracts, fees: formatDollars(live.fees) },
    paper: { contracts: paper.contracts, fees: formatDollars(paper.fees) },
    afterMinute: afterMinute!,
    settled: settled!,
    roundTripMs,
    orders: (await listShadowed(orm, period, limit)).map(toShadowed),
  };
}

const toShadowed = ({ at, live, paper, after60, ...order }: ShadowedOrder) => ({
  ...order,
  at: at.toISOString(),
  live: toSide(live),
  paper: toSide(paper),
  afterMinute: formatAmount(after60),
});

const toSide = ({ contracts, value, fees }: ShadowedOrder['live']) => ({
  contracts,
  averagePrice: contracts === 0 ? null : formatDollars(perContract(value, contracts)),
  fees: formatDollars(fees),
});

function toFills({ fees, after, pnl, ...counts }: FillSums): Execution['paper'] {
  const [afterMinute, settled] = pnl.map(({ fills, all, missed }) => ({
    fills,
    all: formatAmount(all),
    missed: formatAmount(missed),
  }));
  return {
    ...counts,
    fees: formatDollars(fees),
    after: after.map(({ fills, contracts, gain }, i) => ({
      seconds: horizons[i]!,
      fills,
      move: gain === null ? null : formatDollars(perContract(gain, contracts)),
    })),
    afterMinute: afterMinute!,
    settled: settled!,
  };
}

const formatAmount = (amount: Micros | null): string | null =>
  amount === null ? null : formatDollars(amount);
