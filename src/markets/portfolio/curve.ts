import { DAY_MS } from '../../core/time.js';
import type { Orm } from '../../core/db/client.js';
import type { Micros } from '../market/money.js';
import type { Portfolio } from './portfolio.js';
import { STEP_ORIGIN, findUnrealisedBefore, listUnrealised, sumBooked } from './history-queries.js';

/** About a hundred steps each. */
export const curveRanges = {
  day: { label: '24 hours', lengthMs: DAY_MS, stepSeconds: 900 },
  week: { label: '7 days', lengthMs: 7 * DAY_MS, stepSeconds: 7_200 },
  month: { label: '30 days', lengthMs: 30 * DAY_MS, stepSeconds: 28_800 },
  year: { label: '12 months', lengthMs: 364 * DAY_MS, stepSeconds: 604_800 },
} as const;
export type CurveRange = keyof typeof curveRanges;

export interface CurvePoint {
  /** End of the step; now for the last point. */
  at: Date;
  /** Counts from the opening of the account, as does `fees`. */
  realised: Micros;
  fees: Micros;
  /** Null if the positions' value was not recorded. */
  unrealised: Micros | null;
  /** Realised plus unrealised minus fees. */
  total: Micros | null;
}

interface CurveInput {
  range: CurveRange;
  now: Date;
  openedAt: Date;
  present: { realised: Micros; fees: Micros; unrealised: Micros | null };
  /** By the step's start. */
  booked: readonly { step: Date; realised: Micros; fees: Micros }[];
  /** Positions' value minus cost, if recorded. */
  worth: readonly { step: Date; unrealised: Micros }[];
  /** Before the range. */
  worthBefore: Micros | undefined;
}

function stepStart(at: Date, stepSeconds: number): Date {
  const origin = Date.parse(STEP_ORIGIN);
  const stepMs = stepSeconds * 1000;
  return new Date(origin + Math.floor((at.getTime() - origin) / stepMs) * stepMs);
}

export const rangeStart = (range: CurveRange, now: Date): Date =>
  stepStart(new Date(now.getTime() - curveRanges[range].lengthMs), curveRanges[range].stepSeconds);

/** Bookings are subtracted from the current totals, so nothing from before the range is needed. Pure. */
export function toCurve({ range, now, openedAt, present, booked, worth, worthBefore }: CurveInput) {
  const { stepSeconds } = curveRanges[range];
  const stepMs = stepSeconds * 1000;
  const first = Math.max(rangeStart(range, now).getTime(), stepStart(openedAt, stepSeconds).getTime());
  const last = stepStart(now, stepSeconds).getTime();
  const bookedAt = new Map(booked.map((sums) => [sums.step.getTime(), sums]));
  const worthAt = new Map(worth.map(({ step, unrealised }) => [step.getTime(), unrealised]));
  const inRange = booked.reduce(
    (sum, { realised, fees }) => ({ realised: sum.realised + realised, fees: sum.fees + fees }),
    { realised: 0n, fees: 0n },
  );
  let realised = present.realised - inRange.realised;
  let fees = present.fees - inRange.fees;
  // A new account has no positions.
  let unrealised = worthBefore ?? (first > rangeStart(range, now).getTime() ? 0n : null);
  const points: CurvePoint[] = [];
  for (let step = first; step <= last; step += stepMs) {
    const sums = bookedAt.get(step);
    realised += sums?.realised ?? 0n;
    fees += sums?.fees ?? 0n;
    // A booking makes the value recorded earlier obsolete.
    unrealised = worthAt.get(step) ?? (sums ? null : unrealised);
    if (step === last) ({ unrealised } = present);
    const at = new Date(Math.min(step + stepMs, now.getTime()));
    points.push({
      at,
      realised,
      fees,
      unrealised,
      total: unrealised === null ? null : realised + unrealised - fees,
    });
  }
  return points;
}

/** Empty if the account was never opened. */
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
