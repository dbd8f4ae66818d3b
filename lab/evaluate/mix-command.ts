import { Command, InvalidArgumentError, Option } from 'commander';
import {
  CommandError,
  isDate,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../src/commands/kit/command.js';
import { nameOf } from '../../src/commands/kit/input.js';
import type { ModelVersion } from '../../src/markets/weather/versions.js';
import { MAIN_MODEL } from '../../src/markets/weather/weather.js';
import type { EvaluateOptions } from './evaluation.js';
import {
  collect,
  parseDelimiter,
  parsePattern,
  readingNotes,
  toReadingOptions,
  type ReadingFlags,
} from './flags.js';
import { compareMixes, type MixSummary } from './mix.js';
import { findColumn } from '../../src/commands/kit/columns.js';
import { readCsv, readModels, readRows, showFitting } from './read-cases.js';

const help = `
Mixes several models as the trading server does. Each --mix names a model and the columns of its members; the first one
decides which rows are tested, and another one without members in a row is left out of that row. Each date is forecast from
the latest N earlier dates: every model is corrected by its own fit, and then weighted by its errors on these dates, of which
those 30 days old count half.

  --spread NAME=COLUMN  the standard deviation that the model itself states, for a model with one column
  --fit seasonal        varies bias, slope and spread with the season; needs years
  --versions FILE       CSV with the columns model, version and from (a date). From that date on a model is a new version:
                        its bias is learned anew, its earlier errors count a quarter for the weights, which stay on the
                        first day, and its spread is learned from all versions.

Standard output is one JSON object:
  { "n", "mix": { scores, "weights" }, "models": { NAME: { "n", scores } },
    "without": { NAME: { scores, "crpsDifference": { "mean", "low", "high" } } } }
models   each model alone, corrected by its fit, on the rows where it has members
without  the mix of the others on the same n rows, and its CRPS less the mix's, with the 95% interval (blocks of seven dates)

Examples:
  npm run --silent evaluate -- knyc.csv.gz --obs obs --date date --by station --train-days 365 --lag 1 \\
    --mix gefs='^gefs$' --mix hrrr='^hrrr$' --mix nbm='^nbm' --spread gefs=gefs_spread`;

interface Flags extends ReadingFlags {
  mix: Named[];
  spread?: Named[];
  trainDays: number;
  fit: 'shrunk' | 'seasonal';
  versions?: string;
}

interface Named {
  name: string;
  value: string;
}

function parseNamed(text: string): Named {
  const [, name, value] = /^([\w.-]{1,40})=(.+)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined || name === MAIN_MODEL)
    throw new InvalidArgumentError('It must be a name, = and columns, such as gefs=^gefs$.');
  return { name, value };
}

function addNamed(text: string, before: Named[] = []): Named[] {
  const added = parseNamed(text);
  if (before.some(({ name }) => name === added.name))
    throw new InvalidArgumentError(`${added.name} appears twice.`);
  return [...before, added];
}

function addModel(text: string, before: Named[] = []): Named[] {
  const named = addNamed(text, before);
  parsePattern(named.at(-1)!.value);
  return named;
}

const MAX_MODELS = 20;

const createMixCommand = (): Command =>
  new Command('evaluate')
    .description('Mixes several models in your own data and measures what each adds.')
    .argument('<file>', 'CSV, plain or gzip; - reads standard input')
    .requiredOption('--obs <column>', 'column of the observation')
    .requiredOption('--date <column>', 'column of the forecast date')
    .requiredOption('--mix <name=pattern>', 'a model and the columns of its members (repeatable)', addModel)
    .requiredOption('--train-days <n>', 'train on the latest n earlier dates', wholeFrom(1, 100_000))
    .option('--lag <k>', 'skip the last k days before the forecast', wholeFrom(0, 100_000), 0)
    .option('--by <column>', 'column of the stations, whose biases are learned together')
    .option('--spread <name=column>', 'the standard deviation that a model states (repeatable)', addNamed)
    .addOption(
      new Option('--fit <design>', 'fit of each model').choices(['shrunk', 'seasonal']).default('shrunk'),
    )
    .option('--versions <file>', 'CSV with the dates of new versions')
    .option('--missing <value>', 'value that marks missing data, such as -9999 (repeatable)', collect)
    .option('--delimiter <character>', 'field separator', parseDelimiter, ',')
    .option('--decimal-comma', 'numbers are written as 12,5')
    .addHelpText('after', help);

