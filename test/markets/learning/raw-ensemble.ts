import { uncorrectedForecast, modelWith } from '../../../src/markets/learning/day-forecast.js';

/** The uncorrected ensemble: the members' own mean and spread, normally distributed. */
export const rawEnsemble = modelWith((ensemble) => uncorrectedForecast(ensemble, null));
