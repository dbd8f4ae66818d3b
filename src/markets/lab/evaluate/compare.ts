import { blockBootstrap, type Interval } from '../../scores/bootstrap.js';
import { CommandError } from '../../../commands/kit/command.js';
import { nameOf } from '../../../commands/kit/input.js';
import type { CaseTable } from './case-table.js';
import { decompose, weightedCrps, type Decomposition, type Tail } from './decomposition.js';
import { meansOf, rawScores, type EvaluateOptions, type RawScores } from './evaluation.js';
import { models, type ModelName } from './models.js';
import type { FileCases } from './read-cases.js';
import { INTERVAL, planWindows } from './training.js';

interface ModelScores extends RawScores, Decomposition {
  logScore: number;
  /** Threshold-weighted CRPS, if a threshold was given. */
  twCrps?: number;
}

/** Mean score of `model` − `against` over the same rows, with the 95% interval; negative if `model` is better. */
interface Comparison {
  model: ModelName;
  against: ModelName;
  crps: Interval;
  logScore: Interval;
}

export type ComparedModels = { n: number; raw: RawScores } & Partial<Record<ModelName, ModelScores>> & {
    coefficients: Record<string, unknown>;
    comparison?: Comparison[];
  };

/** A model's forecast for each row; NaN without one. */
interface ModelForecasts {
  name: ModelName;
  mean: Float64Array;
  deviation: Float64Array;
  coefficients: Record<string, unknown>;
}

/** @throws CommandError if no rows have forecasts from every model */
export function compareModels(
  options: EvaluateOptions,
  file: FileCases,
  {
    names,
    tail,
    onProgress,
  }: { names: readonly ModelName[]; tail: Tail | null; onProgress: (share: number) => void },
): ComparedModels {
  const { table } = file;
  const said = names.map((name, i) =>
    forecastBy(name, options, file, (share) => onProgress((i + share) / names.length)),
  );
  const rows = Array.from({ length: table.length }, (_, row) => row).filter((row) =>
    said.every(({ mean }) => !Number.isNaN(mean[row]!)),
  );
  if (rows.length === 0)
    throw new CommandError(
      `${nameOf(options.file)}: No row can be tested: none has enough rows before it to fit every model.`,
    );
  rows.sort((a, b) => table.get('day', a) - table.get('day', b) || a - b);
  const scored = said.map((each) => scoreModel(each, rows, table, tail));
  return {
    n: rows.length,
    raw: rawScores(rows, table),
    ...Object.fromEntries(scored.map(({ name, scores }) => [name, scores])),
    coefficients: Object.fromEntries(said.map(({ name, coefficients }) => [name, coefficients])),
    ...(names.length > 1 && { comparison: compare(scored, rows, table) }),
  };
}

function forecastBy(
  name: ModelName,
  { training, by }: EvaluateOptions,
  { table, groups }: FileCases,
  onProgress: (share: number) => void,
): ModelForecasts {
  const model = models[name];
  const mean = new Float64Array(table.length).fill(Number.NaN);
  const deviation = new Float64Array(table.length).fill(Number.NaN);
  const coefficients: Record<string, unknown> = {};
  const all = Array.from({ length: table.length }, (_, row) => row);
  const parts = model.isPooled
    ? [all]
    : groups.map((_, group) => all.filter((row) => table.get('group', row) === group));
  let done = 0;
  for (const [part, rows] of parts.entries()) {
    rows.sort((a, b) => table.get('day', a) - table.get('day', b) || a - b);
    const days = rows.map((row) => table.get('day', row));
    const cases = rows.map((row) => table.row(row));
    let near: Readonly<Record<string, number>> | undefined;
    for (const { training: window, test } of planWindows(days, training)) {
      const fitted = window && model.fit(cases.slice(window.from, window.to), near);
      if (fitted) {
        near = fitted.coefficients;
        coefficients[model.isPooled || by === null ? 'all' : groups[part]!] = fitted.coefficients;
        for (let i = test.from; i < test.to; i++) {
          const forecast = fitted.predict(cases[i]!);
          mean[rows[i]!] = forecast.mean;
          deviation[rows[i]!] = forecast.deviation;
        }
      }
      onProgress((done + test.to) / table.length);
    }
    done += rows.length;
  }
  const { all: only, ...rest } = coefficients;
  return { name, mean, deviation, coefficients: (only as Record<string, unknown> | undefined) ?? rest };
}

