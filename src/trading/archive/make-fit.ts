import { HOUR_MS } from '../../core/time.js';
import {
  MAX_LEAD_HOURS,
  POSSIBLE_DEVIATION_F,
  biasOf,
  findFit,
  fitLeadOf,
  type Fit,
  type FitBook,
  type FitOf,
} from '../forecast/fits.js';
import { rawDeviation } from '../forecast/day-forecast.js';
import { fitEmos, predictEmos, type EmosCase, type EmosFit, type NoFitReason } from '../forecast/emos.js';
import { MIN_MEMBERS } from '../forecast/forecast.js';
import { crpsOfNormal } from '../forecast/pit.js';
import { spanOf, type TemperatureKind } from '../market/market.js';
import { placesOf, type Place } from '../market/stations.js';
import type { KnownHistory } from './archive.js';
import type { KnownRun } from '../forecast/queries.js';

/** What a run said of a day or an hour, and what was reported of it. */
export interface TrainingCase extends KnownRun {
  temperatureF: number;
  /** When the report became known. */
  knownAt: Date;
}

/**
 * Most recent days with data that a fit learns from. Errors of summer are not those of winter, so not many more; the
 * deviation of 60 errors is known to a tenth. A day has many hours.
 */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 60,
  daily_minimum: 60,
  hourly: 45,
};

/**
 * The cases of one station by lead, the latest first: one for each day or hour.
 * @param runs of one kind
 */
export function casesOf(
  history: KnownHistory,
  station: Place,
  runs: readonly KnownRun[],
): Map<number, TrainingCase[]> {
  const byLead = new Map<number, Map<string, KnownRun>>();
  const reported = new Map<string, Reported | undefined>();
  for (const run of runs) {
    const { kind, modelRunAt } = run;
    const key = keyOf(run);
    if (!reported.has(key)) reported.set(key, whatWasReported(history, station, run));
    const end = reported.get(key)?.end;
    if (!end) continue;
    const hours = (end.getTime() - modelRunAt.getTime()) / HOUR_MS;
    if (hours <= 0 || hours > MAX_LEAD_HOURS[kind]) continue;
    const lead = fitLeadOf(kind, modelRunAt, end);
    const ofLead = byLead.get(lead) ?? new Map<string, KnownRun>();
    byLead.set(lead, ofLead);
    const found = ofLead.get(key);
    if (!found || isBetter(run, found)) ofLead.set(key, run);
  }
  const toCase = (run: KnownRun): TrainingCase => ({ ...run, ...reported.get(keyOf(run))!.report });
  return new Map([...byLead].map(([lead, ofLead]) => [lead, latestDays([...ofLead.values()]).map(toCase)]));
}

const keyOf = ({ date, hour }: KnownRun): string => (hour === undefined ? date : `${date} ${hour}`);

interface Reported {
  end: Date;
  report: Pick<TrainingCase, 'temperatureF' | 'knownAt'>;
}

/** Read once for all runs of a day or an hour. */
function whatWasReported(history: KnownHistory, station: Place, run: KnownRun): Reported | undefined {
  const found = history.reportOf(run);
  if (!found) return undefined;
  const { temperatureF, knownAt } = found;
  return { end: spanOf(station, run).end, report: { temperatureF, knownAt } };
}

/** Hours of one day have their errors in common: what is known is counted in days. */
export const daysIn = (cases: readonly Pick<KnownRun, 'stationId' | 'date'>[]): number =>
  new Set(cases.map(({ stationId, date }) => `${stationId} ${date}`)).size;

/** True for the members of a real ensemble: their spread says something. */
export const hasSpread = ({ members }: KnownRun): boolean => members >= MIN_MEMBERS;

/**
 * Of several runs of one lead a real ensemble counts before a single run; of those the oldest. It had the longest way to go:
 * a fit by it is rather too careful for the others than too sure.
 */
const isBetter = (a: KnownRun, b: KnownRun): boolean =>
  hasSpread(a) === hasSpread(b) ? a.modelRunAt.getTime() < b.modelRunAt.getTime() : hasSpread(a);

function latestDays(runs: KnownRun[]): KnownRun[] {
  runs.sort(latestFirst);
  const dates = [...new Set(runs.map(({ date }) => date))];
  const first = dates[WINDOW_DAYS[runs[0]!.kind] - 1] ?? '';
  return runs.filter(({ date }) => date >= first);
}

export const latestFirst = (a: KnownRun, b: KnownRun): number =>
  a.date === b.date ? (b.hour ?? 0) - (a.hour ?? 0) : a.date < b.date ? 1 : -1;

