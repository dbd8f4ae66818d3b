import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import {
  CommandError,
  dateFlag,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../../commands/kit/command.js';
import { createProgress } from '../../../commands/kit/progress.js';
import { compareModels, comparisonTable } from './compare.js';
import type { Tail } from './decomposition.js';
import { evaluate } from './evaluate.js';
import { runHourlyCommand } from './hourly.js';
import { leftOutReasons, type EvaluateOptions, type Evaluation, type LeftOut } from './evaluation.js';
import { modelNames, models, type ModelName } from './models.js';
import { parseNumber, readCases, readRows, type FileCases } from './read-cases.js';
import { requireReportTarget, writeReport } from './report.js';

interface Flags {
  obs: string;
  members: string;
  date: string;
  trainDays?: number;
  trainUntil?: string;
  months?: number[];
  lag: number;
  by?: string;
  distribution: 'normal' | 'logistic';
  widen?: boolean;
  missing?: string[];
  delimiter: string;
  html?: string;
  model?: ModelName[];
  above?: number;
  below?: number;
}

const help = `
What is fitted (EMOS, Gneiting et al. 2005): the observation is normal with mean a + b * m and variance c + d * v, where
m and v are mean and sample variance of the row's members; a, b, c, d give the least mean CRPS over the training rows.

Training:
  --train-until DATE  one fit to all rows before DATE; the rows from DATE on are tested.
  --train-days N      for each date a fit to the N latest dates that have data before it. Dates without N such dates
                      are not tested, and counted.
  --lag K             leaves out the last K days before the date (or before DATE): what was forecast for them has not
                      been verified yet. Both count calendar days; all rows of a date belong to it, whatever the time.
  --months 12,1,2     trains on and tests only rows of these months; the N dates then reach back to the last winter.
  --by COLUMN         one fit for each value of the column, such as a station. Without it all rows of the window
                      are fitted together.

The file is CSV whose first line names the columns, plain or gzip; - reads standard input. Its rows may be in any order.
Dates are read as 2010-03-01, 2010-03-01 06:00:00, 2010/03/01, 20100301 or 2010030106. Rows with a missing observation or
member (an empty field, NA, NaN, null, none or -), with something else that is not a number, or with a date that cannot be
read are left out and counted on standard error.

Standard output is one JSON object and nothing else (npm prints the script's name before it: npm run --silent evaluate):
  { "n", "raw": { "crps", "mae", "bias", "coverage" },
    "emos": { "crps", "mae", "bias", "logScore", "coverage" }, "coefficients": { "a", "b", "c", "d" } }
n       rows that were tested; everything is a mean over them, in the unit of the observations
crps    raw: of the ensemble as it is, mean |x - y| - 1/2 mean |x - x'|; emos: of the fitted distribution. Less is better
mae     of the mean of the members, and of the fitted mean;  bias  mean - observed
coverage  share of observations within the central 90% interval; for raw from the members' quantile 0.05 to 0.95,
        linear between members
logScore  - ln of the density at the observation
coefficients  of the fit, with --train-days of the last one, with --by { value: { a, b, c, d } }

A sharper choice:
  --distribution logistic  has heavier tails: errors of temperature often do, and then it scores better and covers more.
  --widen             multiplies the spread by the least factor, 1 or more, with which the interval covers 90% of the
                      rows that were trained on. c and d are given with the factor. What is tested plays no part.

Other models:
  --model NAME[,…]    ${modelNames.map((name) => `${name.padEnd(9)} ${models[name].title}`).join('\n                      ')}
                      Output is { "n", "raw", NAME: { … }, "coefficients" }; of several "comparison" besides: by how much
                      the others' scores differ from the first one's on the same rows, with a 95% interval (blocks of
                      seven dates), and a table on standard error. Scores also have the CRPS's parts:
                      crps = reliability - resolution + uncertainty.
  --above X, --below X  adds twCrps, the CRPS of what lies above (below) X only: how well the heat (cold) is forecast.

The day while it runs, from hourly rows: evaluate --hourly --help.

Exit status: 0 done, 2 it could not be done.

Examples:
  npm run --silent evaluate -- innsbruck.csv --obs temp --members '^tempfc\\.' --date valid_time_utc \\
    --train-until 2010-03-01 --months 12,1,2
  npm run --silent evaluate -- stations.csv.gz --obs tmax --members '^m\\d+$' --date day --by station --train-days 60 --lag 1`;

function parseMonths(value: string): number[] {
  const months = value.split(',').map((month) => month.trim());
  if (!months.every((month) => /^(0?[1-9]|1[0-2])$/.test(month)))
    throw new InvalidArgumentError('It must be numbers from 1 to 12, such as 12,1,2.');
  return [...new Set(months.map(Number))];
}

function parsePattern(value: string): string {
  try {
    return RegExp(value).source;
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

function parseDelimiter(value: string): string {
  const delimiter = value === '\\t' ? '\t' : value;
  if (delimiter.length !== 1 || delimiter === '"')
    throw new InvalidArgumentError('It must be one character, or \\t.');
  return delimiter;
}

function parseModels(value: string): ModelName[] {
  const names = [...new Set(value.split(',').map((name) => name.trim()))];
  if (!names.every((name): name is ModelName => (modelNames as readonly string[]).includes(name)))
    throw new InvalidArgumentError(`It must be of ${modelNames.join(', ')}, with commas between.`);
  return names;
}

function parseThreshold(value: string): number {
  const number = parseNumber(value);
  if (number === undefined) throw new InvalidArgumentError('It must be a number.');
  return number;
}

const createEvaluateCommand = (): Command =>
  new Command('evaluate')
    .description('Calibrates ensemble forecasts of your own data and says how much that helps.')
    .argument('<file>', 'CSV, plain or gzip; - reads standard input')
    .requiredOption('--obs <column>', 'the observation')
    .requiredOption(
      '--members <pattern>',
      "regular expression over column names: the ensemble's members",
      parsePattern,
    )
    .requiredOption('--date <column>', 'the date that was forecast')
    .option(
      '--train-days <n>',
      'train on the n latest dates that have data before each',
      wholeFrom(1, 100_000),
    )
    .option('--train-until <date>', 'train once, on all rows before the date', dateFlag)
    .option('--months <list>', 'only rows of these months, such as 12,1,2', parseMonths)
    .option('--lag <k>', 'leave out the last k days before the forecast', wholeFrom(0, 100_000), 0)
    .option('--by <column>', 'fit each value of the column for itself')
    .addOption(
      new Option('--distribution <name>', 'what is fitted').choices(['normal', 'logistic']).default('normal'),
    )
    .option('--widen', 'widen the spread until it covers 90% of what was trained on')
    .option('--missing <value>', 'a value that stands for none, such as -9999 (may be repeated)', collect)
    .option('--delimiter <character>', 'between fields', parseDelimiter, ',')
    .option('--model <names>', `what is fitted: ${modelNames.join(', ')}, or several`, parseModels)
    .option('--above <x>', 'with --model: also score only what lies above', parseThreshold)
    .option('--below <x>', 'with --model: also score only what lies below', parseThreshold)
    .option('--html <file>', 'also write a report with pictures, one file that opens offline')
    .addHelpText('after', help);

const collect = (value: string, before: string[] = []): string[] => [...before, value];

/** @throws CommandError unless exactly one training flag is given, or if the report would overwrite the data */
function toEvaluateOptions(file: string, flags: Flags): EvaluateOptions {
  if (flags.html !== undefined && resolve(flags.html) === resolve(file))
    throw new CommandError('--html names the file that is read, and would replace it.');
  const { trainDays, trainUntil, lag: lagDays } = flags;
  if ((trainDays === undefined) === (trainUntil === undefined))
    throw new CommandError('Give either --train-days or --train-until, to say what is trained on.');
  return {
    file,
    observed: flags.obs,
    members: flags.members,
    date: flags.date,
    training: trainUntil === undefined ? { days: trainDays!, lagDays } : { until: trainUntil, lagDays },
    months: flags.months ?? null,
    by: flags.by ?? null,
    distribution: flags.distribution,
    isWidened: flags.widen ?? false,
    missing: flags.missing ?? [],
    delimiter: flags.delimiter,
  };
}

/** @throws CommandError for conflicting flags */
function requireModelFlags({ model, above, below, html, distribution, widen }: Flags): void {
  if (!model && (above !== undefined || below !== undefined))
    throw new CommandError('--above and --below go with --model.');
  if (above !== undefined && below !== undefined)
    throw new CommandError('Give either --above or --below: one part of the scale is scored.');
  if (model && (html !== undefined || distribution !== 'normal' || widen))
    throw new CommandError('--html, --distribution and --widen do not go with --model.');
}

const tailOf = ({ above, below }: Flags): Tail | null => {
  if (above !== undefined) return { side: 'above', threshold: above };
  return below === undefined ? null : { side: 'below', threshold: below };
};

export const runEvaluateCommand = (terminal: Terminal): Promise<number> =>
  terminal.args.includes('--hourly') ? runHourlyCommand(terminal) : runDayAheadCommand(terminal);

const runDayAheadCommand = (terminal: Terminal): Promise<number> =>
  runCommand<Flags>(createEvaluateCommand(), terminal, async (flags, files) => {
    const { stdout, stderr } = terminal;
    requireModelFlags(flags);
    const options = toEvaluateOptions(files[0]!, flags);
    if (flags.html !== undefined) await requireReportTarget(flags.html);
    const say = (notes: string[]) => notes.forEach((note) => stderr.write(`evaluate: ${note}\n`));
    const file = await readRows(options.file, terminal, (input, onRow) => readCases(input, options, onRow));
    say(readingNotes(file));
    const progress = createProgress(stderr);
    try {
      if (flags.model) {
        const names = flags.model;
        const summary = compareModels(options, file, {
          names,
          tail: tailOf(flags),
          onProgress: (share) => progress.show(share, 'fitting'),
        });
        progress.stop();
        if (names.length > 1) stderr.write(`${comparisonTable(summary, names).join('\n')}\n`);
        stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
        return 0;
      }
      const evaluation = evaluate(options, file, (share) => progress.show(share, 'fitting'));
      progress.stop();
      say(testingNotes(evaluation));
      stdout.write(`${JSON.stringify(evaluation.summary, null, 2)}\n`);
      if (flags.html !== undefined) await writeReport(evaluation, flags.html);
    } finally {
      progress.stop();
    }
    return 0;
  });

function readingNotes({ columns, leftOut, examples, rows, suspects }: FileCases): string[] {
  const notes = columns.excluded.map(
    (name) => `The pattern also matches the column ${JSON.stringify(name)}, which is not a member.`,
  );
  for (const [reason, text] of Object.entries(leftOutReasons) as [keyof LeftOut, string][]) {
    if (leftOut[reason] === 0) continue;
    const { line, column, value } = examples[reason]!;
    const where =
      column === null ? '' : `, column ${JSON.stringify(column)}: ${JSON.stringify(value.slice(0, 40))}`;
    notes.push(`Left out ${leftOut[reason]} of ${rows} rows ${text} (first in line ${line}${where}).`);
  }
  for (const [value, times] of suspects)
    notes.push(
      `${value} was taken as a number ${times} times. If it stands for a missing value, say --missing ${value}.`,
    );
  return notes;
}

function testingNotes({ untested, options: { training } }: Evaluation): string[] {
  const notes: string[] = [];
  const { tooEarly, notFitted, whyNotFitted } = untested;
  if (tooEarly > 0 && 'days' in training)
    notes.push(`Not tested: ${tooEarly} rows without ${training.days} dates with data before them.`);
  if (notFitted > 0) notes.push(`Not tested: ${notFitted} rows whose window has no fit: ${whyNotFitted}.`);
  return notes;
}
