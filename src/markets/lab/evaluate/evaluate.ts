import { basename } from 'node:path';
import { predictEmos, type EmosCoefficients, MIN_FIT_CASES, type NoFitReason } from './emos.js';
import { CommandError } from '../../../commands/kit/command.js';
import { nameOf } from '../../../commands/kit/input.js';
import type { CaseTable } from './case-table.js';
import {
  meansOf,
  rawScores,
  type EvaluatedCase,
  type EvaluateOptions,
  type Evaluation,
  type EvaluationSummary,
} from './evaluation.js';
import type { FileCases } from './read-cases.js';
import {
  distributions,
  formatEpochDay,
  INTERVAL,
  planWindows,
  train,
  type RowRange,
  type Trained,
} from './training.js';
import { crpsOfNormal } from '../../learning/pit.js';

/** @throws CommandError if there is nothing to train on, to test or to fit */
export function evaluate(
  options: EvaluateOptions,
  file: FileCases,
  onProgress: (share: number) => void,
): Evaluation {
  const { table, groups, rows, leftOut } = file;
  const order = table.inOrder();
  const forecasts = createForecasts(table, groups, options);
  const run: Run = { options, file, order, forecasts, problems: new Map(), tooEarly: 0, notFitted: 0 };
  const coefficients = new Map<string, EmosCoefficients>();
  for (const { group, from, to } of groupRanges(file, order)) {
    const last = evaluateGroup(run, order.subarray(from, to), (done) =>
      onProgress((from + done) / order.length),
    );
    if (last) coefficients.set(groups[group]!, last);
  }
  if (forecasts.length === 0) throw new CommandError(`${nameOf(options.file)}: ${reasonForNoForecast(run)}`);
  return {
    options,
    fileName: basename(options.file),
    memberCount: file.columns.members.length,
    rows,
    usedRows: table.length,
    leftOut,
    untested: { tooEarly: run.tooEarly, notFitted: run.notFitted, whyNotFitted: whyNotFitted(run) },
    summary: summarize(
      forecasts,
      table,
      options.by === null ? coefficients.get('')! : Object.fromEntries(coefficients),
    ),
    cases: forecasts,
  };
}

interface Run {
  options: EvaluateOptions;
  file: FileCases;
  order: Uint32Array;
  forecasts: Forecasts;
  /** Rows that unfitted windows would have tested, by reason. */
  problems: Map<NoFitReason, number>;
  tooEarly: number;
  notFitted: number;
}

/** @returns the coefficients of the last fit, if there was one */
function evaluateGroup(
  run: Run,
  rows: Uint32Array,
  onDone: (rows: number) => void,
): EmosCoefficients | undefined {
  const { options, file, forecasts } = run;
  const { table } = file;
  const rule = { distribution: distributions[options.distribution], isWidened: options.isWidened };
  let last: Trained | undefined;
  let previous: { training: RowRange; result: Trained | NoFitReason } | undefined;
  const days = Array.from(rows, (row) => table.get('day', row));
  for (const { training, test } of planWindows(days, options.training)) {
    const count = test.to - test.from;
    onDone(test.to);
    if (!training) {
      run.tooEarly += count;
      continue;
    }
    if (previous?.training.from !== training.from || previous.training.to !== training.to) {
      const cases = Array.from(rows.subarray(training.from, training.to), (row) => table.row(row));
      previous = { training, result: train(cases, rule, last?.fitted) };
    }
    const { result } = previous;
    if (typeof result === 'string') {
      run.notFitted += count;
      run.problems.set(result, (run.problems.get(result) ?? 0) + count);
      continue;
    }
    last = result;
    for (const row of rows.subarray(test.from, test.to)) forecasts.add(row, result);
  }
  return last?.coefficients;
}

function groupRanges({ table }: FileCases, order: Uint32Array): (RowRange & { group: number })[] {
  const ranges: (RowRange & { group: number })[] = [];
  for (const [i, row] of order.entries()) {
    const group = table.get('group', row);
    const last = ranges.at(-1);
    if (last?.group === group) last.to = i + 1;
    else ranges.push({ group, from: i, to: i + 1 });
  }
  return ranges;
}

