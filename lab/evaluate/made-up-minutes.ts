import { nextGaussian, uniformsOf } from '../../src/markets/venue/simulation/random.js';
import { meanOf } from '../../src/markets/weather/weather.js';
import { groupBy } from '../../src/core/collections.js';
import type { HourlyDay } from './hourly.js';

/** Hourly reports are made this many minutes before the hour for which they count. */
export const REPORT_LEAD = 7;
export const MINUTES = 24 * 60;

/** Correlation of neighbouring minutes: e^-1 after ten. */
const NEXT = Math.exp(-1 / 10);
const AVERAGED = 5;
/** Standard deviation of the logarithm of a day's noise. */
const DAYS_DIFFER = 0.3;

/** In °F, at the hours 0 to 23: the smooth part of the reports, and the standard deviation of the noise around it. */
interface Knots {
  smooth: readonly number[];
  deviation: readonly number[];
}

/**
 * Makes up a day's official temperatures in whole °F, one for each minute from midnight on (the mean of five minutes).
 * They pass through the hourly reports. Between these, noise with a correlation time of ten minutes returns to a curve. The
 * largest noise that the hours' covariance allows at an hour has the variance of that hour given all others (A. P.
 * Dempster, Biometrics 28 (1972): 1 ÷ the diagonal of the inverse). The reports' noise is drawn given the reports.
 * @param noise share of that standard deviation, from 0 to 1
 */
export function createMinuteMaker(days: readonly HourlyDay[], noise: number): (day: HourlyDay) => Int16Array {
  const stations = groupBy(days, ({ stationId }) => stationId);
  const found = new Map<HourlyDay, () => Int16Array>();
  for (const own of stations.values()) {
    const knots = knotsOf(own, noise);
    for (const [i, day] of own.entries()) {
      const next = own[i + 1];
      const after = next?.day === day.day + 1 ? ([next, knots[i + 1]!] as const) : undefined;
      found.set(day, () => minutesOf(day, knots[i]!, after));
    }
  }
  return (day) => found.get(day)!();
}

function knotsOf(days: readonly HourlyDay[], noise: number): Knots[] {
  const errors = days.map(({ observedF, curveF }) => observedF.map((t, hour) => t - curveF[hour]!));
  const means = errors[0]!.map((_, hour) => meanOf(errors.map((error) => error[hour]!)));
  const centered = errors.map((error) => error.map((x, hour) => x - means[hour]!));
  const precision = invert(
    means.map((_, i) => means.map((_, k) => meanOf(centered.map((x) => x[i]! * x[k]!)))),
  );
  return days.map(({ stationId, day, observedF }, i) => {
    const next = uniformsOf('reports', stationId, day);
    const size = noise * Math.exp(DAYS_DIFFER * nextGaussian(next));
    const deviation = precision.map((row, hour) => size / Math.sqrt(row[hour]!));
    const smooth = precision.map((row, hour) => {
      const departure = row.reduce((sum, weight, k) => sum + weight * centered[i]![k]!, 0) / row[hour]!;
      const share = Math.min(1, size) ** 2;
      const drawn = Math.sqrt((share * (1 - share)) / row[hour]!) * nextGaussian(next);
      return observedF[hour]! - share * departure - drawn;
    });
    return { smooth, deviation };
  });
}

function minutesOf(day: HourlyDay, knots: Knots, next: readonly [HourlyDay, Knots] | undefined): Int16Array {
  const at = (of: readonly number[], more: readonly number[] | undefined) => [...of, more?.[0] ?? of.at(-1)!];
  const smooth = at(knots.smooth, next?.[1].smooth);
  const deviation = at(knots.deviation, next?.[1].deviation);
  const noise = noiseOf(uniformsOf('minutes', day.stationId, day.day));
  // The noise must reach each report: in standard deviations, this much is missing.
  const missing = at(day.observedF, next?.[0].observedF).map(
    (t, k) => (t - smooth[k]!) / deviation[k]! - noise[k * 60]!,
  );
  return Int16Array.from({ length: MINUTES }, (_, minute) => {
    const since = (minute + REPORT_LEAD) % 60;
    const a = Math.floor((minute + REPORT_LEAD) / 60);
    const b = Math.min(24, a + 1);
    const share = since / 60;
    const returns = NEXT ** since * missing[a]! + NEXT ** (60 - since) * missing[b]!;
    const size = deviation[a]! + share * (deviation[b]! - deviation[a]!);
    return Math.round(
      smooth[a]! + share * (smooth[b]! - smooth[a]!) + size * (noise[minute + REPORT_LEAD]! + returns),
    );
  });
}

/** From the report before midnight on, with a standard deviation of 1. */
function noiseOf(next: () => number): number[] {
  let drift = nextGaussian(next);
  const single = Array.from(
    { length: MINUTES + REPORT_LEAD + AVERAGED },
    () => (drift = NEXT * drift + Math.sqrt(1 - NEXT ** 2) * nextGaussian(next)),
  );
  let variance = AVERAGED;
  for (let lag = 1; lag < AVERAGED; lag++) variance += 2 * (AVERAGED - lag) * NEXT ** lag;
  return single.slice(AVERAGED - 1).map((_, i) => {
    let sum = 0;
    for (let k = 0; k < AVERAGED; k++) sum += single[i + k]!;
    return sum / Math.sqrt(variance);
  });
}

/** Inverts a symmetric positive definite matrix by Gauss-Jordan elimination. */
function invert(matrix: readonly (readonly number[])[]): number[][] {
  const n = matrix.length;
  const rows = matrix.map((row, i) => [...row, ...row.map((_, k) => Number(k === i))]);
  for (let i = 0; i < n; i++) {
    const pivot = rows[i]![i]!;
    rows[i] = rows[i]!.map((x) => x / pivot);
    for (let k = 0; k < n; k++) {
      const factor = rows[k]![i]!;
      if (k !== i) rows[k] = rows[k]!.map((x, j) => x - factor * rows[i]![j]!);
    }
  }
  return rows.map((row) => row.slice(n));
}
