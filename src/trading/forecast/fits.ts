import { DAY_MS, HOUR_MS } from '../../core/time.js';
import type { Target, TemperatureKind } from '../market/market.js';
import { asItIs, modelWith, type Corrected, type Ensemble } from './day-forecast.js';
import { EARLIER_RUN } from './forecast.js';
import { mixCandidates, type Mix } from './mix.js';
import type { HourFits } from './running-day.js';
import { predictEmos, type EmosCoefficients } from './emos.js';

/** The weather changes with the season, and weather models are changed: older fits are not used. */
export const LONGEST_AGE_DAYS = 7;
/**
 * °F. Beyond what it has seen a fit corrects by as much as at the end of that; this far beyond it is not used: a
 * correction learned in a cool month says nothing of a hot spell.
 */
const FAR_F = 10;
/** °F. Whatever a fit says, what is to come is not known better than to half a degree, and less sure than 15 says nothing. */
export const POSSIBLE_DEVIATION_F = { lowest: 0.5, highest: 15 };

/**
 * Corrected by how earlier forecasts came out, each model by itself: by the station's own fit, else by that of all stations
 * together, else as the members are. Several are mixed by how they have done lately.
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
  const own = correctBy(fits, ensemble.stationId, ensemble, at);
  if (typeof own !== 'string') return { ...own, method: 'emos', fallback: null };
  const pooled = correctBy(fits, null, ensemble, at);
  if (typeof pooled !== 'string')
    return { ...pooled, method: 'emos_pooled', fallback: `${own}; all stations together` };
  const why = own === pooled ? own : `${own}; ${pooled}`;
  return asItIs(ensemble, `${why}; not corrected`);
}

type Correction = Omit<Corrected, 'method' | 'fallback'>;

/** @returns a text: why there is none */
function correctBy(
  fits: FitBook,
  stationId: string | null,
  ensemble: Ensemble,
  at: Date,
): Correction | string {
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
  stationId === null ? 'the fit of all stations' : "the station's fit";

function whyMissing(
  { madeAt, missing = [] }: FitBook,
  { kind, stationId, leadHours, model }: FitOf,
  at: Date,
): string {
  if (madeAt === null || madeAt > at) return 'nothing has been learned yet';
  const found = missing.find(
    (each) =>
      each.kind === kind &&
      each.stationId === stationId &&
      each.leadHours === leadHours &&
      each.model === model,
  );
  return found?.reason ?? `${nameOf(stationId)} does not exist for this lead`;
}

function applyFit(fit: Fit, ensemble: Ensemble): Correction | string {
  const { meanF, varianceF } = ensemble;
  const unbiased = meanF - biasOf(fit, ensemble);
  const within = clamp(unbiased, { lowest: fit.lowestMeanF, highest: fit.highestMeanF });
  const beyond = unbiased - within;
  if (Math.abs(beyond) > FAR_F)
    return `the members' mean of ${unbiased.toFixed(1)} °F is far from what ${nameOf(fit.stationId)} has seen, ${fit.lowestMeanF.toFixed(1)} to ${fit.highestMeanF.toFixed(1)} °F`;
  const { mean, deviation } = predictEmos(fit.coefficients, within, varianceF);
  return {
    isCalibrated: true,
    fit,
    meanF: mean + beyond,
    deviationF: clamp(deviation, POSSIBLE_DEVIATION_F),
  };
}

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
  /** Id of a station or an area; null: all of them together. */
  stationId: string | null;
  /** See `fitLeadOf`. */
  leadHours: number;
  coefficients: EmosCoefficients;
  /** Only of a pooled fit: what each station's members are taken to be too warm by, °F. It is taken off before the fit. */
  stationBiasF: Readonly<Record<string, number>> | null;
  /** Only of hours: what the members of each hour by the clock are too warm by besides, °F. */
  hourBiasF: Readonly<Record<string, number>> | null;
  /** Days (of hours: hours) that it was learned from, over all stations, and the first and the last day of them. */
  n: number;
  firstDate: string;
  lastDate: string;
  /** °F: the lowest and highest mean of members among them, less their bias. Beyond it nothing was learned. */
  lowestMeanF: number;
  highestMeanF: number;
  /** °F, over what it was learned from: of the fit, and of the members' own mean and spread as they are used without one. */
  trainingCrps: number;
  rawCrps: number;
  /** The latest time at which something it was learned from became known. */
  knownThrough: Date;
  trainedAt: Date;
}

/** °F: what members are taken to be too warm by before a fit is used. */
export const biasOf = (
  { stationBiasF, hourBiasF }: Pick<Fit, 'stationBiasF' | 'hourBiasF'>,
  { stationId, hour }: Pick<Target, 'stationId' | 'hour'>,
): number => (stationBiasF?.[stationId] ?? 0) + (hour === undefined ? 0 : (hourBiasF?.[hour] ?? 0));

/** The fits in use: one for each kind, station and lead that could be fitted, and one for each kind and lead over all stations. */
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
  { stationId, model, ...wanted }: FitOf,
  at: Date,
): Fit | undefined =>
  findNewest(fits, { ...wanted, at }, (fit) => fit.stationId === stationId && fit.model === model);

export const findMix = (
  { mixes = [] }: FitBook,
  wanted: Pick<Mix, 'kind' | 'leadHours'>,
  at: Date,
): Mix | undefined => findNewest(mixes, { ...wanted, at }, () => true);

function findNewest<T extends Pick<Fit, 'kind' | 'leadHours' | 'trainedAt'>>(
  all: readonly T[],
  { kind, leadHours, at }: Pick<Fit, 'kind' | 'leadHours'> & { at: Date },
  isWanted: (each: T) => boolean,
): T | undefined {
  let newest: T | undefined;
  for (const each of all) {
    if (each.leadHours !== leadHours || each.kind !== kind || !isWanted(each) || each.trainedAt > at)
      continue;
    if (!newest || each.trainedAt > newest.trainedAt) newest = each;
  }
  return newest;
}
