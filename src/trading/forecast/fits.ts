import type { EmosCoefficients } from './emos.js';

/** Leads are taken together in steps of this many hours: runs of the same half day are about as good. */
export const LEAD_STEP_HOURS = 12;
export const MAX_LEAD_HOURS = 72;

/**
 * The lead that a run is fitted under: hours from its start to the end of the climate day, up to the next half day, at
 * least 12 and at most 72.
 */
export function fitLeadOf(modelRunAt: Date, dayEnd: Date): number {
  const hours = (dayEnd.getTime() - modelRunAt.getTime()) / 3_600_000;
  const steps = Math.ceil(hours / LEAD_STEP_HOURS);
  return Math.max(LEAD_STEP_HOURS, Math.min(MAX_LEAD_HOURS, steps * LEAD_STEP_HOURS));
}

/** How ensembles are corrected, and what that was learned from. */
export interface Fit {
  /** UUIDv7 under which it is stored. */
  id: string;
  /** ICAO id; null: all stations together. */
  stationId: string | null;
  /** See `fitLeadOf`. */
  leadHours: number;
  coefficients: EmosCoefficients;
  /** Only of a pooled fit: what each station's members are taken to be too warm by, °F. It is taken off before the fit. */
  stationBiasF: Readonly<Record<string, number>> | null;
  /** Days that it was learned from (over all stations), and the first and the last of them. */
  n: number;
  firstDate: string;
  lastDate: string;
  /** °F: the lowest and highest mean of members among them, less the station's bias. Beyond it nothing was learned. */
  lowestMeanF: number;
  highestMeanF: number;
  /** °F, over what it was learned from: of the fit, and of the members' own mean and spread as they are used without one. */
  trainingCrps: number;
  rawCrps: number;
  /** The latest time at which something it was learned from became known. */
  knownThrough: Date;
  trainedAt: Date;
}

/** The fits in use: one for each station and lead that could be fitted, and one for each lead over all stations. */
export interface FitBook {
  /** Null while none have been made. */
  madeAt: Date | null;
  fits: readonly Fit[];
  /** Why there is none where there is none. */
  missing?: readonly MissingFit[];
}

export interface MissingFit {
  stationId: string | null;
  leadHours: number;
  /** In words. */
  reason: string;
}

export const noFits: FitBook = Object.freeze({ madeAt: null, fits: [] });

/** The newest fit that was there at a time; null stands for all stations. */
export function findFit(
  { fits }: FitBook,
  stationId: string | null,
  leadHours: number,
  at: Date,
): Fit | undefined {
  let newest: Fit | undefined;
  for (const fit of fits) {
    if (fit.stationId !== stationId || fit.leadHours !== leadHours || fit.trainedAt > at) continue;
    if (!newest || fit.trainedAt > newest.trainedAt) newest = fit;
  }
  return newest;
}
