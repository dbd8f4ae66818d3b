import { resolve } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import {
  CommandError,
  dateFlag,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../src/commands/kit/command.js';
import { compareModels, comparisonTable } from './compare.js';
import type { Tail } from './decomposition.js';
import { evaluate, type Evaluation } from './evaluate.js';
import { runHourlyCommand } from './hourly.js';
import type { EvaluateOptions } from './evaluation.js';
import {
  collect,
  parseDelimiter,
  parsePattern,
  readingNotes,
  toReadingOptions,
  type ReadingFlags,
} from './flags.js';
import { runMinutesCommand } from './minutes.js';
import { runMixCommand } from './mix-command.js';
import { modelNames, models, type ModelName } from './models.js';
import { parseNumber, readModels, readRows, showFitting } from './read-cases.js';
import { requireReportTarget, writeReport } from './report.js';

interface Flags extends ReadingFlags {
  members: string;
  trainDays?: number;
  trainUntil?: string;
  months?: number[];
  distribution: 'normal' | 'logistic';
  widen?: boolean;
  html?: string;
  model?: ModelName[];
  above?: number;
  below?: number;
}

const help = `
Fits EMOS (Gneiting et al. 2005): the observation is normal with mean a + b * m and variance c + d * v, where m and v are
the mean and the sample variance of the row's members. a, b, c and d minimize the mean CRPS over the training rows.

Training:
  --train-until DATE  fits once to all rows before DATE, and tests the rows from DATE on.
  --train-days N      fits each date to the latest N earlier dates with data. Dates with fewer are counted, not tested.
  --lag K             skips the last K days before the date (or before DATE), whose forecasts are not verified yet.
                      Counts calendar days; all rows of a date belong to it, whatever the time.
  --months 12,1,2     trains on and tests only rows of these months; the N dates then reach back to the last winter.
  --by COLUMN         fits each value of the column separately, such as each station. Default: one fit for all rows.

The file is CSV, plain or gzip, with column names in the first line and rows in any order; - reads standard input. Dates may
be written as 2010-03-01, 2010-03-01 06:00:00, 2010/03/01, 20100301 or 2010030106. Lines that begin with # are comments. Rows
are skipped, and counted on standard error, if the observation or all members are missing (empty, NA, NaN, null, none or -), if
a value is not a number, if the date cannot be read, or if an earlier row has the same date and --by column. A row without
some of its members uses the others.

Standard output is one JSON object (npm prints the script's name before it, unless you use npm run --silent evaluate):
  { "n", "raw": { "crps", "mae", "bias", "coverage" },
    "emos": { "crps", "mae", "bias", "logScore", "coverage" }, "coefficients": { "a", "b", "c", "d" } }
n       tested rows; scores are means over them, in the unit of the observations
crps    raw: of the ensemble, mean |x - y| - 1/2 mean |x - x'|; emos: of the fitted distribution. Lower is better
mae     mean absolute error of the ensemble mean, and of the fitted mean;  bias  that mean - observed
coverage  share of observations within the central 90% interval; for raw between the members' quantiles 0.05 and 0.95,
        interpolated linearly
logScore  -ln of the density at the observation
coefficients  of the fit (with --train-days: the last one; with --by: { value: { a, b, c, d } })

Heavier tails:
  --distribution logistic  fits a logistic distribution. Temperature errors often have heavier tails than the normal
                      distribution; then it scores better and covers more.
  --widen             multiplies the spread by the least factor, at least 1, with which the interval covers 90% of the
                      training rows. c and d include the factor. Test rows play no part.

Other models:
  --model NAME[,…]    ${modelNames.map((name) => `${name.padEnd(9)} ${models[name].title}`).join('\n                      ')}
                      Output is { "n", "raw", NAME: { … }, "coefficients" }. With several models "comparison" has the
                      differences from the first model's scores on the same rows, with 95% intervals (blocks of seven
                      dates), and standard error shows a table. Scores include the parts of the CRPS:
                      crps = reliability - resolution + uncertainty.
  --above X, --below X  adds twCrps, the CRPS of the range above (below) X only: how well heat (cold) is forecast.

Forecasts during the day, from hourly rows: evaluate --hourly --help.
What one-minute readings add to them: evaluate --hourly --minutes --help.
Several models mixed: evaluate --mix --help.

Exit status: 0 success, 2 error.

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

function parseModels(value: string): ModelName[] {
  const names = [...new Set(value.split(',').map((name) => name.trim()))];
  if (!names.every((name): name is ModelName => (modelNames as readonly string[]).includes(name)))
    throw new InvalidArgumentError(
      `It must be one or more of ${modelNames.join(', ')}, separated by commas.`,
    );
  return names;
}

function parseThreshold(value: string): number {
  const number = parseNumber(value);
  if (number === undefined) throw new InvalidArgumentError('It must be a number.');
  return number;
}

const createEvaluateCommand = (): Command =>
  new Command('evaluate')
    .description('Calibrates the ensemble forecasts in your own data and measures the improvement.')
    .argument('<file>', 'CSV, plain or gzip; - reads standard input')
    .requiredOption('--obs <column>', 'column of the observation')
    .requiredOption(
      '--members <pattern>',
      'regular expression for the columns of the ensemble members',
      parsePattern,
    )
    .requiredOption('--date <column>', 'column of the forecast date')
    .option('--train-days <n>', 'train on the latest n earlier dates with data', wholeFrom(1, 100_000))
    .option('--train-until <date>', 'train once, on all rows before the date', dateFlag)
    .option('--months <list>', 'only rows of these months, such as 12,1,2', parseMonths)
    .option('--lag <k>', 'skip the last k days before the forecast', wholeFrom(0, 100_000), 0)
    .option('--by <column>', 'fit each value of the column separately')
    .addOption(
      new Option('--distribution <name>', 'distribution to fit')
        .choices(['normal', 'logistic'])
        .default('normal'),
    )
    .option('--widen', 'widen the spread until it covers 90% of the training rows')
    .option('--missing <value>', 'value that marks missing data, such as -9999 (repeatable)', collect)
    .option('--delimiter <character>', 'field separator', parseDelimiter, ',')
    .option('--decimal-comma', 'numbers are written as 12,5')
    .option('--model <names>', `one or more of ${modelNames.join(', ')}`, parseModels)
    .option('--above <x>', 'with --model: also score the range above x', parseThreshold)
    .option('--below <x>', 'with --model: also score the range below x', parseThreshold)
    .option('--html <file>', 'also write a report with charts, one file that works offline')
    .addHelpText('after', help);

/** @throws CommandError unless exactly one training flag is given, or if the report would overwrite the input */
function toEvaluateOptions(file: string, flags: Flags): EvaluateOptions {
  if (flags.html !== undefined && resolve(flags.html) === resolve(file))
    throw new CommandError('--html names the input file, and would replace it.');
  const { trainDays, trainUntil, lag: lagDays } = flags;
  if ((trainDays === undefined) === (trainUntil === undefined))
    throw new CommandError('Give either --train-days or --train-until.');
  return {
    ...toReadingOptions(file, flags),
    members: flags.members,
    training: trainUntil === undefined ? { days: trainDays!, lagDays } : { until: trainUntil, lagDays },
    months: flags.months ?? null,
    distribution: flags.distribution,
    isWidened: flags.widen ?? false,
  };
}

/** @throws CommandError for conflicting flags */
function requireModelFlags({ model, above, below, html, distribution, widen }: Flags): void {
  if (!model && (above !== undefined || below !== undefined))
    throw new CommandError('--above and --below need --model.');
  if (above !== undefined && below !== undefined)
    throw new CommandError('Give either --above or --below, not both.');
  if (model && (html !== undefined || distribution !== 'normal' || widen))
    throw new CommandError('--html, --distribution and --widen cannot be combined with --model.');
}

const tailOf = ({ above, below }: Flags): Tail | null => {
  if (above !== undefined) return { side: 'above', threshold: above };
  return below === undefined ? null : { side: 'below', threshold: below };
};

export function runEvaluateCommand(terminal: Terminal): Promise<number> {
  if (terminal.args.includes('--minutes')) return runMinutesCommand(terminal);
  if (terminal.args.includes('--hourly')) return runHourlyCommand(terminal);
  const isMix = terminal.args.some((arg) => arg === '--mix' || arg.startsWith('--mix='));
  return isMix ? runMixCommand(withoutValues(terminal)) : runDayAheadCommand(terminal);
}

/** `--mix --help` asks for help, although --mix takes a value. */
const withoutValues = (terminal: Terminal): Terminal =>
  terminal.args.some((arg) => arg === '--help' || arg === '-h')
    ? { ...terminal, args: ['--help'] }
    : terminal;

const runDayAheadCommand = (terminal: Terminal): Promise<number> =>
  runCommand<Flags>(createEvaluateCommand(), terminal, async (flags, files) => {
    const { stdout, stderr } = terminal;
    requireModelFlags(flags);
    const options = toEvaluateOptions(files[0]!, flags);
    if (flags.html !== undefined) await requireReportTarget(flags.html);
    const say = (notes: string[]) => notes.forEach((note) => stderr.write(`evaluate: ${note}\n`));
    const print = (summary: object) => void stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    const [file] = await readRows(options.file, terminal, (input, onRow) =>
      readModels(input, [options], onRow),
    );
    say(readingNotes(file!));
    if (flags.model) {
      const names = flags.model;
      const summary = showFitting(terminal, (onProgress) =>
        compareModels(options, file!, { names, tail: tailOf(flags), onProgress }),
      );
      if (names.length > 1) stderr.write(`${comparisonTable(summary, names).join('\n')}\n`);
      print(summary);
    } else {
      const evaluation = showFitting(terminal, (onProgress) => evaluate(options, file!, onProgress));
      say(testingNotes(evaluation));
      print(evaluation.summary);
      if (flags.html !== undefined) await writeReport(evaluation, flags.html);
    }
    return 0;
  });

function testingNotes({ untested, options: { training } }: Evaluation): string[] {
  const notes: string[] = [];
  const { tooEarly, notFitted, whyNotFitted } = untested;
  if (tooEarly > 0 && 'days' in training)
    notes.push(`Not tested: ${tooEarly} rows with fewer than ${training.days} earlier dates with data.`);
  if (notFitted > 0) notes.push(`Not tested: ${notFitted} rows whose window has no fit: ${whyNotFitted}.`);
  return notes;
}
