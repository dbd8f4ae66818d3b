import { groupBy } from '../../src/core/collections.js';
import type { NoFitReason } from './emos.js';
import type { EvaluateOptions } from './evaluation.js';
import type { FittedModel, Model } from './models.js';
import type { FileCases } from './read-cases.js';
import { fitWindows } from './training.js';

type RowFit<Coefficients> = FittedModel<Coefficients> & {
  /** The window's observations: the climatological forecast. */
  climate: { mean: number; deviation: number };
  trainingRows: () => readonly number[];
};

export interface RowForecasts<Coefficients> {
  /** By table row; undefined for rows without a forecast. */
  fits: readonly (RowFit<Coefficients> | undefined)[];
  /** Group by group. */
  rows: readonly number[];
  /** The last fit; with several groups, by the value of the `--by` column. */
  coefficients: Coefficients | Record<string, Coefficients>;
  tooEarly: number;
  /** Rows left untested, by reason. */
  notFitted: ReadonlyMap<NoFitReason, number>;
}

/** To each window, for the rows that it tests. */
export function forecastRows<Coefficients>(
  model: Model<Coefficients>,
  { training, by }: Pick<EvaluateOptions, 'training' | 'by'>,
  { table, groups }: FileCases,
  onProgress: (share: number) => void,
): RowForecasts<Coefficients> {
  const fits = Array.from<RowFit<Coefficients> | undefined>({ length: table.length });
  const tested: number[] = [];
  const lastByGroup = new Map<string, Coefficients>();
  const notFitted = new Map<NoFitReason, number>();
  let [tooEarly, done] = [0, 0];
  const isWhole = model.isPooled || by === null;
  const parts = isWhole ? [table.rows()] : groupBy(table.rows(), (row) => table.get('group', row)).values();
  for (const part of parts) {
    const rows = table.byDate(part);
    const days = rows.map((row) => table.get('day', row));
    const steps = fitWindows<RowFit<Coefficients>>(days, training, ({ from, to }, last) => {
      const trainingRows = () => rows.slice(from, to);
      const cases = trainingRows().map((row) => table.case(row));
      const fitted = model.fit(cases, last);
      return typeof fitted === 'object' ? { ...fitted, climate: climateOf(cases), trainingRows } : fitted;
    });
    for (const { training: window, test, fit } of steps) {
      const count = test.to - test.from;
      if (!window) tooEarly += count;
      else if (typeof fit === 'string') notFitted.set(fit, (notFitted.get(fit) ?? 0) + count);
      else if (fit) {
        lastByGroup.set(isWhole ? '' : groups[table.get('group', rows[0]!)]!, fit.coefficients);
        for (const row of rows.slice(test.from, test.to)) {
          fits[row] = fit;
          tested.push(row);
        }
      }
      onProgress((done + test.to) / table.length);
    }
    done += rows.length;
  }
  const coefficients = isWhole ? lastByGroup.get('')! : Object.fromEntries(lastByGroup);
  return { fits, rows: tested, coefficients, tooEarly, notFitted };
}

function climateOf(cases: readonly { observed: number }[]): RowFit<unknown>['climate'] {
  const n = cases.length;
  const mean = cases.reduce((sum, { observed }) => sum + observed, 0) / n;
  const squares = cases.reduce((sum, { observed }) => sum + (observed - mean) ** 2, 0);
  return { mean, deviation: Math.sqrt(squares / (n - 1)) };
}
