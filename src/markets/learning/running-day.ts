import { DAY_MS } from '../../core/time.js';
import { LOGISTIC_DEVIATION } from '../../core/statistics/distributions.js';
import {
  probabilityWithin,
  sureDegree,
  sureMinimum,
  type DistributionShape,
  type TemperatureDistribution,
} from '../market/distribution.js';
import type { DailyKind } from '../market/market.js';
import type { MinuteBound, MinuteLevel } from '../weather/weather.js';
import type { LearnedHours } from './extreme-hours.js';
import {
  LAST_HOUR,
  predictSameDay,
  type CensoredDistribution,
  type DaySoFar,
  type SameDayFit,
} from './same-day.js';

export interface HourFit extends SameDayFit {
  id: string;
  kind: DailyKind;
  firstDate: string;
  lastDate: string;
  /** °F, of the uncorrected curve in training. */
  rawCrps: number;
  knownThrough: Date;
  trainedAt: Date;
}

/** One per kind and hour. */
export interface HourFits {
  fits: readonly HourFit[];
  missing: readonly { kind: DailyKind; hour: number; reason: string }[];
  extremes?: readonly LearnedHours[];
}

export interface RunningDay {
  /** Local standard time; the latest with a known temperature. */
  hour: number | null;
  /** Probability that the report equals the extreme reached so far. */
  stays: number;
  /** Null if the day-ahead forecast was used instead. */
  fit: HourFit | null;
  /** Null if a fit was used. */
  fallback: string | null;
  /** From 0 to 1; the fit gets the rest. */
  dayAheadShare: number;
}

/** The daily temperature cycle changes with the season. */
const LONGEST_AGE_DAYS = 7;
const RECENT = 3;
/** The same value as for models without data. */
const IN_COMMON = 0.5;
/** With this many minutes at the extreme reading, its two degrees are equally likely (measured on made-up minutes). */
const EVEN_MINUTES = 60;

export interface KnownDay {
  kind: DailyKind;
  stationId: string;
  extremeF: number;
  /** °F: `hoursF` from reports, `curveF` from the forecast. */
  hoursF: readonly (number | null)[];
  curveF: readonly number[];
}

/** The day's report is certain to reach it. */
export const reachedDegree = (kind: DailyKind, extremeF: number): number =>
  kind === 'daily_maximum' ? sureDegree(extremeF) : sureMinimum(extremeF);

/** A maximum is bound from below, a minimum from above. */
export const boundAt = (kind: DailyKind, degree: number) =>
  kind === 'daily_maximum' ? { atLeast: degree } : { atLeast: null, atMost: degree };

/** That the report is at the degree, or less extreme. */
function probabilityUpTo(kind: DailyKind, degree: number, distribution: TemperatureDistribution): number {
  const range =
    kind === 'daily_maximum' ? { lowest: null, highest: degree } : { lowest: degree, highest: null };
  return probabilityWithin(distribution, { ...range, step: 1 });
}

/** The degree that the report reaches according to one-minute readings. */
export const boundBy = (kind: DailyKind, { lowestF, highestF }: MinuteBound): number =>
  kind === 'daily_maximum' ? lowestF : highestF;

/** Whether the first degree is nearer the extreme. */
export const isFarther = (kind: DailyKind, a: number, b: number): boolean => signOf(kind) * (a - b) > 0;

/**
 * Moves the bound of a day in progress to the one that minutes prove. With two degrees possible, the report stays at the
 * bound only if the nearer one is the true one. Many minutes at one reading rarely have all been at its nearer degree.
 */
