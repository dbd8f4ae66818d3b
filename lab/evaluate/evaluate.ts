import { basename } from 'node:path';
import { MIN_FIT_CASES, type EmosCoefficients, type NoFitReason } from './emos.js';
import { CommandError } from '../../src/commands/kit/command.js';
import { nameOf } from '../../src/commands/kit/input.js';
import type { EvaluatedCase, EvaluateOptions } from './evaluation.js';
import { forecastRows, type RowForecasts } from './forecast-rows.js';
import { createEmos, type Model } from './models.js';
import type { FileCases } from './read-cases.js';
import { meanScores, scoreForecast, scoreRaw } from './scores.js';
import { formatEpochDay } from './training.js';
import { crpsOfNormal } from '../../src/markets/learning/crps.js';

export type Evaluation = ReturnType<typeof evaluate>;

/** @throws CommandError if no row gets a forecast */
export function evaluate(options: EvaluateOptions, file: FileCases, onProgress: (share: number) => void) {
  const { table, groups, rows: rowCount, leftOut, columns } = file;
  const model = keepFits(createEmos(options));
  const { distribution } = model;
  const forecasts = forecastRows(model, options, file, onProgress);
  const { fits, coefficients, tooEarly, notFitted } = forecasts;
  const rows = table.byDate(forecasts.rows);
  if (rows.length === 0)
    throw new CommandError(`${nameOf(options.file)}: ${explainNoForecast(options, file, forecasts)}`);
  const scoreRow = (row: number) =>
    scoreForecast(distribution, fits[row]!.predict(table.case(row)), table.get('observed', row));

  function toCase(row: number): EvaluatedCase {
    const fit = fits[row]!;
    const observed = table.get('observed', row);
    const { mean, deviation } = fit.predict(table.case(row));
    return {
      date: formatEpochDay(table.get('day', row)),
      by: options.by === null ? null : groups[table.get('group', row)]!,
      observed,
      mean,
      rawCrps: table.get('crps', row),
      emosCrps: scoreRow(row).crps,
      climateCrps: crpsOfNormal(fit.climate.mean, fit.climate.deviation, observed),
      pit: deviation === 0 ? Number(observed >= mean) : distribution.cdf((observed - mean) / deviation),
      rawRank: table.get('rank', row),
    };
  }

  return {
    options,
    fileName: basename(options.file),
    memberCount: columns.members.length,
    rows: rowCount,
    /** In the selected months, except those in `leftOut`. */
    usedRows: table.length,
    leftOut,
    /** In the test period, with too few earlier dates or no fit. */
    untested: {
      tooEarly,
      notFitted: [...notFitted.values()].reduce((sum, count) => sum + count, 0),
      whyNotFitted: explainNotFitted(forecasts),
    },
    summary: {
      n: rows.length,
      raw: meanScores(rows, (row) => scoreRaw(table, row)),
      emos: meanScores(rows, scoreRow),
      coefficients,
    },
    /** In date order. Computed lazily, so that a long file needs little memory; may be iterated more than once. */
    cases: {
      *[Symbol.iterator]() {
        for (const row of rows) yield toCase(row);
      },
    } as Iterable<EvaluatedCase>,
  };
}

/** A gap in the data leaves the next window with the same rows. */
function keepFits<Coefficients>(model: Model<Coefficients>): Model<Coefficients> {
  let kept: { window: string; fitted: ReturnType<Model<Coefficients>['fit']> } | undefined;
  return {
    ...model,
    fit(rows, near) {
      const window = `${rows[0]?.group} ${rows[0]?.day} ${rows.at(-1)?.day}`;
      if (kept?.window !== window) kept = { window, fitted: model.fit(rows, near) };
      return kept.fitted;
    },
  };
}

const reasons: Record<NoFitReason, string> = {
  too_few_cases: `fewer than ${MIN_FIT_CASES} cases to train on`,
  not_finite: 'a number too large to square',
  constant_mean: 'the mean of the members is always the same',
  no_errors: 'the observations lie exactly on a line, so no error is left to fit a spread to',
};

type Untested = Pick<RowForecasts<EmosCoefficients>, 'tooEarly' | 'notFitted'>;

const explainNotFitted = ({ notFitted }: Untested): string | null =>
  notFitted.size === 0 ? null : [...notFitted.keys()].map((reason) => reasons[reason]).join('; ');

function explainNoForecast({ training }: EvaluateOptions, { table }: FileCases, untested: Untested): string {
  const reason = explainNotFitted(untested);
  if (table.length === 0) return 'No row can be used.';
  if (reason !== null)
    return `Nothing could be fitted${'until' in training ? ` on rows before ${training.until}` : ''}: ${reason}.`;
  if ('until' in training) return `No row can be tested: none is from ${training.until} or later.`;
  return `No row can be tested: none of ${untested.tooEarly} has ${training.days} earlier dates with data.`;
}
