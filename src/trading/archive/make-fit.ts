import { POSSIBLE_DEVIATION_F } from '../forecast/calibrated.js';
import { crpsOfNormal } from '../forecast/crps.js';
import { rawDeviation } from '../forecast/day-forecast.js';
import { fitEmos, type EmosCase, type EmosFit, type NoFitReason } from '../forecast/emos-fit.js';
import { predictEmos } from '../forecast/emos.js';
import { biasOf, findFit, type Fit, type FitBook } from '../forecast/fits.js';
import type { TrainingCase } from './cases.js';

export interface Group extends Pick<Fit, 'kind' | 'stationId' | 'leadHours' | 'stationBiasF' | 'hourBiasF'> {
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
const KEPT_MS = 18 * 60 * 60 * 1000;
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
  const { kind, stationId, leadHours, stationBiasF, hourBiasF, cases } = group;
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
  if ('reason' in found) return `${nameOf(stationId)} could not be made: ${noFitWords[found.reason]}`;
  const problem = problemOf(found, seen.rawCrps, unbiased);
  if (problem) return `${nameOf(stationId)} is not used: ${problem}`;
  const { coefficients, trainingCrps } = found;
  const fit = {
    id: newId(),
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

const noFitWords: Record<NoFitReason, string> = {
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
