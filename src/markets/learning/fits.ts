import { DAY_MS, HOUR_MS } from '../../core/time.js';
import type { TemperatureKind } from '../market/market.js';
import { predictAhead, type AheadFit, type AheadRow } from './day-ahead.js';
import { asItIs, modelWith, type Corrected, type Ensemble } from './day-forecast.js';
import { EARLIER_RUN } from '../weather/weather.js';
import { type ForecastMethod } from './forecast.js';
import { mixCandidates, type Mix } from './mix.js';
import { newestAt, type HourFits } from './running-day.js';

/** The weather changes with the season, and weather models are changed: older fits are not used. */
export const LONGEST_AGE_DAYS = 7;
/**
 * °F. Beyond what it has seen a fit corrects by as much as at the end of that; this far beyond it is not used: a
 * correction learned in a cool month says nothing of a hot spell.
 */
const FAR_F = 10;
/** °F. Whatever a fit says, what is to come is not known better than to half a degree, and less sure than 15 says nothing. */
export const POSSIBLE_DEVIATION_F = { lowest: 0.5, highest: 15 };
/** °F. More than a grid point and a day are off together. */
const LARGEST_CORRECTION_F = 12;

/**
 * Corrected by how earlier forecasts came out, each model by itself: by the fit of all stations together, of a station whose archive is long half
 * and half by its own fit with the seasons; else as the members are. Several are mixed by how they have done lately.
 */
export const calibratedModel = modelWith((ensemble, fits, at, further) => {
  const candidates = [ensemble, ...further].map((run) => ({ run, corrected: correct(run, fits, at) }));
  const { kind, modelRunAt, end } = ensemble;
  const leadHours = fitLeadOf(kind, modelRunAt, end);
  const mixed = mixCandidates(candidates, findMix(fits, { kind, leadHours }, at));
  return { ...mixed, deviationF: Math.max(POSSIBLE_DEVIATION_F.lowest, mixed.deviationF) };
});

function correct(ensemble: Ensemble, fits: FitBook, at: Date): Corrected {
  const hours = (ensemble.end.getTime() - ensemble.modelRunAt.getTime()) / HOUR_MS;
  const longest = MAX_LEAD_HOURS[ensemble.kind];
  if (hours > longest) {
    const what = ensemble.kind === 'hourly' ? 'the hour' : "a day's end";
    return asItIs(ensemble, `nothing is learned of runs more than ${longest} hours before ${what}`);
  }
  const pooled = correctBy(fits, null, ensemble, at);
  const own = correctBy(fits, ensemble.stationId, ensemble, at);
  if (!isCorrected(own))
    return isCorrected(pooled)
      ? toCorrected('emos_pooled', pooled, own ?? null)
      : asItIs(ensemble, `${pooled}; not corrected`);
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

const toCorrected = (method: ForecastMethod, correction: Correction, fallback: string | null): Corrected => ({
  ...correction,
  method,
  fallback,
  isCalibrated: true,
  shape: 'logistic',
});

/** @returns a text: why there is none; undefined for a station's own where none is expected, since its archive is not long */
function correctBy(
  fits: FitBook,
  stationId: string | null,
  ensemble: Ensemble,
  at: Date,
): Correction | string | undefined {
  const { kind } = ensemble;
  const leadHours = fitLeadOf(kind, ensemble.modelRunAt, ensemble.end);
  const wanted = { kind, stationId, leadHours, model: fittedModel(ensemble) };
  const fit = findFit(fits, wanted, at);
  if (!fit) return whyMissing(fits, wanted, at);
  if (at.getTime() - fit.trainedAt.getTime() > LONGEST_AGE_DAYS * DAY_MS)
    return `${nameOf(stationId)} is of ${fit.trainedAt.toISOString().slice(0, 10)}, more than ${LONGEST_AGE_DAYS} days ago`;
  return applyFit(fit, ensemble);
}

/** An earlier run of the first model is corrected as its newest one is, at the lead that it has. */
const fittedModel = ({ model }: Pick<Ensemble, 'model'>): string | undefined =>
  model === EARLIER_RUN ? undefined : model;

const nameOf = (stationId: string | null): string =>
  stationId === null ? 'the fit of all stations' : "the station's own fit";

function whyMissing(
  { madeAt, missing = [] }: FitBook,
  { kind, stationId, leadHours, model }: FitOf,
  at: Date,
): string | undefined {
  if (madeAt === null || madeAt > at) return stationId === null ? 'nothing has been learned yet' : undefined;
  const found = missing.find(
    (each) =>
      each.kind === kind &&
      each.stationId === stationId &&
      each.leadHours === leadHours &&
      each.model === model,
  );
  return (
    found?.reason ?? (stationId === null ? `${nameOf(stationId)} does not exist for this lead` : undefined)
  );
}

function applyFit(fit: Fit, ensemble: Ensemble): Correction | string {
  const within = clamp(ensemble.meanF, { lowest: fit.lowestMeanF, highest: fit.highestMeanF });
  const beyond = ensemble.meanF - within;
  if (Math.abs(beyond) > FAR_F)
    return `the members' mean of ${ensemble.meanF.toFixed(1)} °F is far from what ${nameOf(fit.stationId)} has seen, ${fit.lowestMeanF.toFixed(1)} to ${fit.highestMeanF.toFixed(1)} °F`;
  const { mean, deviation } = predictAhead(fit.coefficients, { ...aheadRow(ensemble), mean: within });
  if (!Number.isFinite(mean + deviation)) return `${nameOf(fit.stationId)} is of an earlier version`;
  if (Math.abs(mean - within) > LARGEST_CORRECTION_F)
    return `${nameOf(fit.stationId)} corrects by ${(mean - within).toFixed(1)} °F here, more than ${LARGEST_CORRECTION_F}`;
  return { fit, meanF: mean + beyond, deviationF: clamp(deviation, POSSIBLE_DEVIATION_F) };
}

/** What is said of a day or an hour, as fits see it: places differ. */
export const aheadRow = ({
  stationId,
  date,
  hour,
  meanF,
  varianceF,
}: Pick<Ensemble, 'stationId' | 'date' | 'hour' | 'meanF' | 'varianceF'>): AheadRow => ({
  day: Date.parse(date) / DAY_MS,
  hour,
  group: stationId,
  mean: meanF,
  variance: varianceF,
});

const clamp = (value: number, { lowest, highest }: { lowest: number; highest: number }): number =>
  Math.max(lowest, Math.min(highest, value));

/** Leads are taken together in steps of this many hours: runs of the same half day are about as good. */
export const LEAD_STEP_HOURS = 12;
/** Markets of an hour open a day before it, and a run is hours old when it is there. */
export const MAX_LEAD_HOURS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 72,
  daily_minimum: 72,
  hourly: 48,
};

