import { allAtOnce, type Steps } from '../../core/steps.js';
import { sigmoid, softplus, survivalAbove } from '../../core/statistics/distributions.js';
import { crpsOfCensored, fitLinearInSteps, predictLinear, type LinearCase } from './linear-fit.js';
import { minimizeInSteps, type Objective } from './minimize.js';

/**
 * The day while it runs: its maximum is what has been reached, or what is still to come if that is more. One fit for each
 * local hour, all stations together. Censored EMOS after T. L. Thorarinsdottir, T. Gneiting, Probabilistic Forecasts of Wind
 * Speed, J. R. Stat. Soc. A 173 (2010), and J. W. Messner, G. J. Mayr, A. Zeileis, Heteroscedastic Censored and Truncated Regression
 * with crch, R J. 8 (2016); the bound is the day's own.
 */

/** What is known of a day at an hour, °F. Of a minimum every temperature has its sign changed. */
export interface DaySoFar {
  stationId: string;
  /** The latest hour by the local standard clock whose temperature is known, 0 to 22. */
  hour: number;
  /** The highest so far, reports between the hours included. */
  reachedF: number;
  /** What is still to come changes nothing unless it is above this: of reports in whole degrees half of one more. Left out: `reachedF`. */
  boundF?: number;
  /** At the hours up to the latest, the latest last: three of them, or as many as the day has had. */
  recentF: readonly number[];
  /** The mean of the ensemble at the hours 0 to 23. */
  curveF: readonly number[];
}

/** A day that is over. */
export interface SameDayCase extends DaySoFar {
  /** What the day came to, °F; the bound where it came to no more. */
  observedF: number;
}

export const LAST_HOUR = 22;
/** Hours over which changes and means are taken, with the latest. */
const RECENT = 3;
/** Hours still to come whose mean says whether the peak is broad. */
const BROAD = 4;
/** Three times as many as there are coefficients in the mean and the scale, with some to spare. */
export const MIN_SAME_DAY_CASES = 60;

/** Names of the coefficients of the mean, by which F⁺ − M and so on are multiplied. */
const meanNames = ['a', 'b', 'c', 'd', 'e', 'broad', 'below'] as const;
/** Of the logarithm of the scale. */
const scaleNames = ['g0', 'g1', 'g2', 'g3', 'g4'] as const;
const names = [...meanNames, ...scaleNames];
const everyPlace = [...names.keys()];
/** Where nothing is known what is still to come is the curve as it is, to about 2 °F. */
const prior = names.map((name) => ({ b: 1, g0: 0.2 })[name as string] ?? 0);
const rule = Object.freeze({
  ofLocation: meanNames.length,
  prior,
  ridge: prior.map(() => 0.25),
  /** °F. */
  scale: { lowest: 0.15, highest: 10 },
});
const HURDLE_RIDGE = 2.5;
const TOLERANCE = 1e-6;
/** Days in which no further rise is the rule have a hurdle of their own: from there on the censored fit alone becomes unstable. */
const LATE = 0.5;
/** Days to come are a little less like those that were learned from than these are like each other: measured, a tenth. */
const WIDER = 1.1;
/** Days of a station that weigh as much as all stations together, see archive/training.ts. */
const PRIOR_DAYS = 10;

