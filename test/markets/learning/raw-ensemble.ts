import { asItIs, modelWith } from '../../../src/markets/learning/day-forecast.js';

/** The ensemble as it is: the members' own mean and spread, normally distributed, not corrected by anything. */
export const rawEnsemble = modelWith((ensemble) => asItIs(ensemble, null));