export function withMinutes(
  kind: DailyKind,
  { distribution, running }: { distribution: TemperatureDistribution; running: RunningDay },
  minutes: MinuteBound,
): { distribution: TemperatureDistribution; running: RunningDay } {
  const degree = boundBy(kind, minutes);
  const isCertain = minutes.lowestF === minutes.highestF;
  const nearer = isCertain ? 1 : 1 / (1 + (minutes.count / EVEN_MINUTES) ** 2);
  const stays = probabilityUpTo(kind, degree, distribution) * nearer;
  const bounded = { ...distribution, ...boundAt(kind, degree), stays };
  return { distribution: bounded, running: { ...running, stays } };
}

/** Minima are maxima of negated temperatures. */
export const signOf = (kind: DailyKind): 1 | -1 => (kind === 'daily_maximum' ? 1 : -1);

/** At the latest known hour; undefined if none is known yet. */
export function daySoFarOf({ kind, stationId, extremeF, hoursF, curveF }: KnownDay): DaySoFar | undefined {
  const hour = latestHour(hoursF);
  if (hour === null) return undefined;
  const sign = signOf(kind);
  const known = hoursF.slice(0, hour + 1);
  const recent = known.slice(Math.max(known.lastIndexOf(null) + 1, known.length - RECENT)) as number[];
  return {
    stationId,
    hour,
    reachedF: sign * extremeF,
    boundF: sign * reachedDegree(kind, extremeF) + 0.5,
    recentF: recent.map((temperatureF) => sign * temperatureF),
    curveF: curveF.map((temperatureF) => sign * temperatureF),
  };
}

function latestHour(hoursF: readonly (number | null)[]): number | null {
  const hour = hoursF.findLastIndex((temperatureF, i) => temperatureF !== null && i <= LAST_HOUR);
  return hour < 0 ? null : hour;
}

export interface RunningInput extends Omit<KnownDay, 'hoursF' | 'curveF'> {
  hoursF: readonly (number | null)[] | undefined;
  curveF: readonly number[] | undefined;
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** The first model alone provides the curve. */
  isMixed: boolean;
  level?: MinuteLevel | undefined;
}

/** Either the extreme reached so far or a later value beyond it. */
export function forecastRunning(input: RunningInput, { fits, missing }: HourFits, at: Date) {
  const { kind, stationId, extremeF, hoursF = [], curveF, level } = input;
  const degree = reachedDegree(kind, extremeF);
  const hour = latestHour(hoursF);
  const day = curveF && daySoFarOf({ kind, stationId, extremeF, hoursF, curveF });
  const fit = hour === null ? undefined : findHourFit(fits, { kind, hour }, at);
  const dayAhead = censorDayAhead(input, degree);
  if (!day || !fit || isOld(fit, at)) {
    const fallback = reasonForFallback({ kind, hour, curveF, fit }, missing);
    const meanF = input.meanF + (day ? restOf(day, kind) : 0);
    const distribution = censorDayAhead({ ...input, meanF }, degree);
    const { stays } = distribution;
    return { distribution, running: { hour, stays, fit: null, fallback, dayAheadShare: 1 } };
  }
  const byHour = predictSameDay(fit, level ? movedTo(level, day, kind) : day);
  const ahead = {
    ...byHour,
    location: signOf(kind) * input.meanF,
    scale: input.deviationF / LOGISTIC_DEVIATION,
    hasPeaked: dayAhead.stays,
  };
  const dayAheadShare = input.isMixed ? shareOf(ahead, fit) : 0;
  const { location, scale, hasPeaked: stays } = combine(byHour, ahead, dayAheadShare);
  const distribution = {
    ...boundAt(kind, degree),
    mean: signOf(kind) * location,
    deviation: scale * LOGISTIC_DEVIATION,
    stays,
    shape: 'logistic' as const,
  };
  return { distribution, running: { hour, stays, fit, fallback: null, dayAheadShare } };
}

/** °F: how far the curve's extreme of the hours to come falls short of that of the whole day. */
function restOf({ curveF, hour }: DaySoFar, kind: DailyKind): number {
  return signOf(kind) * (Math.max(...curveF.slice(hour + 1)) - Math.max(...curveF));
}

