import { HOUR_MS } from '../../core/time.js';
import type { TemperatureKind } from '../market/market.js';
import type { AheadFit } from './day-ahead.js';
import { newestAt, type HourFits } from './running-day.js';

export interface Mix {
  id: string;
  kind: TemperatureKind;
  /** See `fitLeadOf`. */
  leadHours: number;
  /** Mean squared error relative to the first model's on the same dates. */
  skill: Readonly<Record<string, Known>>;
  correlation: Readonly<Record<string, Known>>;
  firstDate: string;
  lastDate: string;
  knownThrough: Date;
  trainedAt: Date;
}

export interface Known {
  value: number;
  /** Effective number of independent dates: one's weight halves every `HALF_LIFE_DAYS`; more stations raise it. */
  dates: number;
}

/** Runs of the same half day perform about equally. */
export const LEAD_STEP_HOURS = 12;
/** Hourly markets open a day before their hour, and a run is already hours old when it arrives. */
export const MAX_LEAD_HOURS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 72,
  daily_minimum: 72,
  hourly: 48,
};

/** From a run's start to its target's end, rounded up to half days and limited to the fitted range. */
export function fitLeadOf(kind: TemperatureKind, modelRunAt: Date, end: Date): number {
  const hours = (end.getTime() - modelRunAt.getTime()) / HOUR_MS;
  const steps = Math.ceil(hours / LEAD_STEP_HOURS);
  return Math.max(LEAD_STEP_HOURS, Math.min(MAX_LEAD_HOURS[kind], steps * LEAD_STEP_HOURS));
}

export interface Fit {
  id: string;
  model?: string | undefined;
  kind: TemperatureKind;
  /** Null for a fit of all stations. */
  stationId: string | null;
  /** See `fitLeadOf`. */
  leadHours: number;
  coefficients: AheadFit['coefficients'];
  /** Days (hours for hourly fits) over all stations, from `firstDate` to `lastDate`. */
  n: number;
  firstDate: string;
  lastDate: string;
  /** °F: means in training, beyond which the fit is unreliable. */
  lowestMeanF: number;
  highestMeanF: number;
  /** °F: CRPS of the fit and of the uncorrected ensemble, in training. */
  trainingCrps: number;
  rawCrps: number;
  knownThrough: Date;
  trainedAt: Date;
}

/** One per kind and lead over all stations, and one for each station with a long archive. */
export interface FitBook {
  madeAt: Date | null;
  fits: readonly Fit[];
  missing?: readonly MissingFit[];
  mixes?: readonly Mix[];
  hours?: HourFits;
}

export type FitOf = Pick<Fit, 'kind' | 'stationId' | 'leadHours' | 'model'>;

export interface MissingFit extends FitOf {
  reason: string;
}

export const noFits: FitBook = Object.freeze({ madeAt: null, fits: [] });

export const isFor =
  ({ kind, stationId, leadHours, model }: FitOf) =>
  (fit: FitOf): boolean =>
    fit.leadHours === leadHours && fit.kind === kind && fit.stationId === stationId && fit.model === model;

/** Available at the given time; a null station means all stations. */
export const findFit = ({ fits }: FitBook, wanted: FitOf, at: Date) => newestAt(fits, at, isFor(wanted));

export const findMix = (
  { mixes = [] }: FitBook,
  { kind, leadHours }: Pick<Mix, 'kind' | 'leadHours'>,
  at: Date,
): Mix | undefined => newestAt(mixes, at, (mix) => mix.leadHours === leadHours && mix.kind === kind);