export const runMixCommand = (terminal: Terminal): Promise<number> =>
  runCommand<Flags>(createMixCommand(), terminal, async (flags, files) => {
    const { stdout, stderr } = terminal;
    const options = toOptions(files[0]!, flags);
    const versions =
      flags.versions === undefined
        ? new Map<string, ModelVersion[]>()
        : await readVersions(flags.versions, terminal, flags.mix);
    const found = await readRows(files[0]!, terminal, (input, onRow) => readModels(input, options, onRow));
    for (const [i, file] of found.entries())
      for (const note of readingNotes(file)) stderr.write(`evaluate: ${flags.mix[i]!.name}: ${note}\n`);
    const models = flags.mix.map(({ name }, i) => ({
      name,
      options: options[i]!,
      file: found[i]!,
      versions: versions.get(name),
    }));
    const summary = showFitting(terminal, (onProgress) => compareMixes(models, flags.fit, onProgress));
    stderr.write(`${mixTable(summary).join('\n')}\n`);
    stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    return 0;
  });

/** @throws CommandError for fewer than two models, or if `--spread` names an unknown model */
function toOptions(file: string, flags: Flags): EvaluateOptions[] {
  const { mix, spread = [] } = flags;
  if (mix.length < 2 || mix.length > MAX_MODELS)
    throw new CommandError(`Give --mix 2 to ${MAX_MODELS} times, once for each model.`);
  const unknown = spread.find(({ name }) => !mix.some((model) => model.name === name));
  if (unknown) throw new CommandError(`--spread: there is no model ${unknown.name}.`);
  return mix.map(({ name, value }) => ({
    ...toReadingOptions(file, flags),
    members: value,
    spread: spread.find((each) => each.name === name)?.value,
    training: { days: flags.trainDays, lagDays: flags.lag },
    months: null,
    distribution: 'logistic',
    isWidened: false,
  }));
}

/** @throws CommandError for an invalid CSV of versions, an unknown model or an invalid date */
async function readVersions(
  file: string,
  terminal: Terminal,
  mix: readonly Named[],
): Promise<Map<string, ModelVersion[]>> {
  const found = new Map<string, ModelVersion[]>();
  let places: number[] | undefined;
  await readRows(file, terminal, (input) =>
    readCsv(input, file, {}, (record, line) => {
      const where = `${nameOf(file)}, line ${line}`;
      if (!places) {
        places = ['model', 'version', 'from'].map((name) => findColumn(record, name, where, ''));
        return;
      }
      const [model = '', version = '', from = ''] = places.map((place) => record[place]);
      if (!isDate(from)) throw new CommandError(`${where}: from must be a date like 2026-10-01.`);
      if (version === '') throw new CommandError(`${where}: the version is missing.`);
      if (!mix.some(({ name }) => name === model))
        throw new CommandError(`${where}: there is no model ${JSON.stringify(model.slice(0, 40))}.`);
      found.set(model, [...(found.get(model) ?? []), { version, from }]);
    }),
  );
  for (const versions of found.values()) versions.sort((a, b) => (a.from < b.from ? -1 : 1));
  return found;
}

function mixTable({ n, mix, models, without }: MixSummary): string[] {
  const number = (x: number | undefined) => (x?.toFixed(4) ?? '').padStart(9);
  const scores = (of: { crps: number; logScore: number; coverage: number }) =>
    [of.crps, of.logScore, of.coverage].map(number).join(' ');
  const range = ({ mean, low, high }: MixSummary['without'][string]['crpsDifference']) =>
    `${mean.toFixed(4)} (${low.toFixed(4)} to ${high.toFixed(4)})`;
  const head = ['CRPS', 'log score', 'covers', 'weight', 'rows'].map((text) => text.padStart(9)).join(' ');
  return [
    `${'model'.padEnd(14)} ${head}  CRPS without it less the mix's, 95% interval`,
    `${'mix'.padEnd(14)} ${scores(mix)} ${''.padStart(9)} ${String(n).padStart(9)}`,
    ...Object.entries(models).map(
      ([name, of]) =>
        `${name.padEnd(14)} ${scores(of)} ${number(mix.weights[name])} ${String(of.n).padStart(9)}  ${range(without[name]!.crpsDifference)}`,
    ),
  ];
}
