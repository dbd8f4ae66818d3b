import type { DailyKind } from '../market/market.js';

/** Hours of local standard time in which a station's extremes occur. */
export interface ExtremeHours {
  from: number;
  /** Exclusive. */
  to: number;
  /** Learned from these days; 0 for the usual hours. */
  days: number;
}

export type LearnedHours = ExtremeHours & { kind: DailyKind; stationId: string };

const usualHours: Record<DailyKind, ExtremeHours> = {
  daily_maximum: { from: 10, to: 17, days: 0 },
  daily_minimum: { from: 3, to: 8, days: 0 },
};
/** With fewer days, a few odd ones would decide. */
const LEAST_DAYS = 30;
const LEAST_REPORTS = 20;
/** Share of the days left out at each end: fronts can put the extreme at any hour. */
const RARE = 0.05;

/** @param hoursF one day's reports by hour */
function hoursOfExtreme(
  kind: DailyKind,
  hoursF: readonly (number | undefined)[],
): [number, number] | undefined {
  const known = hoursF.filter((temperatureF) => temperatureF !== undefined);
  if (known.length < LEAST_REPORTS) return undefined;
  const extremeF = (kind === 'daily_maximum' ? Math.max : Math.min)(...known);
  return [hoursF.indexOf(extremeF), hoursF.lastIndexOf(extremeF)];
}

/** From one station's days; undefined with too few of them. The extreme may lie up to an hour from the report. */
export function learnExtremeHours(kind: DailyKind, days: readonly (readonly (number | undefined)[])[]) {
  const found = days.map((hoursF) => hoursOfExtreme(kind, hoursF)).filter((hours) => hours !== undefined);
  if (found.length < LEAST_DAYS) return undefined;
  const rare = Math.floor(found.length * RARE);
  const firsts = found.map(([first]) => first).sort((a, b) => a - b);
  const lasts = found.map(([, last]) => last).sort((a, b) => b - a);
  return { from: Math.max(0, firsts[rare]! - 1), to: Math.min(24, lasts[rare]! + 1), days: found.length };
}

export const extremeHoursOf = (
  learned: readonly LearnedHours[] | undefined,
  { kind, stationId }: { kind: DailyKind; stationId: string },
): ExtremeHours =>
  learned?.find((each) => each.kind === kind && each.stationId === stationId) ?? usualHours[kind];
