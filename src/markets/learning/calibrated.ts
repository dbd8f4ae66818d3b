import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { EARLIER_RUN } from '../weather/weather.js';
import { predictAhead, type AheadRow } from './day-ahead.js';
import { uncorrectedForecast, modelWith, type CorrectedForecast, type Ensemble } from './day-forecast.js';
import {
  findFit,
  findMix,
  fitLeadOf,
  isFor,
  MAX_LEAD_HOURS,
  type Fit,
  type FitBook,
  type FitOf,
} from './fits.js';
import type { ForecastMethod } from './forecast.js';
import { mixCandidates } from './mix.js';

/** Seasons and weather models change. */
export const LONGEST_AGE_DAYS = 7;
/** °F beyond its range: a fit to a cool month does not apply to a hot spell. */
const FAR_F = 10;
/** °F. No forecast is certain to half a degree, and one of 15 carries no information. */
export const POSSIBLE_DEVIATION_F = { lowest: 0.5, highest: 15 };
/** °F. Larger than any plausible sum of grid-point bias and daily error. */
const LARGEST_CORRECTION_F = 12;

/** The pooled fit, averaged with the station's seasonal fit if its archive is long enough. Skill weights the models. */
export const calibratedModel = modelWith((ensemble, fits, at, further) => {
  const candidates = [ensemble, ...further].map((run) => ({ run, corrected: correct(run, fits, at) }));
  const { kind, modelRunAt, end } = ensemble;
  const leadHours = fitLeadOf(kind, modelRunAt, end);
  const mixed = mixCandidates(candidates, findMix(fits, { kind, leadHours }, at));
  return { ...mixed, deviationF: Math.max(POSSIBLE_DEVIATION_F.lowest, mixed.deviationF) };
});

function correct(ensemble: Ensemble, fits: FitBook, at: Date): CorrectedForecast {
  if (ensemble.isNearMidnight)
    return uncorrectedForecast(ensemble, "the day's extreme may fall near midnight, outside of its window");
  const hours = (ensemble.end.getTime() - ensemble.modelRunAt.getTime()) / HOUR_MS;
  const longest = MAX_LEAD_HOURS[ensemble.kind];
  if (hours > longest) {
    const what = ensemble.kind === 'hourly' ? 'the hour' : "a day's end";
    return uncorrectedForecast(
      ensemble,
      `nothing is learned from runs more than ${longest} hours before ${what}`,
    );
  }
  const pooled = correctBy(fits, null, ensemble, at);
  const own = correctBy(fits, ensemble.stationId, ensemble, at);
  if (!isCorrected(own))
    return isCorrected(pooled)
      ? toCorrected('emos_pooled', pooled, own ?? null)
      : uncorrectedForecast(ensemble, `${pooled}; not corrected`);
  if (!isCorrected(pooled)) return toCorrected('emos', own, `${pooled}; the station's own fit alone`);
  const half = {
    meanF: (own.meanF + pooled.meanF) / 2,
    deviationF: (own.deviationF + pooled.deviationF) / 2,
  };
  return { ...toCorrected('emos', { ...pooled, ...half }, null), seasonalFit: own.fit };
}

interface Correction {
  fit: Fit;
  meanF: number;
  deviationF: number;
}

const isCorrected = (correction: Correction | string | undefined): correction is Correction =>
  typeof correction === 'object';

const toCorrected = (
  method: ForecastMethod,
  correction: Correction,
  fallback: string | null,
): CorrectedForecast => ({
  ...correction,
  method,
  fallback,
  isCalibrated: true,
  shape: 'logistic',
});

/** A readable reason instead of a correction; undefined if the archive is too short for a fit of its own. */
function correctBy(fits: FitBook, stationId: string | null, ensemble: Ensemble, at: Date) {
  const { kind } = ensemble;
  const leadHours = fitLeadOf(kind, ensemble.modelRunAt, ensemble.end);
  const wanted = { kind, stationId, leadHours, model: fittedModel(ensemble) };
  const fit = findFit(fits, wanted, at);
  if (!fit) return reasonForMissing(fits, wanted, at);
  if (at.getTime() - fit.trainedAt.getTime() > LONGEST_AGE_DAYS * DAY_MS)
    return `${fitName(stationId)} is of ${fit.trainedAt.toISOString().slice(0, 10)}, more than ${LONGEST_AGE_DAYS} days ago`;
  return applyFit(fit, ensemble);
}

/** Undefined for the first model. An earlier run uses the first model's fit for that run's lead time. */
const fittedModel = ({ model }: Pick<Ensemble, 'model'>): string | undefined =>
  model === EARLIER_RUN ? undefined : model;

const fitName = (stationId: string | null): string =>
  stationId === null ? 'the fit of all stations' : "the station's own fit";

function reasonForMissing({ madeAt, missing = [] }: FitBook, wanted: FitOf, at: Date): string | undefined {
  const { stationId } = wanted;
  if (madeAt === null || madeAt > at) return stationId === null ? 'no fit exists yet' : undefined;
  const usual = stationId === null ? `${fitName(stationId)} does not exist for this lead` : undefined;
  return missing.find(isFor(wanted))?.reason ?? usual;
}

function applyFit(fit: Fit, ensemble: Ensemble): Correction | string {
  const within = clamp(ensemble.meanF, { lowest: fit.lowestMeanF, highest: fit.highestMeanF });
  const beyond = ensemble.meanF - within;
  if (Math.abs(beyond) > FAR_F)
    return `the members' mean of ${ensemble.meanF.toFixed(1)} °F is outside the range of ${fitName(fit.stationId)}, ${fit.lowestMeanF.toFixed(1)} to ${fit.highestMeanF.toFixed(1)} °F`;
  const { mean, deviation } = predictAhead(fit.coefficients, { ...aheadRow(ensemble), mean: within });
  if (!Number.isFinite(mean + deviation)) return `${fitName(fit.stationId)} is of an earlier version`;
  if (Math.abs(mean - within) > LARGEST_CORRECTION_F)
    return `${fitName(fit.stationId)} corrects by ${(mean - within).toFixed(1)} °F here, more than ${LARGEST_CORRECTION_F}`;
  const learnedF = withStated(ensemble, deviation, fit.n);
  return { fit, meanF: mean + beyond, deviationF: clamp(learnedF, POSSIBLE_DEVIATION_F) };
}

/** Stated deviations are too small: a factor of 1.5 improves the log score from −2.493 to −2.419. */
const STATED_FACTOR = 1.5;
/** Over all stations. Then the learned deviation weighs as much as the stated one. */
const STATED_DAYS = 60;

/** From near 1.5 times the stated deviation toward the learned one as days accumulate. */
function withStated({ spreadF }: Ensemble, learnedF: number, days: number): number {
  if (spreadF === undefined) return learnedF;
  const share = days / (days + STATED_DAYS);
  return learnedF ** share * (STATED_FACTOR * spreadF) ** (1 - share);
}

export const aheadRow = (
  run: Pick<Ensemble, 'stationId' | 'date' | 'hour' | 'meanF' | 'varianceF'> & Pick<AheadRow, 'isOlder'>,
): AheadRow => ({
  day: Date.parse(run.date) / DAY_MS,
  hour: run.hour,
  group: run.stationId,
  mean: run.meanF,
  variance: run.varianceF,
  isOlder: run.isOlder,
});

const clamp = (value: number, { lowest, highest }: { lowest: number; highest: number }): number =>
  Math.max(lowest, Math.min(highest, value));
