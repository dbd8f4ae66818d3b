import { basename } from 'node:path';
import {
  MIN_FIT_CASES,
  type EmosCase,
  type EmosCoefficients,
  type NoFitReason,
} from '../trading/forecast/emos.js';
import { distributions } from './distributions.js';
import { EvaluateError, nameOf } from './evaluate-error.js';
import type { EvaluateOptions, Evaluation } from './evaluation.js';
import type { FileCases } from './read-cases.js';
import { createForecasts, type Forecasts } from './forecasts.js';
import { summarize } from './summary.js';
import { train, type Trained } from './train.js';
import { planWindows, type Range } from './windows.js';

/** Called with the share of the work that is done, 0 to 1. */
export type OnProgress = (share: number) => void;

/**
 * Trains and tests what was read from a file.
 * @throws EvaluateError where there is nothing to train on, nothing to test, or nothing that can be fitted
 */
export function evaluate(
  options: EvaluateOptions,
  file: FileCases,
  onProgress: OnProgress = () => undefined,
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
  if (forecasts.length === 0) throw new EvaluateError(`${nameOf(options.file)}: ${whyNothing(run)}`);
  return {
    options,
    fileName: basename(options.file),
    memberCount: file.columns.members.length,
    rows,
    usedRows: table.length,
    leftOut,
    untested: { tooEarly: run.tooEarly, notFitted: run.notFitted, whyNotFitted: whyNotFitted(run) },
    summary: summarize(forecasts, options.by === null ? coefficients.get('')! : coefficients),
    cases: forecasts,
  };
}

interface Run {
  options: EvaluateOptions;
  file: FileCases;
  order: Uint32Array;
  forecasts: Forecasts;
  /** Why windows could not be fitted, and how many rows were to be tested with them. */
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
  let previous: { training: Range; result: Trained | NoFitReason } | undefined;
  const days = Array.from(rows, (row) => table.get('day', row));
  for (const { training, test } of planWindows(days, options.training)) {
    const count = test.to - test.from;
    onDone(test.to);
    if (!training) {
      run.tooEarly += count;
      continue;
    }
    if (previous?.training.from !== training.from || previous.training.to !== training.to) {
      const cases = casesOf(run, rows.subarray(training.from, training.to));
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

function casesOf({ file: { table } }: Run, rows: Uint32Array): EmosCase[] {
  return Array.from(rows, (row) => ({
    mean: table.get('mean', row),
    variance: table.get('variance', row),
    observed: table.get('observed', row),
  }));
}

function groupRanges({ table }: FileCases, order: Uint32Array): (Range & { group: number })[] {
  const ranges: (Range & { group: number })[] = [];
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

function whyNothing(run: Run): string {
  const { options, file, tooEarly } = run;
  const { training } = options;
  const reason = whyNotFitted(run);
  if (file.table.length === 0) return 'No row can be used.';
  if (reason !== null)
    return `Nothing could be fitted${'until' in training ? ` on rows before ${training.until}` : ''}: ${reason}.`;
  if ('until' in training) return `No row can be tested: none is from ${training.until} or later.`;
  return `No row can be tested: none of ${tooEarly} has ${training.days} dates with data before it.`;
}
