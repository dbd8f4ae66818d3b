import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { asItIs, modelWith, type Corrected, type Ensemble } from './day-forecast.js';
import { predictEmos } from './emos.js';
import { biasOf, findFit, fitLeadOf, MAX_LEAD_HOURS, type Fit, type FitBook } from './fits.js';

/** The weather changes with the season, and weather models are changed: older fits are not used. */
export const LONGEST_AGE_DAYS = 7;
/**
 * °F. Beyond what it has seen a fit corrects by as much as at the end of that; this far beyond it is not used: a
 * correction learned in a cool month says nothing of a hot spell.
 */
const FAR_F = 10;
/** °F. Whatever a fit says, nobody is surer than half a degree of what is to come, and less sure than 15 says nothing. */
export const POSSIBLE_DEVIATION_F = { lowest: 0.5, highest: 15 };

/**
 * Corrected by how earlier forecasts came out: by the station's own fit, else by that of all stations together, else as
 * the members are.
 */
export const calibratedModel = modelWith((ensemble, fits, at) => {
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
});

type Correction = Omit<Corrected, 'method' | 'fallback'>;

/** @returns a text: why there is none */
function correctBy(
  fits: FitBook,
  stationId: string | null,
  ensemble: Ensemble,
  at: Date,
): Correction | string {
  const { kind } = ensemble;
  const wanted = { kind, stationId, leadHours: fitLeadOf(kind, ensemble.modelRunAt, ensemble.end) };
  const fit = findFit(fits, wanted, at);
  if (!fit) return whyMissing(fits, wanted, at);
  if (at.getTime() - fit.trainedAt.getTime() > LONGEST_AGE_DAYS * DAY_MS)
    return `${nameOf(stationId)} is of ${fit.trainedAt.toISOString().slice(0, 10)}, more than ${LONGEST_AGE_DAYS} days ago`;
  return applyFit(fit, ensemble);
}

const nameOf = (stationId: string | null): string =>
  stationId === null ? 'the fit of all stations' : "the station's fit";

function whyMissing(
  { madeAt, missing = [] }: FitBook,
  { kind, stationId, leadHours }: Pick<Fit, 'kind' | 'stationId' | 'leadHours'>,
  at: Date,
): string {
  if (madeAt === null || madeAt > at) return 'nothing has been learned yet';
  const found = missing.find(
    (each) => each.kind === kind && each.stationId === stationId && each.leadHours === leadHours,
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