const reasons: Record<NoFitReason, string> = {
  too_few_cases: `fewer than ${MIN_FIT_CASES} cases to train on`,
  not_finite: 'a number too large to square',
  constant_mean: 'the mean of the members is always the same',
  no_errors: 'the observations lie on a line exactly, which leaves no error to learn from',
};

const whyNotFitted = ({ problems }: Run): string | null =>
  problems.size === 0 ? null : [...problems].map(([reason]) => reasons[reason]).join('; ');

function reasonForNoForecast(run: Run): string {
  const { options, file, tooEarly } = run;
  const { training } = options;
  const reason = whyNotFitted(run);
  if (file.table.length === 0) return 'No row can be used.';
  if (reason !== null)
    return `Nothing could be fitted${'until' in training ? ` on rows before ${training.until}` : ''}: ${reason}.`;
  if ('until' in training) return `No row can be tested: none is from ${training.until} or later.`;
  return `No row can be tested: none of ${tooEarly} has ${training.days} dates with data before it.`;
}

interface ScoredCase extends EvaluatedCase {
  logScore: number;
}

/** The forecasts in date order, computed lazily during iteration. */
interface Forecasts extends Iterable<ScoredCase> {
  readonly length: number;
  add(row: number, trained: Trained): void;
  /** Table rows with a forecast, in the same order. */
  rows(): number[];
}

function createForecasts(
  table: CaseTable,
  groups: readonly string[],
  options: Pick<EvaluateOptions, 'by' | 'distribution'>,
): Forecasts {
  const distribution = distributions[options.distribution];
  const rows: number[] = [];
  const fits: Trained[] = [];

  function scored(row: number, { coefficients, climate }: Trained): ScoredCase {
    const read = (name: Parameters<CaseTable['get']>[0]) => table.get(name, row);
    const observed = read('observed');
    const { mean, deviation } = predictEmos(coefficients, read('mean'), read('variance'));
    const half = deviation * distribution.quantile((1 + INTERVAL) / 2);
    return {
      date: formatEpochDay(read('day')),
      by: options.by === null ? null : groups[read('group')]!,
      observed,
      members: {
        mean: read('mean'),
        deviation: Math.sqrt(read('variance')),
        lowest: read('lowest'),
        highest: read('highest'),
      },
      mean,
      deviation,
      low: mean - half,
      high: mean + half,
      rawCrps: read('crps'),
      emosCrps:
        deviation === 0 ? Math.abs(observed - mean) : distribution.kernel(observed - mean, deviation).crps,
      climateCrps: crpsOfNormal(climate.mean, climate.deviation, observed),
      pit: deviation === 0 ? Number(observed >= mean) : distribution.cdf((observed - mean) / deviation),
      rawRank: read('rank'),
      logScore: distribution.logScore(mean, deviation, observed),
    };
  }

  const inOrder = () =>
    Uint32Array.from(rows.keys()).sort(
      (i, j) => table.get('day', rows[i]!) - table.get('day', rows[j]!) || i - j,
    );

  return {
    get length() {
      return rows.length;
    },
    add(row, trained) {
      rows.push(row);
      fits.push(trained);
    },
    rows: () => Array.from(inOrder(), (i) => rows[i]!),
    *[Symbol.iterator]() {
      for (const i of inOrder()) yield scored(rows[i]!, fits[i]!);
    },
  };
}

/** @param coefficients one set, or one for each value of the `by` column */
function summarize(
  forecasts: Forecasts,
  table: CaseTable,
  coefficients: EvaluationSummary['coefficients'],
): EvaluationSummary {
  const emos = { crps: 0, mae: 0, bias: 0, logScore: 0, coverage: 0 };
  for (const forecast of forecasts) addEmos(emos, forecast);
  const n = forecasts.length;
  return { n, raw: rawScores(forecasts.rows(), table), emos: meansOf(emos, n), coefficients };
}

function addEmos(sum: EvaluationSummary['emos'], forecast: ScoredCase): void {
  const { mean, low, high, observed, emosCrps, logScore } = forecast;
  sum.crps += emosCrps;
  sum.mae += Math.abs(mean - observed);
  sum.bias += mean - observed;
  sum.logScore += logScore;
  sum.coverage += Number(observed >= low && observed <= high);
}
