import { uncorrectedForecast, modelWith } from '../../../src/markets/learning/day-forecast.js';

/** The uncorrected ensemble: a normal distribution with the members' mean and spread. */
export const rawEnsemble = modelWith((ensemble) => uncorrectedForecast(ensemble, null));