/**
 * The lead that a run is fitted under: hours from its start to the end of the climate day, or to the hour's instant, up to the
 * next half day, at least 12 and at most what is fitted.
 */
export function fitLeadOf(kind: TemperatureKind, modelRunAt: Date, end: Date): number {
  const hours = (end.getTime() - modelRunAt.getTime()) / HOUR_MS;
  const steps = Math.ceil(hours / LEAD_STEP_HOURS);
  return Math.max(LEAD_STEP_HOURS, Math.min(MAX_LEAD_HOURS[kind], steps * LEAD_STEP_HOURS));
}

/** How ensembles are corrected, and what that was learned from. */
export interface Fit {
  /** UUIDv7 under which it is stored. */
  id: string;
  /** Left out: the source's first one. */
  model?: string | undefined;
  kind: TemperatureKind;
  /** Id of a station or an area, of a fit with the seasons; null: all of them together. */
  stationId: string | null;
  /** See `fitLeadOf`. */
  leadHours: number;
  coefficients: AheadFit['coefficients'];
  /** Days (of hours: hours) that it was learned from, over all stations, and the first and the last day of them. */
  n: number;
  firstDate: string;
  lastDate: string;
  /** °F: the lowest and highest mean of members among them. Beyond it nothing was learned. */
  lowestMeanF: number;
  highestMeanF: number;
  /** °F, over what it was learned from: of the fit, and of the members' own mean and spread as they are used without one. */
  trainingCrps: number;
  rawCrps: number;
  /** The latest time at which something it was learned from became known. */
  knownThrough: Date;
  trainedAt: Date;
}

/** The fits in use: one for each kind and lead over all stations, and one for each station whose archive is long. */
export interface FitBook {
  /** Null while none have been made. */
  madeAt: Date | null;
  fits: readonly Fit[];
  /** Why there is none where there is none. */
  missing?: readonly MissingFit[];
  /** By which several models are mixed, one for each kind and lead. */
  mixes?: readonly Mix[];
  /** By which days are gone on from while they run. */
  hours?: HourFits;
}

/** What a fit is for. */
export type FitOf = Pick<Fit, 'kind' | 'stationId' | 'leadHours' | 'model'>;

export interface MissingFit extends FitOf {
  /** In words. */
  reason: string;
}

export const noFits: FitBook = Object.freeze({ madeAt: null, fits: [] });

/** The newest fit that was there at a time; null stands for all stations. */
export const findFit = (
  { fits }: FitBook,
  { kind, stationId, leadHours, model }: FitOf,
  at: Date,
): Fit | undefined =>
  newestAt(
    fits,
    at,
    (fit) =>
      fit.leadHours === leadHours && fit.kind === kind && fit.stationId === stationId && fit.model === model,
  );

export const findMix = (
  { mixes = [] }: FitBook,
  { kind, leadHours }: Pick<Mix, 'kind' | 'leadHours'>,
  at: Date,
): Mix | undefined => newestAt(mixes, at, (mix) => mix.leadHours === leadHours && mix.kind === kind);