/**
 * How many days weigh as much as what all stations have in common. Errors of a day deviate by about 3 °F, biases of
 * stations by 1.5 to 2 °F from each other: about 3 independent days, and neighbouring days are not independent.
 */
const PRIOR_DAYS = 10;

/**
 * What each station's members are too warm by, °F: between its own mean error and that of all stations, the nearer to its
 * own the more days are known, n/(n + 10). A station without days gets what is common.
 * B. Efron, C. Morris, Stein's Estimation Rule and its Competitors, J. Amer. Statist. Assoc. 68 (1973).
 * @param cases of one kind
 */
export const stationBiases = (cases: readonly TrainingCase[]): Record<string, number> =>
  shrunken(
    cases.map(({ stationId, date, meanF, temperatureF }) => ({
      stationId,
      date,
      key: stationId,
      error: meanF - temperatureF,
    })),
    placesOf(cases[0]?.kind ?? 'daily_maximum').map(({ id }) => id),
  );

/** The same of each hour by the clock, of what the stations' biases leave. */
export const hourBiases = (
  cases: readonly TrainingCase[],
  stationBiasF: Readonly<Record<string, number>> | null,
): Record<string, number> =>
  shrunken(
    cases.map(({ stationId, date, hour, meanF, temperatureF }) => ({
      stationId,
      date,
      key: String(hour),
      error: meanF - temperatureF - (stationBiasF?.[stationId] ?? 0),
    })),
    Array.from({ length: 24 }, (_, hour) => String(hour)),
  );

type KeyedError = Pick<TrainingCase, 'stationId' | 'date'> & { key: string; error: number };

function shrunken(errors: readonly KeyedError[], keys: readonly string[]): Record<string, number> {
  const common = meanOf(errors);
  const byKey = new Map<string, KeyedError[]>(keys.map((key) => [key, []]));
  for (const each of errors) byKey.get(each.key)?.push(each);
  return Object.fromEntries(
    [...byKey].map(([key, own]) => {
      const days = daysIn(own);
      return [key, common + (days / (days + PRIOR_DAYS)) * (meanOf(own) - common)];
    }),
  );
}

const meanOf = (errors: readonly KeyedError[]): number =>
  errors.length === 0 ? 0 : errors.reduce((sum, { error }) => sum + error, 0) / errors.length;

export interface Group extends FitOf, Pick<Fit, 'stationBiasF' | 'hourBiasF'> {
  cases: readonly TrainingCase[];
}

/** A degree more in the members is a degree more in the forecast, to a half: else something other than their bias was learned. */
const POSSIBLE_SLOPE = { lowest: 0.5, highest: 1.5 };
/** °F. More than any grid point is known to be off (6.3); at the ends of what was seen the slope may add half as much. */
const LARGEST_CORRECTION_F = 8;
const LARGEST_CORRECTION_AT_END_F = 12;

/**
 * With reports of 48 days coming in one by one every morning and those of hours all day, something is new all the time: a fit of
 * the last hours is kept, unless much more is known than it has seen.
 */
const KEPT_MS = 18 * HOUR_MS;
const MUCH_MORE = 1.1;

/**
 * Fits a group, unless that was done for the same training set before, or for almost the same a short time ago.
 * @returns a text: why there is no fit that may be used
 */
export function makeFit(
  group: Group,
  trainedAt: Date,
  { previous, newId }: { previous: FitBook; newId: () => string },
): { fit: Fit; isNew: boolean } | string {
  const { model, kind, stationId, leadHours, stationBiasF, hourBiasF, cases } = group;
  const before = findFit(previous, group, trainedAt);
  if (before && isRecent(before, cases, trainedAt)) return { fit: before, isNew: false };
  const unbiased = cases.map((each): EmosCase => ({
    mean: each.meanF - biasOf(group, each),
    variance: each.varianceF,
    observed: each.temperatureF,
  }));
  const seen = whatWasSeen(cases, unbiased);
  if (before && isSame(before, seen)) return { fit: before, isNew: false };
  const found = fitEmos(unbiased);
  if ('reason' in found) return `${nameOf(stationId)} could not be made: ${noFitReasons[found.reason]}`;
  const problem = problemOf(found, seen.rawCrps, unbiased);
  if (problem) return `${nameOf(stationId)} is not used: ${problem}`;
  const { coefficients, trainingCrps } = found;
  const fit = {
    id: newId(),
    ...(model !== undefined && { model }),
    kind,
    stationId,
    leadHours,
    coefficients,
    stationBiasF,
    hourBiasF,
    ...seen,
    trainingCrps,
    trainedAt,
  };
  return { fit, isNew: true };
}

