import { isDeepStrictEqual } from 'node:util';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import type { Steps } from '../../core/steps.js';
import {
  fitAheadInSteps,
  lineOf,
  predictAhead,
  type AheadCase,
  type AheadFit,
} from '../learning/day-ahead.js';
import { MAX_LEAD_HOURS, findFit, fitLeadOf, type Fit, type FitBook, type FitOf } from '../learning/fits.js';
import { rawDeviation } from '../learning/day-forecast.js';
import { MIN_MEMBERS } from '../weather/weather.js';
import { crpsOfNormal } from '../learning/crps.js';
import { spanOf, type TemperatureKind } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import type { KnownHistory } from './forecast-archive.js';
import type { KnownRun } from '../learning/queries.js';
import type { Place } from '../market/place.js';
import { POSSIBLE_DEVIATION_F, aheadRow } from '../learning/calibrated.js';

export interface TrainingCase extends KnownRun {
  temperatureF: number;
  knownAt: Date;
  /** True if the forecast is from an older version of the model than the newest case's forecast. */
  isOlder?: true | undefined;
}

/** Latest days with data: errors vary by season, and 60 days determine the standard deviation to within a tenth. */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 60,
  daily_minimum: 60,
  hourly: 45,
};

/**
 * Returns one station's cases by lead, latest first, one per day or hour.
 * @param runs of one kind
 * @param days number of latest days with data; default: the window for fits over all stations
 */
export function casesOf(history: KnownHistory, station: Place, runs: readonly KnownRun[], days?: number) {
  const byLead = new Map<number, Map<string, KnownRun>>();
  const reported = new Map<string, ReturnType<typeof findReport>>();
  for (const run of runs) {
    const { kind, modelRunAt } = run;
    const key = keyOf(run);
    if (!reported.has(key)) reported.set(key, findReport(history, station, run));
    const end = reported.get(key)?.end;
    if (!end || run.isNearMidnight) continue;
    const hours = (end.getTime() - modelRunAt.getTime()) / HOUR_MS;
    if (hours <= 0 || hours > MAX_LEAD_HOURS[kind]) continue;
    const lead = fitLeadOf(kind, modelRunAt, end);
    const ofLead = byLead.get(lead) ?? new Map<string, KnownRun>();
    byLead.set(lead, ofLead);
    const found = ofLead.get(key);
    if (!found || isBetter(run, found)) ofLead.set(key, run);
  }
  const toCase = (run: KnownRun): TrainingCase => caseOf(run, reported.get(keyOf(run))!.report);
  return new Map(
    [...byLead].map(([lead, ofLead]) => {
      const latest = [...ofLead.values()].sort(latestFirst);
      return [lead, ofLatestDates(latest, days ?? WINDOW_DAYS[latest[0]!.kind]).map(toCase)];
    }),
  );
}

/** Names each field: spreading gives every object its own layout, which takes three times the memory of the values. */
const caseOf = (run: KnownRun, { temperatureF, knownAt }: SettledDay): TrainingCase => ({
  model: run.model,
  kind: run.kind,
  stationId: run.stationId,
  date: run.date,
  hour: run.hour,
  modelRunAt: run.modelRunAt,
  fetchedAt: run.fetchedAt,
  members: run.members,
  meanF: run.meanF,
  varianceF: run.varianceF,
  version: run.version,
  temperatureF,
  knownAt,
});

const keyOf = ({ date, hour }: KnownRun): string => (hour === undefined ? date : `${date} ${hour}`);

function findReport(history: KnownHistory, station: Place, run: KnownRun) {
  const found = history.reportOf(run);
  if (!found) return undefined;
  return { end: spanOf(station, run).end, report: found };
}

/** Hours of the same day have correlated errors, so the amount of data is counted in days. */
export const daysIn = (cases: readonly Pick<KnownRun, 'stationId' | 'date'>[]): number =>
  new Set(cases.map(({ stationId, date }) => `${stationId} ${date}`)).size;

/** True for a real ensemble, whose spread carries information, and for a stated spread. */
export const hasSpread = ({ members, varianceF }: KnownRun): boolean =>
  members >= MIN_MEMBERS || (members === 1 && varianceF > 0);

/** Prefers real ensembles, then the oldest run: its longer lead makes the fit overcautious, not overconfident. */
const isBetter = (a: KnownRun, b: KnownRun): boolean =>
  hasSpread(a) === hasSpread(b) ? a.modelRunAt.getTime() < b.modelRunAt.getTime() : hasSpread(a);

export function ofLatestDates<T extends { date: string }>(rows: readonly T[], count: number): T[] {
  const first = [...new Set(rows.map(({ date }) => date))][count - 1] ?? '';
  return rows.filter(({ date }) => date >= first);
}

export const latestFirst = (a: KnownRun, b: KnownRun): number =>
  a.date === b.date ? (b.hour ?? 0) - (a.hour ?? 0) : a.date < b.date ? 1 : -1;

export interface Group extends FitOf {
  cases: readonly TrainingCase[];
}

/** A warmer ensemble must make the forecast warmer by about as much; otherwise the fit learned more than bias. */
const POSSIBLE_SLOPE = { lowest: 0.5, highest: 1.5 };
/** °F. Larger than any known error of a grid point (6.3). */
const LARGEST_CORRECTION_F = 8;

/** How long a fit is reused, unless the data has grown by `MUCH_MORE`. Fits to years of data change slowly. */
const KEPT_MS = { pooled: 18 * HOUR_MS, own: 5 * DAY_MS };
const MUCH_MORE = 1.1;

