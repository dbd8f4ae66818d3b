import type { z } from 'zod';
import type { Orm } from '../../core/db/client.js';
import { fieldError } from '../../core/pages/form.js';
import { DAY_MS } from '../../core/time.js';
import { perContract } from '../market/contracts.js';
import { dollarsOrNull, formatDollars } from '../market/money.js';
import {
  horizons,
  listShadowed,
  readQueueErrors,
  sumFills,
  sumShadowed,
  type FillSums,
  type ExecutionPeriod,
  type ShadowedOrder,
  type ShadowSums,
} from './queries.js';
import { readQueueCorrection } from '../orders/queries.js';
import { MOST_DAYS, USUAL_DAYS, type executionSchema } from './schema.js';

/** Whole UTC days. */
export function toPeriod(
  { from, to }: { from?: string | undefined; to?: string | undefined },
  nowMs: number,
): Pick<ExecutionPeriod, 'from' | 'until'> {
  const last = Date.parse(to ?? new Date(nowMs).toISOString().slice(0, 10));
  const first = from === undefined ? last - (USUAL_DAYS - 1) * DAY_MS : Date.parse(from);
  if (first > last) throw fieldError('from', 'must not be after the last day');
  if (last - first >= MOST_DAYS * DAY_MS)
    throw fieldError('from', `must be within ${MOST_DAYS} days of the last day`);
  return { from: new Date(first), until: new Date(last + DAY_MS) };
}

export type ExecutionReport = Awaited<ReturnType<typeof readExecution>>;

/** `live` is undefined if the caller may not see live trading. */
export async function readExecution(
  orm: Orm,
  period: ExecutionPeriod,
  { withLive, limit = 25, now }: { withLive: boolean; limit?: number | undefined; now: Date },
) {
  const paper = await sumFills(orm, period, 'paper');
  // While one minute could decide the market; not in `paper`.
  const nearExtreme = await sumFills(orm, period, 'paper', true);
  const onPaper = { period, paper, nearExtreme };
  if (!withLive) return { ...onPaper, live: undefined };
  const fills = await sumFills(orm, period, 'live');
  const shadow = await sumShadowed(orm, period);
  const orders = await listShadowed(orm, period, limit);
  const correction = await readQueueCorrection(orm, period.orgId, now);
  const queue = { ...(await readQueueErrors(orm, period)), correction };
  return { ...onPaper, live: { fills, shadow, orders, queue } };
}

export const toExecutionJson = (
  { period, paper, nearExtreme, live }: ExecutionReport,
  paperLatencyMs: number,
): z.output<typeof executionSchema> => ({
  from: period.from.toISOString(),
  until: period.until.toISOString(),
  paperLatencyMs,
  paper: toFills(paper),
  paperNearExtreme: toFills(nearExtreme),
  live: live ? toFills(live.fills) : null,
  shadow: live ? toShadow(live.shadow, live.orders) : null,
  queue: live ? live.queue : null,
});

function toShadow({ orders: count, live, paper, pnl, roundTripMs }: ShadowSums, orders: ShadowedOrder[]) {
  const [afterMinute, settled] = pnl.map((one) => ({
    orders: one.orders,
    live: dollarsOrNull(one.live),
    paper: dollarsOrNull(one.paper),
  }));
  return {
    count,
    live: { contracts: live.contracts, fees: formatDollars(live.fees) },
    paper: { contracts: paper.contracts, fees: formatDollars(paper.fees) },
    afterMinute: afterMinute!,
    settled: settled!,
    roundTripMs,
    orders: orders.map(toShadowed),
  };
}

const toShadowed = ({ id, ticker, side, action, at, contracts, live, paper, after60 }: ShadowedOrder) => ({
  id,
  ticker,
  side,
  action,
  at: at.toISOString(),
  contracts,
  live: toSide(live),
  paper: toSide(paper),
  afterMinute: dollarsOrNull(after60),
});

const toSide = ({ contracts, value, fees }: ShadowedOrder['live']) => ({
  contracts,
  averagePrice: contracts === 0 ? null : formatDollars(perContract(value, contracts)),
  fees: formatDollars(fees),
});

function toFills({ fees, after, pnl, ...counts }: FillSums) {
  const [afterMinute, settled] = pnl.map(({ fills, all, missed }) => ({
    fills,
    all: dollarsOrNull(all),
    missed: dollarsOrNull(missed),
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
