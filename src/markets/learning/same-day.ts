import { groupBy } from '../../core/collections.js';
import { allAtOnce, type Steps } from '../../core/steps.js';
import { sigmoid, softplus, survivalAbove } from '../../core/statistics/distributions.js';
import { meanOf } from '../weather/weather.js';
import { crpsOfCensored, fitLinearInSteps, predictLinear, type LinearCase } from './linear-fit.js';
import { minimizeInSteps, type Objective } from './minimize.js';

/**
 * Forecasts a day in progress: its maximum is the one reached so far or a later one that exceeds it. There is one fit
 * per local hour, over all stations. Censored EMOS after T. L. Thorarinsdottir, T. Gneiting, Probabilistic Forecasts of
 * Wind Speed, J. R. Stat. Soc. A 173 (2010), and J. W. Messner, G. J. Mayr, A. Zeileis, Heteroscedastic Censored and
 * Truncated Regression with crch, R J. 8 (2016); each day has its own bound.
 */

/** In °F. For minima, every temperature is negated. */
export interface DaySoFar {
  stationId: string;
  /** Local standard time, 0 to 22. */
  hour: number;
  /** Includes reports between whole hours. */
  reachedF: number;
  /** For whole-degree reports, half a degree above the degree already reached. Default: `reachedF`. */
  boundF?: number | undefined;
  /** Up to three hours, ending with the latest. */
  recentF: readonly number[];
  /** At hours 0 to 23. */
  curveF: readonly number[];
}

export interface SameDayCase extends DaySoFar {
  /** °F, or the bound if the temperature did not exceed it. */
  observedF: number;
}

export const LAST_HOUR = 22;
/** Hours for changes and means. */
const RECENT = 3;
/** Their mean shows whether the peak is broad. */
const BROAD = 4;
/** A little more than three times the number of coefficients. */
export const MIN_SAME_DAY_CASES = 60;

/** In the order of `variablesOf`. */
const meanNames = ['a', 'b', 'c', 'd', 'e', 'broad', 'below', 'shift'] as const;
const scaleNames = ['g0', 'g1', 'g2', 'g3', 'g4'] as const;
const names = [...meanNames, ...scaleNames];
const everyPlace = [...names.keys()];
/** Without data, the rest of the day follows the curve to within about 2 °F. */
const prior = names.map((name) => ({ b: 1, shift: 1, g0: 0.2 })[name as string] ?? 0);
const rule = Object.freeze({
  ofLocation: meanNames.length,
  prior,
  ridge: prior.map(() => 0.25),
  /** °F. */
  scale: { lowest: 0.15, highest: 10 },
});
const HURDLE_RIDGE = 2.5;
const TOLERANCE = 1e-6;
/** If the temperature rises on fewer days, the censored fit alone becomes unstable, so a hurdle is added. */
const LATE = 0.5;
/** Errors on future days are a tenth larger than on training days (measured). */
const WIDER = 1.1;
/** A station's own data then weighs as much as the pooled data. */
const PRIOR_DAYS = 10;

/** First those of the mean, then those of the scale. */
function variablesOf(day: DaySoFar, { stationBiasF, stationExtremeBiasF }: Biases): Float64Array {
  const { stationId, hour, reachedF, recentF, curveF } = day;
  const biasF = stationBiasF[stationId] ?? 0;
  const shiftF = biasF - (stationExtremeBiasF[stationId] ?? 0);
  const toCome = curveF.slice(hour + 1).map((f) => f - biasF);
  const peak = Math.max(...toCome);
  const broad = toCome.toSorted((a, b) => b - a).slice(0, BROAD);
  const recent = recentF.slice(-RECENT);
  const errors = recent.map((t, i) => t - (curveF[hour + 1 - recent.length + i]! - biasF));
  const latest = recent.at(-1)!;
  const ahead = peak - reachedF;
  const below = Math.min(0, latest - reachedF);
  const error = errors.at(-1)!;
  return Float64Array.of(
    1,
    ahead,
    error,
    meanOf(errors),
    error - errors[0]!,
    meanOf(broad) - peak,
    below,
    shiftF,
    1,
    ahead,
    toCome.indexOf(peak) + 1,
    Math.abs(error),
    below,
  );
}

/** °F: a grid point is often too warm by day and too cold by night. */
interface Biases {
  /** Over the hours so far. */
  stationBiasF: Readonly<Record<string, number>>;
  /** At the day's extreme; empty for a fit of an earlier version. */
  stationExtremeBiasF: Readonly<Record<string, number>>;
}

export interface SameDayFit extends Biases {
  hour: number;
  coefficients: Readonly<Record<string, number>>;
  /** Log-odds that the temperature rises further; null if it does so on at least half of the days. */
  hurdle: readonly number[] | null;
  n: number;
  trainingCrps: number;
}

/**
 * Minimum mean CRPS with a ridge penalty.
 * @param cases all at one hour
 * @param near starting point: a fit to almost the same cases
 * @returns undefined for fewer than `MIN_SAME_DAY_CASES`
 */
export const fitSameDay = (cases: readonly SameDayCase[], near?: SameDayFit): SameDayFit | undefined =>
  allAtOnce(fitSameDayInSteps(cases, near));

export function* fitSameDayInSteps(
  cases: readonly SameDayCase[],
  near?: SameDayFit,
): Steps<SameDayFit | undefined> {
  if (cases.length < MIN_SAME_DAY_CASES) return undefined;
  const biases = {
    stationBiasF: biasesOf(cases, biasSoFar),
    stationExtremeBiasF: biasesOf(cases, biasOfExtreme),
  };
  const rows = cases.map((each) => variablesOf(each, biases));
  yield;
  const found = yield* fitLinearInSteps(linearCasesOf(cases, rows), rule, near && valuesOf(near));
  return {
    hour: cases[0]!.hour,
    coefficients: Object.fromEntries(names.map((name, i) => [name, found.coefficients[i]!])),
    hurdle: yield* fitHurdle(cases, rows, near?.hurdle ?? null),
    ...biases,
    n: cases.length,
    trainingCrps: found.trainingCrps,
  };
}