/** True if an earlier fit is still good enough, given the number of cases now available. */
export const isRecent = (fit: Fit, cases: number, at: Date): boolean =>
  at.getTime() - fit.trainedAt.getTime() < KEPT_MS[fit.stationId === null ? 'pooled' : 'own'] &&
  cases < MUCH_MORE * fit.n;

/**
 * Fits a group: all stations together, or one station's own long history with seasonal terms. Reuses the previous fit
 * if it is recent or its training set has not changed.
 * @returns the reason as text if there is no usable fit
 */
export function* makeFitInSteps(
  group: Group,
  trainedAt: Date,
  { previous, newId }: { previous: FitBook; newId: () => string },
): Steps<{ fit: Fit; isNew: boolean } | string> {
  const { model, kind, stationId, leadHours, cases } = group;
  const before = findFit(previous, group, trainedAt);
  if (before && isRecent(before, cases.length, trainedAt)) return { fit: before, isNew: false };
  const seen = summarizeCases(cases);
  yield;
  if (before && isSame(before, seen)) return { fit: before, isNew: false };
  const rows = cases.map((each): AheadCase => ({ ...aheadRow(each), observed: each.temperatureF }));
  yield;
  const design = stationId === null ? 'shrunk' : 'seasonal';
  const found = yield* fitAheadInSteps(rows, design, before?.coefficients);
  if (!found)
    return `${fitName(stationId)} could not be computed: too few days are known, or they are all equal`;
  const problem = problemOf(found, seen.rawCrps, rows);
  if (problem) return `${fitName(stationId)} is not used: ${problem}`;
  const { coefficients, trainingCrps } = found;
  const fit = {
    id: newId(),
    ...(model !== undefined && { model }),
    kind,
    stationId,
    leadHours,
    coefficients,
    ...seen,
    trainingCrps,
    trainedAt,
  };
  return { fit, isNew: true };
}

const fitName = (stationId: string | null): string =>
  stationId === null ? 'a fit of all stations' : 'a fit of this station with the seasons';

type Seen = Pick<
  Fit,
  'n' | 'firstDate' | 'lastDate' | 'lowestMeanF' | 'highestMeanF' | 'rawCrps' | 'knownThrough'
>;

function summarizeCases(cases: readonly TrainingCase[]): Seen {
  let [firstDate, lastDate] = [cases[0]!.date, cases[0]!.date];
  let [lowestMeanF, highestMeanF] = [Infinity, -Infinity];
  let crps = 0;
  for (const { date, meanF, varianceF, temperatureF } of cases) {
    if (date < firstDate) firstDate = date;
    if (date > lastDate) lastDate = date;
    lowestMeanF = Math.min(lowestMeanF, meanF);
    highestMeanF = Math.max(highestMeanF, meanF);
    crps += crpsOfNormal(meanF, rawDeviation(varianceF), temperatureF);
  }
  return {
    n: cases.length,
    firstDate,
    lastDate,
    lowestMeanF,
    highestMeanF,
    rawCrps: crps / cases.length,
    knownThrough: new Date(knownThroughMs(cases)),
  };
}

export const knownThroughMs = (cases: readonly TrainingCase[]): number =>
  cases.reduce(
    (latest, { modelRunAt, fetchedAt, knownAt }) =>
      Math.max(latest, modelRunAt.getTime(), fetchedAt.getTime(), knownAt.getTime()),
    -Infinity,
  );

/** Whether a fit has this summary of its training set. The raw score depends on every number of the set. */
export const isSame = <F extends object>(fit: F, seen: Partial<F>): boolean =>
  isDeepStrictEqual({ ...fit, ...seen }, fit);

/** Days of the year at which a seasonal fit is checked. */
const SEASONS = [0, 91, 183, 274];

/**
 * Returns a readable reason for rejecting a fit, or undefined if it is acceptable. Individual stations are checked when
 * the fit is used, so that one bad station does not invalidate the fit for all.
 */
export function problemOf(
  fit: Pick<AheadFit, 'coefficients' | 'trainingCrps' | 'hasConverged'>,
  rawCrps: number,
  cases: readonly AheadCase[],
): string | undefined {
  const { coefficients, trainingCrps, hasConverged } = fit;
  const group = '';
  const centre = {
    group,
    mean: average(cases, ({ mean }) => mean),
    variance: average(cases, ({ variance }) => variance),
  };
  const expected = SEASONS.map((day) => predictAhead(coefficients, { ...centre, day }));
  const corrections = expected.map(({ mean }) => Math.abs(mean - centre.mean));
  const slopes = SEASONS.map((day) => lineOf(coefficients, { group, day }).b);
  const { lowest, highest } = POSSIBLE_SLOPE;
  const wrong = slopes.find((slope) => !(slope >= lowest && slope <= highest));
  const far = corrections.find((correction) => !(correction <= LARGEST_CORRECTION_F));
  const impossible = expected.find(
    ({ deviation }) =>
      !(deviation >= POSSIBLE_DEVIATION_F.lowest && deviation <= POSSIBLE_DEVIATION_F.highest),
  );
  // Negated comparisons also reject NaN.
  if (!hasConverged) return 'it has not converged';
  if (wrong !== undefined) return `its slope of ${wrong.toFixed(2)} is not between ${lowest} and ${highest}`;
  if (far !== undefined) return `it corrects by ${far.toFixed(1)} °F, more than ${LARGEST_CORRECTION_F}`;
  if (impossible) return `its deviation of ${impossible.deviation.toFixed(2)} °F is impossible`;
  if (!(trainingCrps < rawCrps)) return 'it is no better than the uncorrected members';
  return undefined;
}

const average = (cases: readonly AheadCase[], read: (each: AheadCase) => number): number =>
  cases.reduce((sum, each) => sum + read(each), 0) / cases.length;
