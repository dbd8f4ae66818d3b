import type { Target, TemperatureKind } from '../market/market.js';
import type { EmosCoefficients } from './emos.js';

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
  const hours = (end.getTime() - modelRunAt.getTime()) / 3_600_000;
  const steps = Math.ceil(hours / LEAD_STEP_HOURS);
  return Math.max(LEAD_STEP_HOURS, Math.min(MAX_LEAD_HOURS[kind], steps * LEAD_STEP_HOURS));
}

/** How ensembles are corrected, and what that was learned from. */
export interface Fit {
  /** UUIDv7 under which it is stored. */
  id: string;
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
}

export interface MissingFit {
  kind: TemperatureKind;
  stationId: string | null;
  leadHours: number;
  /** In words. */
  reason: string;
}

export const noFits: FitBook = Object.freeze({ madeAt: null, fits: [] });

/** The newest fit that was there at a time; null stands for all stations. */
export function findFit(
  { fits }: FitBook,
  { kind, stationId, leadHours }: Pick<Fit, 'kind' | 'stationId' | 'leadHours'>,
  at: Date,
): Fit | undefined {
  let newest: Fit | undefined;
  for (const fit of fits) {
    if (fit.stationId !== stationId || fit.leadHours !== leadHours || fit.kind !== kind) continue;
    if (fit.trainedAt > at) continue;
    if (!newest || fit.trainedAt > newest.trainedAt) newest = fit;
  }
  return newest;
}
