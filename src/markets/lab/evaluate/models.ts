import { fitAhead, predictAhead, type AheadDesign, type AheadFit } from '../../learning/day-ahead.js';
import { fitEmos, predictEmos, type EmosCoefficients } from './emos.js';
import type { ModelRow } from './case-table.js';
import { distributions } from './training.js';

interface Fitted {
  predict(row: ModelRow): { mean: number; deviation: number };
  coefficients: Readonly<Record<string, number>>;
}

export interface Model {
  title: string;
  /** Whether rows of all values of the `--by` column are fitted together. */
  isPooled: boolean;
  distribution: (typeof distributions)[keyof typeof distributions];
  /** @param near coefficients for almost the same rows, as a starting point @returns undefined if rows cannot be fitted */
  fit(rows: readonly ModelRow[], near: Fitted['coefficients'] | undefined): Fitted | undefined;
}

export const modelNames = ['emos', 'shrunk', 'seasonal'] as const;
export type ModelName = (typeof modelNames)[number];

export const models: Readonly<Record<ModelName, Model>> = {
  emos: {
    title: 'EMOS, each value of --by for itself, normal',
    isPooled: false,
    distribution: distributions.normal,
    fit(rows, near) {
      const found = fitEmos(rows, { near: near as EmosCoefficients | undefined });
      if ('reason' in found) return undefined;
      const { coefficients } = found;
      return {
        predict: ({ mean, variance }) => predictEmos(coefficients, mean, variance),
        coefficients: { ...coefficients },
      };
    },
  },
  shrunk: {
    title: 'all values of --by together, bias and spread of each shrunk, slope shrunk to 1, logistic',
    isPooled: true,
    distribution: distributions.logistic,
    fit: (rows, near) => fitLogistic(rows, 'shrunk', near),
  },
  seasonal: {
    title: 'bias, slope and spread with the seasons, each value of --by for itself, logistic',
    isPooled: false,
    distribution: distributions.logistic,
    fit: (rows, near) => fitLogistic(rows, 'seasonal', near),
  },
};

function fitLogistic(
  rows: readonly ModelRow[],
  design: AheadDesign,
  near: AheadFit['coefficients'] | undefined,
): Fitted | undefined {
  const found = fitAhead(rows, design, near);
  return (
    found && {
      predict: (row) => predictAhead(found.coefficients, row),
      coefficients: found.coefficients,
    }
  );
}
