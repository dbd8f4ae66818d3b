import { HOUR_MS } from '../../core/time.js';
import { groupBy } from '../../core/collections.js';
import type { Steps } from '../../core/steps.js';
import { isPossible, type KnownHour } from '../weather/weather.js';
import type { KnownRun } from '../learning/queries.js';
import { learnExtremeHours, type LearnedHours } from '../learning/extreme-hours.js';
import {
  daySoFarOf,
  findHourFit,
  reachedDegree,
  signOf,
  type HourFit,
  type HourFits,
} from '../learning/running-day.js';
import {
  crpsOfCurve,
  fitSameDayInSteps,
  LAST_HOUR,
  MIN_SAME_DAY_CASES,
  type SameDayCase,
  type SameDayFit,
} from '../learning/same-day.js';
import { dailyKinds, type DailyKind } from '../market/market.js';
import type { KnownHistory } from './forecast-archive.js';
import { isSame, ofLatestDates } from './make-fit.js';

export interface HourCase extends SameDayCase {
  date: string;
  modelRunAt: Date;
  knownAt: Date;
}

export interface TrainedHourFit {
  fit: HourFit;
  cases: readonly HourCase[];
}

export interface HourTrainingOptions {
  previous: readonly HourFit[];
  newId: () => string;
  hours?: readonly number[] | undefined;
}

/** Number of latest dates used: sixty days of seven stations are almost as good as two years (measured). */
const WINDOW_DAYS = 60;
/**
 * Minimum number of dates, not cases, because stations share a date's weather. With at least nine dates of seven
 * stations, using a fit is better than using none, at every hour (measured).
 */
const MIN_DATES = 9;
/** Maximum number of cases per fit. More cases do not improve a fit, but take longer. */
const MAX_CASES = 1_500;
const CASES_AT_ONCE = 200;
/** How long a fit is reused, unless the data has grown by `MUCH_MORE`: refitting all hours takes seconds. */
const KEPT_MS = 18 * HOUR_MS;
const MUCH_MORE = 2;
/** °F. No day's maximum exceeds both its maximum so far and the forecast for its remaining hours by more than this. */
const LARGEST_CORRECTION_F = 12;

const ALL_HOURS = Array.from({ length: LAST_HOUR + 1 }, (_, hour) => hour);

/** One fit per kind and hour over all stations. Each step takes a few milliseconds. */
export function* trainHoursInSteps(
  history: KnownHistory,
  { previous, newId, hours = ALL_HOURS }: HourTrainingOptions,
): Steps<HourFits & { added: TrainedHourFit[] }> {
  const days = ofLatestDates(daysOf(history), WINDOW_DAYS);
  yield;
  const made = {
    fits: [] as HourFit[],
    missing: [] as HourFits['missing'][number][],
    added: [] as TrainedHourFit[],
    extremes: learnAllExtremeHours(history.hours),
  };
  yield;
  for (const kind of dailyKinds)
    for (const hour of hours) {
      const found = yield* trainHour(history, days, { kind, hour }, { previous, newId });
      if (typeof found === 'string') made.missing.push({ kind, hour, reason: found });
      else {
        made.fits.push(found.fit);
        if (found.cases) made.added.push({ fit: found.fit, cases: found.cases });
      }
      yield;
    }
  return made;
}

/** Each station's, from the days of its reports. */
export function learnAllExtremeHours(hours: readonly KnownHour[]): LearnedHours[] {
  const known = hours.filter(({ temperatureF }) => isPossible(temperatureF));
  return [...groupBy(known, ({ stationId }) => stationId)].flatMap(([stationId, own]) => {
    const days = [...groupBy(own, ({ date }) => date).values()].map((day) => {
      const hoursF: number[] = [];
      for (const { hour, temperatureF } of day) hoursF[hour] = temperatureF;
      return hoursF;
    });
    return dailyKinds.flatMap((kind) => {
      const learned = learnExtremeHours(kind, days);
      return learned ? [{ ...learned, kind, stationId }] : [];
    });
  });
}

type HourKey = Pick<HourFit, 'kind' | 'hour'>;

/** @returns the fit, without cases if the previous fit was reused, or the reason as text if there is no usable fit */
function* trainHour(
  history: KnownHistory,
  days: readonly KnownStationDay[],
  wanted: HourKey,
  { previous, newId }: HourTrainingOptions,
): Steps<{ fit: HourFit; cases?: readonly HourCase[] } | string> {
  const trainedAt = history.knownAt;
  const before = findHourFit(previous, wanted, trainedAt);
  const isRecent = before && trainedAt.getTime() - before.trainedAt.getTime() < KEPT_MS;
  if (isRecent && countDays(history, days, wanted) < MUCH_MORE * before.n) return { fit: before };
  const cases: HourCase[] = [];
  for (const day of days) {
    const found = cases.length < MAX_CASES ? toCase(history, day, wanted) : undefined;
    if (found && cases.push(found) % CASES_AT_ONCE === 0) yield;
  }
  yield;
  if (cases.length < MIN_SAME_DAY_CASES)
    return `only ${cases.length} of ${MIN_SAME_DAY_CASES} days are known hour by hour`;
  const dates = new Set(cases.map(({ date }) => date)).size;
  if (dates < MIN_DATES) return `only ${dates} of ${MIN_DATES} dates are known hour by hour`;
  const seen = summarizeCases(cases);
  // A fit's inputs never change, so the training set is unchanged if nothing newer is known.
  if (before && isSame(before, seen)) return { fit: before };
  const found = (yield* fitSameDayInSteps(cases, before))!;
  yield;
  const rawCrps = crpsOfCurve(cases, found);
  const problem = problemOf(found, rawCrps);
  if (problem) return `the fit for days at this hour is not used: ${problem}`;
  return { fit: { ...found, ...wanted, ...seen, id: newId(), rawCrps, trainedAt }, cases };
}