/** The day as if its hours ended at recent minutes, so that a fit goes on between reports. */
function movedTo({ afterHours, recentF }: MinuteLevel, day: DaySoFar, kind: DailyKind): DaySoFar {
  const last = day.curveF.length - 1;
  const curveF = day.curveF.map((_, hour) => {
    const at = Math.max(0, Math.min(last, hour + afterHours));
    const [before, after] = [Math.floor(at), Math.ceil(at)];
    return day.curveF[before]! + (at - before) * (day.curveF[after]! - day.curveF[before]!);
  });
  return { ...day, recentF: recentF.map((temperatureF) => signOf(kind) * temperatureF), curveF };
}

/**
 * The fit does not see the models behind the day-ahead forecast. Minimizes the expected squared error: J. M. Bates, C.
 * W. J. Granger, Oper. Res. Q. 20 (1969). The scale of a logistic distribution is its expected CRPS. A maximum that has
 * reached the day-ahead forecast reduces its weight.
 */
function shareOf({ scale, hasPeaked }: CensoredDistribution, { trainingCrps }: HourFit): number {
  const common = IN_COMMON * scale * trainingCrps;
  const share = (trainingCrps ** 2 - common) / (scale ** 2 + trainingCrps ** 2 - 2 * common);
  return (1 - hasPeaked) * Math.max(0, Math.min(1, share));
}

function combine(a: CensoredDistribution, b: CensoredDistribution, ofB: number): CensoredDistribution {
  const ofA = 1 - ofB;
  const variance =
    (ofA * a.scale) ** 2 + (ofB * b.scale) ** 2 + 2 * IN_COMMON * ofA * a.scale * ofB * b.scale;
  return {
    boundF: a.boundF,
    location: ofA * a.location + ofB * b.location,
    scale: Math.sqrt(variance),
    hasPeaked: ofA * a.hasPeaked + ofB * b.hasPeaked,
  };
}

function reasonForFallback(
  day: Pick<RunningInput, 'kind' | 'curveF'> & { hour: number | null; fit: HourFit | undefined },
  missing: HourFits['missing'],
): string {
  const { kind, hour, curveF, fit } = day;
  if (hour === null) return 'no hour of the day has been reported yet';
  if (!curveF) return "the forecast has only the day's extreme, not its hours";
  if (fit)
    return `the fit for days at this hour is of ${fit.trainedAt.toISOString().slice(0, 10)}, more than ${LONGEST_AGE_DAYS} days ago`;
  const found = missing.find((each) => each.kind === kind && each.hour === hour);
  return found?.reason ?? 'nothing has been learned of days at this hour yet';
}

const isOld = ({ trainedAt }: HourFit, at: Date): boolean =>
  at.getTime() - trainedAt.getTime() > LONGEST_AGE_DAYS * DAY_MS;

/** All mass that the reached degree rules out moves onto that degree. */
function censorDayAhead(
  { kind, meanF: mean, deviationF: deviation, shape }: RunningInput,
  degree: number,
): TemperatureDistribution & { stays: number } {
  const expected = { mean, deviation, shape };
  const stays = probabilityUpTo(kind, degree, { ...expected, atLeast: null });
  return { ...boundAt(kind, degree), ...expected, stays };
}

export const findHourFit = (
  fits: readonly HourFit[],
  { kind, hour }: Pick<HourFit, 'kind' | 'hour'>,
  at: Date,
): HourFit | undefined => newestAt(fits, at, (fit) => fit.kind === kind && fit.hour === hour);

export function newestAt<T extends { trainedAt: Date }>(
  all: readonly T[],
  at: Date,
  isWanted: (each: T) => boolean,
): T | undefined {
  let newest: T | undefined;
  for (const each of all) {
    if (!isWanted(each) || each.trainedAt > at) continue;
    if (!newest || each.trainedAt > newest.trainedAt) newest = each;
  }
  return newest;
}
