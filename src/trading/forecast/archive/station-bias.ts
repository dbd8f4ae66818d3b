import { stations } from '../../settlement/stations.js';
import type { TrainingCase } from './cases.js';

/**
 * How many days weigh as much as what all stations have in common. Errors of a day deviate by about 3 °F, biases of
 * stations by 1.5 to 2 °F from each other: about 3 independent days, and neighbouring days are not independent.
 */
const PRIOR_DAYS = 10;

/**
 * What each station's members are too warm by, °F: between its own mean error and that of all stations, the nearer to its
 * own the more days are known, n/(n + 10). A station without days gets what is common.
 * B. Efron, C. Morris, Stein's Estimation Rule and its Competitors, J. Amer. Statist. Assoc. 68 (1973).
 */
export function stationBiases(cases: readonly TrainingCase[]): Record<string, number> {
  const errors = cases.map(({ stationId, meanF, temperatureF }) => ({
    stationId,
    error: meanF - temperatureF,
  }));
  const common = meanOf(errors.map(({ error }) => error));
  const biases = stations.map(({ id }): [string, number] => {
    const own = errors.filter(({ stationId }) => stationId === id).map(({ error }) => error);
    const weight = own.length / (own.length + PRIOR_DAYS);
    return [id, common + weight * (meanOf(own) - common)];
  });
  return Object.fromEntries(biases);
}

const meanOf = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, x) => sum + x, 0) / values.length;