interface Scored {
  name: ModelName;
  scores: ModelScores;
  /** By row, in date order. */
  crps: number[];
  logScore: number[];
}

function scoreModel(
  said: ModelForecasts,
  rows: readonly number[],
  table: CaseTable,
  tail: Tail | null,
): Scored {
  const { distribution } = models[said.name];
  const half = distribution.quantile((1 + INTERVAL) / 2);
  const sums = { crps: 0, mae: 0, bias: 0, logScore: 0, coverage: 0 };
  const [crps, logScore]: [number[], number[]] = [[], []];
  const cases = rows.map((row) => ({
    observed: table.get('observed', row),
    mean: said.mean[row]!,
    deviation: said.deviation[row]!,
  }));
  for (const { observed, mean, deviation } of cases) {
    const error = observed - mean;
    crps.push(deviation === 0 ? Math.abs(error) : distribution.kernel(error, deviation).crps);
    logScore.push(distribution.logScore(mean, deviation, observed));
    sums.crps += crps.at(-1)!;
    sums.logScore += logScore.at(-1)!;
    sums.mae += Math.abs(error);
    sums.bias -= error;
    sums.coverage += Number(Math.abs(error) <= half * deviation);
  }
  const means = meansOf(sums, rows.length);
  return {
    name: said.name,
    scores: {
      ...means,
      ...(tail && { twCrps: weightedCrps(cases, distribution.cdf, tail) }),
      ...decompose(cases, distribution.cdf, means.crps),
    },
    crps,
    logScore,
  };
}

const interval = { blockLength: 7, resamples: 2_000, confidence: 0.95, seed: 1 };

/** Errors within a date are correlated and last some days, so blocks of seven dates are drawn. */
function compare(
  [first, ...others]: readonly Scored[],
  rows: readonly number[],
  table: CaseTable,
): Comparison[] {
  const difference = (a: readonly number[], b: readonly number[]): Interval => {
    const byDay = new Map<number, { sum: number; count: number }>();
    for (const [i, row] of rows.entries()) {
      const day = table.get('day', row);
      const found = byDay.get(day) ?? { sum: 0, count: 0 };
      byDay.set(day, { sum: found.sum + a[i]! - b[i]!, count: found.count + 1 });
    }
    const values = [...byDay.values()].map(({ sum, count }) => sum / count);
    const mean = values.reduce((sum, x) => sum + x, 0) / values.length;
    if (values.length < 2 * interval.blockLength) return { mean, low: -Infinity, high: Infinity };
    return blockBootstrap(values, interval);
  };
  return others.map(({ name, crps, logScore }) => ({
    model: name,
    against: first!.name,
    crps: difference(crps, first!.crps),
    logScore: difference(logScore, first!.logScore),
  }));
}

export function comparisonTable(summary: ComparedModels, names: readonly ModelName[]): string[] {
  const number = (x: number | undefined) => (x === undefined ? '' : x.toFixed(4)).padStart(9);
  const range = ({ mean, low, high }: Interval) =>
    `${mean.toFixed(4)} (${low.toFixed(4)} to ${high.toFixed(4)})`;
  const head = ['model'.padEnd(9), ...['CRPS', 'log score', 'covers'].map((text) => text.padStart(9))].join(
    ' ',
  );
  return [
    `${head}  CRPS less the first's, 95% interval`,
    ...names.map((name) => {
      const scores = summary[name]!;
      const compared = summary.comparison?.find(({ model }) => model === name);
      return `${name.padEnd(9)} ${number(scores.crps)} ${number(scores.logScore)} ${number(scores.coverage)}  ${compared ? range(compared.crps) : ''}`.trimEnd();
    }),
  ];
}
