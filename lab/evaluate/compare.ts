import { groupBy } from '../../src/core/collections.js';
import { blockBootstrap, type Interval } from '../../src/markets/scores/bootstrap.js';
import { CommandError } from '../../src/commands/kit/command.js';
import { nameOf } from '../../src/commands/kit/input.js';
import type { CaseTable } from './case-table.js';
import { decompose, weightedCrps, type Tail } from './decomposition.js';
import type { EvaluateOptions } from './evaluation.js';
import { forecastRows, type RowForecasts } from './forecast-rows.js';
import { models, type ModelName } from './models.js';
import type { FileCases } from './read-cases.js';
import { meanScores, scoreForecast, scoreRaw } from './scores.js';

export type ComparedModels = ReturnType<typeof compareModels>;

/** @throws CommandError if no rows have forecasts from every model */
export function compareModels(
  options: EvaluateOptions,
  file: FileCases,
  {
    names,
    tail,
    onProgress,
  }: { names: readonly ModelName[]; tail: Tail | null; onProgress: (share: number) => void },
) {
  const { table } = file;
  const forecasts = names.map((name, i) =>
    forecastRows(models[name], options, file, (share) => onProgress((i + share) / names.length)),
  );
  const rows = table.byDate(table.rows().filter((row) => forecasts.every(({ fits }) => fits[row])));
  if (rows.length === 0)
    throw new CommandError(
      `${nameOf(options.file)}: No row can be tested: none has enough earlier rows to fit every model.`,
    );
  const scored = names.map((name, i) => scoreModel(name, forecasts[i]!, { rows, table, tail }));
  return {
    n: rows.length,
    raw: meanScores(rows, (row) => scoreRaw(table, row)),
    ...(Object.fromEntries(scored.map(({ name, scores }) => [name, scores])) as Record<
      ModelName,
      Scored['scores']
    >),
    coefficients: Object.fromEntries(names.map((name, i) => [name, forecasts[i]!.coefficients])),
    ...(names.length > 1 && { comparison: compare(scored, rows, table) }),
  };
}

type Scored = ReturnType<typeof scoreModel>;

function scoreModel(
  name: ModelName,
  { fits }: RowForecasts<unknown>,
  { rows, table, tail }: { rows: readonly number[]; table: CaseTable; tail: Tail | null },
) {
  const { distribution } = models[name];
  const cases = rows.map((row) => ({
    observed: table.get('observed', row),
    ...fits[row]!.predict(table.case(row)),
  }));
  const byRow = cases.map((each) => scoreForecast(distribution, each, each.observed));
  const means = meanScores(byRow, (scores) => scores);
  return {
    name,
    scores: {
      ...means,
      ...(tail && { twCrps: weightedCrps(cases, distribution.cdf, tail) }),
      ...decompose(cases, distribution.cdf, means.crps),
    },
    /** In date order. */
    byRow,
  };
}

const interval = { blockLength: 7, resamples: 2_000, confidence: 0.95, seed: 1 };

/** Less the first model's scores over the same rows; negative if better. */
function compare([first, ...others]: readonly Scored[], rows: readonly number[], table: CaseTable) {
  const difference = (byRow: Scored['byRow'], score: 'crps' | 'logScore'): Interval =>
    differenceByDate(
      rows.map((row, i) => [table.get('day', row), byRow[i]![score] - first!.byRow[i]![score]]),
    );
  return others.map(({ name, byRow }) => ({
    model: name,
    against: first!.name,
    crps: difference(byRow, 'crps'),
    logScore: difference(byRow, 'logScore'),
  }));
}

/**
 * Errors on the same date are correlated and persist for several days, so blocks of seven dates are resampled.
 * @param differences in date order, each with its day
 */
export function differenceByDate(
  differences: readonly (readonly [day: number, difference: number])[],
): Interval {
  const values = [...groupBy(differences, ([day]) => day).values()].map(
    (ofDay) => ofDay.reduce((sum, [, difference]) => sum + difference, 0) / ofDay.length,
  );
  const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
  if (values.length < 2 * interval.blockLength) return { mean, low: -Infinity, high: Infinity };
  return blockBootstrap(values, interval);
}

export function comparisonTable(summary: ComparedModels, names: readonly ModelName[]): string[] {
  const number = (x: number) => x.toFixed(4).padStart(9);
  const range = ({ mean, low, high }: Interval) =>
    `${mean.toFixed(4)} (${low.toFixed(4)} to ${high.toFixed(4)})`;
  const head = ['model'.padEnd(9), ...['CRPS', 'log score', 'covers'].map((text) => text.padStart(9))].join(
    ' ',
  );
  return [
    `${head}  CRPS less the first's, 95% interval`,
    ...names.map((name) => {
      const scores = summary[name];
      const compared = summary.comparison?.find(({ model }) => model === name);
      return `${name.padEnd(9)} ${number(scores.crps)} ${number(scores.logScore)} ${number(scores.coverage)}  ${compared ? range(compared.crps) : ''}`.trimEnd();
    }),
  ];
}