const isRecent = (fit: Fit, cases: readonly TrainingCase[], at: Date): boolean =>
  at.getTime() - fit.trainedAt.getTime() < KEPT_MS && cases.length < MUCH_MORE * fit.n;

const nameOf = (stationId: string | null): string =>
  stationId === null ? 'a fit of all stations' : 'a fit of this station';

const noFitReasons: Record<NoFitReason, string> = {
  too_few_cases: 'too few days are known',
  not_finite: 'its data are broken',
  constant_mean: 'the members said the same on every day',
  no_errors: 'its data have no errors at all',
};

type Seen = Pick<
  Fit,
  'n' | 'firstDate' | 'lastDate' | 'lowestMeanF' | 'highestMeanF' | 'rawCrps' | 'knownThrough'
>;

function whatWasSeen(cases: readonly TrainingCase[], unbiased: readonly EmosCase[]): Seen {
  let [firstDate, lastDate] = [cases[0]!.date, cases[0]!.date];
  let [lowestMeanF, highestMeanF] = [Infinity, -Infinity];
  let knownThrough = -Infinity;
  let crps = 0;
  for (const [
    i,
    { date, meanF, varianceF, temperatureF, modelRunAt, fetchedAt, knownAt },
  ] of cases.entries()) {
    if (date < firstDate) firstDate = date;
    if (date > lastDate) lastDate = date;
    lowestMeanF = Math.min(lowestMeanF, unbiased[i]!.mean);
    highestMeanF = Math.max(highestMeanF, unbiased[i]!.mean);
    knownThrough = Math.max(knownThrough, modelRunAt.getTime(), fetchedAt.getTime(), knownAt.getTime());
    crps += crpsOfNormal(meanF, rawDeviation(varianceF), temperatureF);
  }
  return {
    n: cases.length,
    firstDate,
    lastDate,
    lowestMeanF,
    highestMeanF,
    rawCrps: crps / cases.length,
    knownThrough: new Date(knownThrough),
  };
}

/** The score of the members as they are is made of every number in a training set: where it is the same, the set is. */
const isSame = (fit: Fit, seen: Seen): boolean =>
  fit.n === seen.n &&
  fit.firstDate === seen.firstDate &&
  fit.lastDate === seen.lastDate &&
  fit.knownThrough.getTime() === seen.knownThrough.getTime() &&
  fit.lowestMeanF === seen.lowestMeanF &&
  fit.highestMeanF === seen.highestMeanF &&
  fit.rawCrps === seen.rawCrps;

/** What keeps a fit out, in words; undefined for one that may be used. */
export function problemOf(
  { coefficients, trainingCrps, hasConverged }: EmosFit,
  rawCrps: number,
  cases: readonly EmosCase[],
): string | undefined {
  const { a, b } = coefficients;
  const means = cases.map(({ mean }) => mean);
  const correctionAt = (mean: number) => Math.abs(a + (b - 1) * mean);
  const centre = average(means);
  const spread = average(cases.map(({ variance }) => variance));
  const { deviation } = predictEmos(coefficients, centre, spread);
  const atEnds = Math.max(correctionAt(Math.min(...means)), correctionAt(Math.max(...means)));
  const { lowest, highest } = POSSIBLE_SLOPE;
  // Asked in this way a number that is none fails, too.
  if (!hasConverged) return 'it has not converged';
  if (!(b >= lowest && b <= highest))
    return `its slope of ${b.toFixed(2)} is not between ${lowest} and ${highest}`;
  if (!(correctionAt(centre) <= LARGEST_CORRECTION_F))
    return `it corrects by ${correctionAt(centre).toFixed(1)} °F, more than ${LARGEST_CORRECTION_F}`;
  if (!(atEnds <= LARGEST_CORRECTION_AT_END_F))
    return `it corrects by up to ${atEnds.toFixed(1)} °F, more than ${LARGEST_CORRECTION_AT_END_F}`;
  if (!(deviation >= POSSIBLE_DEVIATION_F.lowest && deviation <= POSSIBLE_DEVIATION_F.highest))
    return `its deviation of ${deviation.toFixed(2)} °F cannot be`;
  if (!(trainingCrps < rawCrps)) return 'it is no better than the members as they are';
  return undefined;
}

const average = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