/** The variables of the mean, then those of the scale. */
function describe({ hour, reachedF, recentF, curveF }: DaySoFar, biasF: number): Float64Array {
  const toCome = curveF.slice(hour + 1).map((f) => f - biasF);
  const peak = Math.max(...toCome);
  const broad = toCome.toSorted((a, b) => b - a).slice(0, BROAD);
  const recent = recentF.slice(-RECENT);
  const errors = recent.map((t, i) => t - (curveF[hour + 1 - recent.length + i]! - biasF));
  const latest = recent.at(-1)!;
  const ahead = peak - reachedF;
  const below = latest - reachedF;
  const error = errors.at(-1)!;
  return Float64Array.of(
    1,
    ahead,
    error,
    meanOf(errors),
    error - errors[0]!,
    meanOf(broad) - peak,
    below,
    1,
    ahead,
    toCome.indexOf(peak) + 1,
    Math.abs(error),
    below,
  );
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;

/** What the days of one hour have taught. */
export interface SameDayFit {
  hour: number;
  /** By name, of the mean and of the logarithm of the scale. */
  coefficients: Readonly<Record<string, number>>;
  /** Of ln odds that the day rises further; null where most days do, and none is needed. */
  hurdle: readonly number[] | null;
  /** °F that a station's curve is too warm by. */
  stationBiasF: Readonly<Record<string, number>>;
  n: number;
  trainingCrps: number;
}

/**
 * Least mean CRPS of the censored distribution, with a ridge.
 * @param cases of one hour
 * @param near a fit to almost the same cases, at which the search starts
 * @returns undefined for fewer than `MIN_SAME_DAY_CASES`
 */
export const fitSameDay = (cases: readonly SameDayCase[], near?: SameDayFit): SameDayFit | undefined =>
  allAtOnce(fitSameDayInSteps(cases, near));

/** The same, a step of the search at a time. */
export function* fitSameDayInSteps(
  cases: readonly SameDayCase[],
  near?: SameDayFit,
): Steps<SameDayFit | undefined> {
  if (cases.length < MIN_SAME_DAY_CASES) return undefined;
  const stationBiasF = biasesOf(cases);
  const rows = cases.map((each) => describe(each, stationBiasF[each.stationId] ?? 0));
  yield;
  const found = yield* fitLinearInSteps(linearCasesOf(cases, rows), rule, near && valuesOf(near));
  return {
    hour: cases[0]!.hour,
    coefficients: Object.fromEntries(names.map((name, i) => [name, found.coefficients[i]!])),
    hurdle: yield* fitHurdle(cases, rows, near?.hurdle ?? null),
    stationBiasF,
    n: cases.length,
    trainingCrps: found.trainingCrps,
  };
}

/** °F: the mean CRPS of the curve as it is, where nothing has been learned but the stations' biases. */
export function crpsOfCurve(cases: readonly SameDayCase[], { stationBiasF }: SameDayFit): number {
  const out = new Float64Array(3);
  const rows = cases.map((each) => describe(each, stationBiasF[each.stationId] ?? 0));
  let sum = 0;
  for (const { values, observed, bound } of linearCasesOf(cases, rows)) {
    const { location, scale } = predictLinear(prior, values, rule);
    crpsOfCensored(observed - location, bound - location, scale, out);
    sum += out[0]!;
  }
  return sum / cases.length;
}

/** What is still to come is counted from what has been reached. */
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

const valuesOf = ({ coefficients }: SameDayFit): number[] => names.map((name) => coefficients[name]!);

/** °F: each station's mean error of the curve, shrunk towards that of all stations. */
function biasesOf(cases: readonly SameDayCase[]): Record<string, number> {
  const byStation = new Map<string, number[]>();
  for (const { stationId, hour, recentF, curveF } of cases) {
    const errors = byStation.get(stationId) ?? [];
    byStation.set(stationId, errors);
    errors.push(meanOf(recentF.map((t, i) => curveF[hour + 1 - recentF.length + i]! - t)));
  }
  const common = meanOf([...byStation.values()].flat());
  return Object.fromEntries(
    [...byStation].map(([id, own]) => [
      id,
      common + (own.length / (own.length + PRIOR_DAYS)) * (meanOf(own) - common),
    ]),
  );
}

/** Logistic regression of further rises on the same variables, with a ridge; the constant keeps near the share of days. */
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

/** All of the mean, and how far off the curve's peak is. */
const hurdleVariables: readonly number[] = [0, 1, 2, 3, 4, 5, 6, 9];

/** A day's maximum as it is known at an hour, °F. Of a minimum every temperature has its sign changed. */
export interface CensoredDistribution {
  boundF: number;
  location: number;
  scale: number;
  /** The probability that nothing higher comes. */
  hasPeaked: number;
}

export function predictSameDay(fit: SameDayFit, day: DaySoFar): CensoredDistribution {
  const row = describe(day, fit.stationBiasF[day.stationId] ?? 0);
  const { location, ...known } = predictLinear(valuesOf(fit), row, rule);
  const scale = WIDER * known.scale;
  const boundF = boundOf(day);
  const censored = sigmoid((boundF - day.reachedF - location) / scale);
  let hasPeaked = censored;
  if (fit.hurdle) {
    const odds = hurdleVariables.reduce((sum, from, k) => sum + fit.hurdle![k]! * row[from]!, 0);
    // Half and half: each is wrong where the other is not.
    hasPeaked = (censored + sigmoid(-odds)) / 2;
  }
  return { boundF, location: day.reachedF + location, scale, hasPeaked };
}

/** The probability of at most a temperature before it is rounded; 0 below the bound. */
export function probabilityAtMost(
  { boundF, location, scale, hasPeaked }: CensoredDistribution,
  temperatureF: number,
): number {
  if (temperatureF < boundF) return 0;
  if (temperatureF === Infinity) return 1;
  const above = survivalAbove((temperatureF - location) / scale, (boundF - location) / scale);
  return 1 - (1 - hasPeaked) * above;
}

/** The probability of more, which keeps its digits where it is small. */
export function probabilityAbove(distribution: CensoredDistribution, temperatureF: number): number {
  const { boundF, location, scale, hasPeaked } = distribution;
  if (temperatureF < boundF) return 1;
  return (1 - hasPeaked) * survivalAbove((temperatureF - location) / scale, (boundF - location) / scale);
}