/** In °F, corrected only by the stations' biases. */
export function crpsOfCurve(cases: readonly SameDayCase[], biases: Biases): number {
  const out = new Float64Array(3);
  const rows = cases.map((each) => variablesOf(each, biases));
  let sum = 0;
  for (const { values, observed, bound } of linearCasesOf(cases, rows)) {
    const { location, scale } = predictLinear(prior, values, rule);
    crpsOfCensored(observed - location, bound - location, scale, out);
    sum += out[0]!;
  }
  return sum / cases.length;
}

/** Relative to the extreme reached so far. */
const linearCasesOf = (cases: readonly SameDayCase[], rows: readonly Float64Array[]): LinearCase[] =>
  cases.map((each, i) => {
    const bound = boundOf(each) - each.reachedF;
    return {
      places: everyPlace,
      values: rows[i]!,
      observed: Math.max(bound, each.observedF - each.reachedF),
      bound,
    };
  });

const boundOf = ({ boundF, reachedF }: DaySoFar): number => boundF ?? reachedF;

const hasRisen = (each: SameDayCase): boolean => each.observedF > boundOf(each);

const valuesOf = ({ coefficients }: SameDayFit): number[] => names.map((name) => coefficients[name] ?? 0);

const biasSoFar = ({ hour, recentF, curveF }: SameDayCase): number =>
  meanOf(recentF.map((t, i) => curveF[hour + 1 - recentF.length + i]! - t));

const biasOfExtreme = ({ curveF, observedF }: SameDayCase): number => Math.max(...curveF) - observedF;

/** In °F, shrunk toward the mean of all stations. */
function biasesOf(cases: readonly SameDayCase[], biasOf: (each: SameDayCase) => number) {
  const byStation = groupBy(cases, ({ stationId }) => stationId);
  const common = meanOf([...byStation.values()].flat().map(biasOf));
  return Object.fromEntries(
    [...byStation].map(([id, own]) => [
      id,
      common + (own.length / (own.length + PRIOR_DAYS)) * (meanOf(own.map(biasOf)) - common),
    ]),
  );
}

/** The intercept is shrunk toward the log-odds of the share of rising days. */
function* fitHurdle(
  cases: readonly SameDayCase[],
  rows: readonly Float64Array[],
  near: readonly number[] | null,
): Steps<number[] | null> {
  const n = cases.length;
  const rises = cases.filter(hasRisen).length;
  if (rises >= LATE * n) return null;
  const prior = Math.log((rises + 0.5) / (n - rises + 0.5));
  const widths = hurdleVariables.map((from) => {
    const squares = rows.reduce((sum, row) => sum + row[from]! ** 2, 0);
    return Math.max(1e-3, Math.sqrt(squares / n));
  });
  const objective: Objective = (point, gradient) => {
    let sum = 0;
    gradient.fill(0);
    for (const [i, row] of rows.entries()) {
      const risen = hasRisen(cases[i]!) ? 1 : 0;
      let odds = 0;
      for (const [k, from] of hurdleVariables.entries()) odds += (point[k]! * row[from]!) / widths[k]!;
      sum += softplus(odds) - risen * odds;
      const slope = sigmoid(odds) - risen;
      for (const [k, from] of hurdleVariables.entries()) gradient[k]! += (slope * row[from]!) / widths[k]!;
    }
    for (const k of hurdleVariables.keys()) {
      const off = point[k]! - (k === 0 ? prior : 0);
      sum += HURDLE_RIDGE * off * off;
      gradient[k] = (gradient[k]! + 2 * HURDLE_RIDGE * off) / n;
    }
    return sum / n;
  };
  const start = hurdleVariables.map((_, k) => (near ? near[k]! * widths[k]! : k === 0 ? prior : 0));
  const { point } = yield* minimizeInSteps(objective, start, TOLERANCE);
  return hurdleVariables.map((_, k) => point[k]! / widths[k]!);
}

/** All variables of the mean, and the distance to the curve's peak. */
const hurdleVariables: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 10];

export type CensoredDistribution = ReturnType<typeof predictSameDay>;

/** In °F. For minima, every temperature is negated. `hasPeaked`: probability that no higher temperature follows. */
export function predictSameDay(fit: SameDayFit, day: DaySoFar) {
  const row = variablesOf(day, fit);
  const { location, ...known } = predictLinear(valuesOf(fit), row, rule);
  const scale = WIDER * known.scale;
  const boundF = boundOf(day);
  const censored = sigmoid((boundF - day.reachedF - location) / scale);
  let hasPeaked = censored;
  if (fit.hurdle) {
    const odds = hurdleVariables.reduce((sum, from, k) => sum + fit.hurdle![k]! * row[from]!, 0);
    // Each is accurate where the other is not.
    hasPeaked = (censored + sigmoid(-odds)) / 2;
  }
  return { boundF, location: day.reachedF + location, scale, hasPeaked };
}

/** Before rounding; 0 below the bound. */
export function probabilityAtMost(
  { boundF, location, scale, hasPeaked }: CensoredDistribution,
  temperatureF: number,
): number {
  if (temperatureF < boundF) return 0;
  if (temperatureF === Infinity) return 1;
  const above = survivalAbove((temperatureF - location) / scale, (boundF - location) / scale);
  return 1 - (1 - hasPeaked) * above;
}