interface KnownStationDay {
  stationId: string;
  date: string;
  hours: (KnownHour | undefined)[];
  /** Runs with an hourly curve, newest first. */
  runs: KnownRun[];
}

function daysOf({ hours, runs }: KnownHistory): KnownStationDay[] {
  const days = new Map<string, KnownStationDay>();
  for (const hour of hours) {
    const { stationId, date } = hour;
    const key = `${stationId} ${date}`;
    const day = days.get(key) ?? { stationId, date, hours: [], runs: [] };
    days.set(key, day);
    if (isPossible(hour.temperatureF)) day.hours[hour.hour] = hour;
  }
  for (const run of runs) if (hasCurve(run)) days.get(`${run.stationId} ${run.date}`)?.runs.push(run);
  const found = [...days.values()].filter((day) => day.runs.length > 0);
  for (const day of found) day.runs.sort((a, b) => b.modelRunAt.getTime() - a.modelRunAt.getTime());
  return found.sort((a, b) =>
    a.date === b.date ? (a.stationId < b.stationId ? -1 : 1) : a.date < b.date ? 1 : -1,
  );
}

/** A day's maximum and minimum share the maximum's curve. */
const hasCurve = ({ kind, curveF }: KnownRun): boolean =>
  kind === 'daily_maximum' && curveF?.length === 24 && curveF.every(isPossible);

/** Returns an upper bound on the number of usable days, which is cheap to compute. */
function countDays(history: KnownHistory, days: readonly KnownStationDay[], { kind, hour }: HourKey): number {
  const known = days.filter(
    ({ stationId, date, hours }) =>
      extremeOf(hours[hour], kind) !== null && history.reportOf({ kind, stationId, date }) !== undefined,
  );
  return Math.min(MAX_CASES, known.length);
}

const extremeOf = (hour: KnownHour | undefined, kind: DailyKind): number | null =>
  (kind === 'daily_maximum' ? hour?.highestF : hour?.lowestF) ?? null;

/** Returns a day as known at the hour, with no later data except the report. */
function toCase(
  history: KnownHistory,
  { stationId, date, hours, runs }: KnownStationDay,
  { kind, hour }: HourKey,
): HourCase | undefined {
  const latest = hours[hour];
  const extremeF = extremeOf(latest, kind);
  const report = history.reportOf({ kind, stationId, date });
  if (!latest || extremeF === null || !report) return undefined;
  const thenMs = latest.fetchedAt.getTime();
  const isThere = (at: Date) => at.getTime() <= thenMs;
  const run = runs.find(({ modelRunAt, fetchedAt }) => isThere(modelRunAt) && isThere(fetchedAt));
  if (!run) return undefined;
  const hoursF = Array.from({ length: hour + 1 }, (_, i) =>
    hours[i] && isThere(hours[i].fetchedAt) ? hours[i].temperatureF : null,
  );
  const day = daySoFarOf({ kind, stationId, extremeF, hoursF, curveF: run.curveF! })!;
  const sign = signOf(kind);
  const reported = sign * report.temperatureF;
  const hasRisen = reported > sign * reachedDegree(kind, extremeF);
  return {
    stationId,
    hour: day.hour,
    reachedF: day.reachedF,
    boundF: day.boundF,
    recentF: day.recentF,
    curveF: day.curveF,
    observedF: hasRisen ? reported : day.boundF!,
    date,
    modelRunAt: run.modelRunAt,
    knownAt: new Date(Math.max(thenMs, report.knownAt.getTime())),
  };
}

type Seen = Pick<HourFit, 'n' | 'firstDate' | 'lastDate' | 'knownThrough'>;

function summarizeCases(cases: readonly HourCase[]): Seen {
  return {
    n: cases.length,
    firstDate: cases.at(-1)!.date,
    lastDate: cases[0]!.date,
    knownThrough: new Date(
      cases.reduce((latest, { knownAt }) => Math.max(latest, knownAt.getTime()), -Infinity),
    ),
  };
}

export function problemOf(fit: SameDayFit, rawCrps: number): string | undefined {
  const { a = NaN, b = NaN } = fit.coefficients;
  const biases = [fit.stationBiasF, fit.stationExtremeBiasF].flatMap((byStation) => Object.values(byStation));
  const numbers = [...Object.values(fit.coefficients), ...(fit.hurdle ?? []), ...biases];
  const bias = Math.max(...biases.map(Math.abs));
  // Negated comparisons also reject NaN.
  if (!numbers.every(Number.isFinite)) return 'its numbers are not finite';
  if (!(b >= POSSIBLE_SLOPE.lowest && b <= POSSIBLE_SLOPE.highest))
    return `its slope of ${b.toFixed(2)} is not between ${POSSIBLE_SLOPE.lowest} and ${POSSIBLE_SLOPE.highest}`;
  if (!(Math.abs(a) <= LARGEST_CORRECTION_F))
    return `it corrects by ${a.toFixed(1)} °F, more than ${LARGEST_CORRECTION_F}`;
  if (!(bias <= LARGEST_CORRECTION_F))
    return `its bias of ${bias.toFixed(1)} °F for a station is more than ${LARGEST_CORRECTION_F}`;
  if (!(fit.trainingCrps < rawCrps)) return 'it is no better than the uncorrected hourly forecast';
  return undefined;
}

/** Plausible change of the extreme in °F per °F of change in the forecast for the remaining hours. */
const POSSIBLE_SLOPE = { lowest: -0.5, highest: 3 };
