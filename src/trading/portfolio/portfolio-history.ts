import type { Orm } from '../../core/db/client.js';
import type { Portfolio } from './portfolio.js';
import { curveRanges, rangeStart, toCurve, type CurvePoint, type CurveRange } from './portfolio-curve.js';
import { findUnrealisedBefore, listUnrealised, sumBooked } from './queries-history.js';

/** Profit and loss over a range of time, up to now. Empty for an account that was never opened. */
export async function readCurve(
  orm: Orm,
  orgId: string,
  { mode, openedAt, realised, fees, unrealised }: Portfolio,
  range: CurveRange,
  now: Date,
): Promise<CurvePoint[]> {
  if (openedAt === null) return [];
  const { stepSeconds } = curveRanges[range];
  const span = { orgId, mode, from: rangeStart(range, now), stepSeconds };
  const [booked, worth, worthBefore] = await Promise.all([
    sumBooked(orm, span),
    listUnrealised(orm, span),
    findUnrealisedBefore(orm, span),
  ]);
  const present = { realised, fees, unrealised };
  return toCurve({ range, now, openedAt, present, booked, worth, worthBefore });
}
