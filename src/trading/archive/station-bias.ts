import { placesOf } from '../market/stations.js';
import { daysIn, type TrainingCase } from './cases.js';

/**
 * How many days weigh as much as what all stations have in common. Errors of a day deviate by about 3 °F, biases of
 * stations by 1.5 to 2 °F from each other: about 3 independent days, and neighbouring days are not independent.
 */
const PRIOR_DAYS = 10;

/**
 * What each station's members are too warm by, °F: between its own mean error and that of all stations, the nearer to its
 * own the more days are known, n/(n + 10). A station without days gets what is common.
 * B. Efron, C. Morris, Stein's Estimation Rule and its Competitors, J. Amer. Statist. Assoc. 68 (1973).
 * @param cases of one kind
 */
export const stationBiases = (cases: readonly TrainingCase[]): Record<string, number> =>
  shrunken(
    cases.map(({ stationId, date, meanF, temperatureF }) => ({
      stationId,
      date,
      key: stationId,
      error: meanF - temperatureF,
    })),
    placesOf(cases[0]?.kind ?? 'daily_maximum').map(({ id }) => id),
  );

/** The same of each hour by the clock, of what the stations' biases leave. */
export const hourBiases = (
  cases: readonly TrainingCase[],
  stationBiasF: Readonly<Record<string, number>> | null,
): Record<string, number> =>
  shrunken(
    cases.map(({ stationId, date, hour, meanF, temperatureF }) => ({
      stationId,
      date,
      key: String(hour),
      error: meanF - temperatureF - (stationBiasF?.[stationId] ?? 0),
    })),
    Array.from({ length: 24 }, (_, hour) => String(hour)),
  );

type KeyedError = Pick<TrainingCase, 'stationId' | 'date'> & { key: string; error: number };

function shrunken(errors: readonly KeyedError[], keys: readonly string[]): Record<string, number> {
  const common = meanOf(errors);
  const byKey = new Map<string, KeyedError[]>(keys.map((key) => [key, []]));
  for (const each of errors) byKey.get(each.key)?.push(each);
  return Object.fromEntries(
    [...byKey].map(([key, own]) => {
      const days = daysIn(own);
      return [key, common + (days / (days + PRIOR_DAYS)) * (meanOf(own) - common)];
    }),
  );
}

const meanOf = (errors: readonly KeyedError[]): number =>
  errors.length === 0 ? 0 : errors.reduce((sum, { error }) => sum + error, 0) / errors.length;
