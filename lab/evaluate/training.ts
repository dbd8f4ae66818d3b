import { DAY_MS } from '../../src/core/time.js';
import {
  LOGISTIC_DEVIATION,
  sigmoid,
  normalCdf,
  normalQuantile,
} from '../../src/core/statistics/distributions.js';
import type { NoFitReason, ScoreKernel } from './emos.js';
import { crpsAndGradient } from '../../src/markets/learning/crps.js';
import { logScoreOfNormal } from './scoring-rules.js';

/** For each date, the latest `days` dates with data, more than `lagDays` days earlier. */
export interface RollingTraining {
  days: number;
  lagDays: number;
}

/** Once, on all dates more than `lagDays` days before `until` (YYYY-MM-DD); tests start at `until`. */
export interface FixedTraining {
  until: string;
  lagDays: number;
}

/** 2010-03-01, alone or before a time; / and . may replace the dashes. */
const separated = /^(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?:[T ]\d.*)?$/;
/** 20100301, alone or before hours, minutes and seconds. */
const compact = /^(\d{4})(\d{2})(\d{2})(?:\d{2}){0,3}(?:Z|T\d.*)?$/;

/** 0 for 1970-01-01; undefined for other text and for ambiguous orders of day and month. */
export function parseDay(text: string): number | undefined {
  const found = separated.exec(text);
  if (found) return dayOf(Number(found[1]), Number(found[3]), Number(found[4]));
  const other = compact.exec(text);
  return other ? dayOf(Number(other[1]), Number(other[2]), Number(other[3])) : undefined;
}

function dayOf(year: number, month: number, day: number): number | undefined {
  const date = new Date(Date.UTC(year, month - 1, day));
  const isReal = date.getUTCFullYear() === year && date.getUTCMonth() === month - 1;
  return isReal ? date.getTime() / DAY_MS : undefined;
}

/** 1 to 12. */
export const monthNumberOf = (day: number): number => new Date(day * DAY_MS).getUTCMonth() + 1;

/** YYYY-MM-DD. */
export const formatEpochDay = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10);

/** From `from` to `to` (exclusive) in a group's rows, in date order. */
export interface RowRange {
  from: number;
  to: number;
}

/** For each date from `since` (a day number), all dates more than `lagDays` days earlier. */
interface GrowingTraining {
  since: number;
  lagDays: number;
}

type Training = FixedTraining | RollingTraining | GrowingTraining;

/** Days that are tested with the same fit. */
interface Step {
  /** Null if there are too few earlier dates. */
  training: RowRange | null;
  test: RowRange;
}

/** @param days day numbers of a group's rows, ascending */
export function planWindows(days: ArrayLike<number>, training: Training): Step[] {
  if (!('until' in training)) return stepsByDate(days, training);
  const until = parseDay(training.until)!;
  const test = { from: firstFrom(days, until), to: days.length };
  return test.from === test.to
    ? []
    : [{ training: { from: 0, to: firstFrom(days, until - training.lagDays) }, test }];
}

function stepsByDate(days: ArrayLike<number>, training: RollingTraining | GrowingTraining): Step[] {
  const dates = datesOf(days);
  const steps: Step[] = [];
  // Dates whose results are known by the tested day; never decreases.
  let known = 0;
  for (const { day, from, to } of dates) {
    while (dates[known]!.day < day - training.lagDays) known++;
    if ('since' in training && day < training.since) continue;
    const first = 'days' in training ? known - training.days : 0;
    const isKnown = first >= 0 && known > 0;
    steps.push({
      training: isKnown ? { from: dates[first]!.from, to: dates[known - 1]!.to } : null,
      test: { from, to },
    });
  }
  return steps;
}

/**
 * The last successful fit is the next starting point.
 * @param days day numbers of a group's rows, ascending
 */
export function* fitWindows<Fit extends object>(
  days: ArrayLike<number>,
  training: Training,
  fit: (window: RowRange, last: Fit | undefined) => Fit | NoFitReason | undefined,
): Generator<Step & { fit: Fit | NoFitReason | undefined }> {
  let last: Fit | undefined;
  for (const step of planWindows(days, training)) {
    const found = step.training ? fit(step.training, last) : undefined;
    if (typeof found === 'object') last = found;
    yield { ...step, fit: found };
  }
}

function datesOf(days: ArrayLike<number>): { day: number; from: number; to: number }[] {
  const dates: { day: number; from: number; to: number }[] = [];
  for (let i = 0; i < days.length; i++) {
    const last = dates.at(-1);
    if (last?.day === days[i]) last!.to = i + 1;
    else dates.push({ day: days[i]!, from: i, to: i + 1 });
  }
  return dates;
}

function firstFrom(days: ArrayLike<number>, day: number): number {
  let position = 0;
  while (position < days.length && days[position]! < day) position++;
  return position;
}

/** Nominal. */
export const INTERVAL = 0.9;

/** Symmetric, by mean and standard deviation. `z` is in standard deviations from the mean. */
export interface Distribution {
  kernel: ScoreKernel;
  cdf: (z: number) => number;
  quantile: (probability: number) => number;
  logScore: (mean: number, deviation: number, observed: number) => number;
}

const normal: Distribution = {
  kernel: crpsAndGradient,
  cdf: normalCdf,
  quantile: normalQuantile,
  logScore: logScoreOfNormal,
};

/** For a standard deviation of 1. */
const SCALE = 1 / LOGISTIC_DEVIATION;

/**
 * CRPS: s (z − 2 ln F(z) − 1) for scale s, A. Jordan, F. Krüger, S. Lerch, J. Stat. Softw. 90 (2019), A.2; for
 * temperature: M. Gebetsberger, R. Stauffer, G. J. Mayr, A. Zeileis, Adv. Stat. Clim. Meteorol. Oceanogr. 5 (2019).
 */
const logistic: Distribution = {
  kernel: (error, deviation) => {
    const scale = deviation * SCALE;
    const z = error / scale;
    const below = sigmoid(z);
    // z − 2 ln F(z), written so that neither end overflows.
    const height = Math.abs(z) + 2 * Math.log1p(Math.exp(-Math.abs(z))) - 1;
    return {
      crps: scale * height,
      byMean: 1 - 2 * below,
      byDeviation: (height - z * (2 * below - 1)) * SCALE,
    };
  },
  cdf: (z) => sigmoid(z / SCALE),
  quantile: (probability) => SCALE * Math.log(probability / (1 - probability)),
  logScore: (mean, deviation, observed) => {
    const z = Math.abs(observed - mean) / (deviation * SCALE);
    return Math.log(deviation * SCALE) + z + 2 * Math.log1p(Math.exp(-z));
  },
};

export const distributions = { normal, logistic };
