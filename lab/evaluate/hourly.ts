import { Command } from 'commander';
import { isPossible } from '../../src/markets/weather/weather.js';
import { fitEmos, predictEmos, type EmosCoefficients } from './emos.js';
import {
  fitSameDay,
  LAST_HOUR,
  MIN_SAME_DAY_CASES,
  predictSameDay,
  probabilityAtMost,
  type SameDayCase,
  type SameDayFit,
} from '../../src/markets/learning/same-day.js';
import { probabilityWithin } from '../../src/markets/market/distribution.js';
import {
  CommandError,
  dateFlag,
  runCommand,
  wholeFrom,
  type Terminal,
} from '../../src/commands/kit/command.js';
import { nameOf, type Input } from '../../src/commands/kit/input.js';
import { findColumn, quote } from '../../src/commands/kit/columns.js';
import { missingTest, parseNumber, readCsv, readRows, showFitting } from './read-cases.js';
import { meanScores } from './scores.js';
import { fitWindows, INTERVAL, parseDay } from './training.js';

const help = `
Forecasts each day's maximum from data known at an hour of that day, and scores the whole degree on which the day settled.

The file is CSV, plain or gzip, with the columns station, date, o00 to o23 (observed at each hour of local standard time, °F)
and f00 to f23 (the forecast for the same hours, made before the day), in any order. A day settles on the highest of o00 to
o23, rounded.

censored    the larger of the maximum so far and the maximum still to come, which is logistic. Location and scale are learned
            from the forecast's remaining peak and its errors so far (all stations together). For hours after which most
            days rise no further, whether a day rises is learned separately.
truncation  the normal distribution of the day before (EMOS of the highest forecast), cut off at the maximum so far.

Both are fitted for each date to all rows more than two days before it.

Standard output is one JSON object (npm prints the script's name before it, unless you use npm run --silent evaluate):
  { "hour", "n", "truncation": { "crps", "logScore" }, "censored": { "crps", "logScore", "coverage" }, "coefficients" }
n         scored station days; scores are means over them
crps      sum over whole degrees of (P(at most it) - 1 if the day settled at or below it)^2, °F
logScore  -ln of the probability of the settled degree, in nats; probabilities count as at least 1e-15
coverage  share of days within the central 90%; a degree that covers a range of probabilities counts by its part
          within (Czado, Gneiting, Held 2009), so that 0.9 is right at any hour
coefficients  of the last fit

Exit status: 0 success, 2 error.

Example:
  npm run --silent evaluate -- hourly.csv.gz --hourly --hour 12 --from 2016-01-01`;

const createHourlyCommand = (): Command =>
  new Command('evaluate')
    .description('Measures forecasts of a day while it is in progress.')
    .argument('<file>', 'CSV, plain or gzip; - reads standard input')
    .requiredOption('--hourly', 'each row is a day with its hours')
    .requiredOption('--hour <h>', 'latest known hour', wholeFrom(0, LAST_HOUR))
    .option('--from <date>', 'score days from this date on', dateFlag)
    .option('--minimum', 'forecast minima instead of maxima')
    .addHelpText('after', help);

interface HourlyFlags {
  hour: number;
  from?: string;
  minimum?: boolean;
}

export const runHourlyCommand = (terminal: Terminal): Promise<number> =>
  runCommand<HourlyFlags>(createHourlyCommand(), terminal, async (flags, files) => {
    const file = files[0]!;
    const days = await readHourlyDays(file, terminal);
    const summary = showFitting(terminal, (onProgress) => scoreHourly(days, flags, onProgress));
    if (!summary) throw new CommandError(`${nameOf(file)}: ${reasonForNoScore(flags)}`);
    terminal.stdout.write(`${JSON.stringify(summary, null, 2)}\n`);
    return 0;
  });

/** @throws CommandError with line and column */
export async function readHourlyDays(file: string, terminal: Terminal): Promise<HourlyDay[]> {
  const found = await readRows(file, terminal, (input, onRow) => readHourly(input, file, onRow));
  if (found.incomplete) {
    const { count, line, column } = found.incomplete;
    terminal.stderr.write(
      `evaluate: Skipped ${count} of ${found.rows} rows with an empty field (first in line ${line}, column ${JSON.stringify(column)}).\n`,
    );
  }
  return found.days;
}

/** Hours count from midnight in local standard time. */
export interface HourlyDay {
  stationId: string;
  day: number;
  observedF: readonly number[];
  curveF: readonly number[];
}

const HOURS = Array.from({ length: 24 }, (_, hour) => String(hour).padStart(2, '0'));

type HourlyColumns = ReturnType<typeof findHourlyColumns>;

/**
 * Columns station, date, o00 to o23 (observed) and f00 to f23 (forecast).
 * @throws CommandError with line and column
 */
async function readHourly(input: Input, file: string, onRow: () => void) {
  let columns: HourlyColumns | undefined;
  let header: string[] = [];
  /** Rows with an empty field, and the first such field. */
  let incomplete: { count: number; line: number; column: string } | undefined;
  const days: HourlyDay[] = [];
  let rows = 0;
  const seen = new Map<string, number>();
  const isMissing = missingTest([]);

  function read(record: string[], line: number, { station, date, observed, curve }: HourlyColumns): void {
    const wrong = (column: number, why: string) =>
      new CommandError(`${nameOf(file)}, line ${line}, column ${quote(header[column]!)}: ${why}`);
    rows++;
    if (record.length !== header.length)
      throw new CommandError(
        `${nameOf(file)}, line ${line}: ${record.length} fields, and the header has ${header.length}${
          record.length < header.length ? `: column ${quote(header[record.length]!)} is missing` : ''
        }.`,
      );
    const gap = [station, date, ...observed, ...curve].find((index) => isMissing(record[index]!));
    if (gap !== undefined) {
      incomplete ??= { count: 0, line, column: header[gap]! };
      incomplete.count++;
      return;
    }
    const day = parseDay(record[date]!);
    if (day === undefined) throw wrong(date, `${quote(record[date]!)} is not a date such as 2016-07-01.`);
    const temperature = (index: number): number => {
      const value = parseNumber(record[index]!);
      if (value === undefined) throw wrong(index, `${quote(record[index]!)} is not a number.`);
      if (!isPossible(value)) throw wrong(index, `${value} is not a temperature in °F.`);
      return value;
    };
    const key = `${day} ${record[station]!}`;
    const before = seen.get(key);
    if (before !== undefined)
      throw wrong(date, `${record[date]!} of ${quote(record[station]!)} is already in line ${before}.`);
    seen.set(key, line);
    days.push({
      stationId: record[station]!,
      day,
      observedF: observed.map(temperature),
      curveF: curve.map(temperature),
    });
  }

  await readCsv(input, file, {}, (record, line) => {
    if (columns) read(record, line, columns);
    else {
      header = record;
      columns = findHourlyColumns(header, nameOf(file));
    }
    onRow();
  });
  if (!columns) throw new CommandError(`${nameOf(file)} is empty.`);
  if (days.length === 0) throw new CommandError(`${nameOf(file)}: no row can be used.`);
  return { days: days.sort((a, b) => a.day - b.day), rows, incomplete };
}

function findHourlyColumns(header: readonly string[], name: string) {
  const hint = '--hourly reads station, date, o00 to o23 and f00 to f23.';
  const find = (column: string) => findColumn(header, column, `${name}, line 1`, hint);
  return {
    station: find('station'),
    date: find('date'),
    observed: HOURS.map((hour) => find(`o${hour}`)),
    curve: HOURS.map((hour) => find(`f${hour}`)),
  };
}

const reasonForNoScore = ({ from }: HourlyFlags): string =>
  `No day can be scored: ${from === undefined ? 'none' : `none from ${from} on`} has ${MIN_SAME_DAY_CASES} usable rows more than ${LAG_DAYS} days earlier.`;

/** Their results are treated as not yet known. */
export const LAG_DAYS = 2;

interface HourlyFit {
  censored: SameDayFit | undefined;
  /** Normal, truncated at the degree already reached. */
  dayAhead: EmosCoefficients | undefined;
}

/** Undefined if nothing can be scored. */
function scoreHourly(
  days: readonly HourlyDay[],
  { hour, from, minimum = false }: HourlyFlags,
  onProgress: (share: number) => void,
) {
  const cases = days.map((day) => toCase(day, hour, minimum ? -1 : 1));
  const steps = fitWindows<HourlyFit>(
    days.map(({ day }) => day),
    { since: from === undefined ? -Infinity : parseDay(from)!, lagDays: LAG_DAYS },
    (window, last) => {
      const training = cases.slice(window.from, window.to);
      return {
        censored: fitSameDay(training, last?.censored),
        dayAhead: fitDayAhead(training, last?.dayAhead),
      };
    },
  );
  const truncation: DegreeScores[] = [];
  const censored: DegreeScores[] = [];
  let fitted: SameDayFit | undefined;
  for (const { test, fit } of steps) {
    if (typeof fit === 'object' && fit.censored && fit.dayAhead) {
      const { dayAhead } = fit;
      const sameDay = (fitted = fit.censored);
      for (const each of cases.slice(test.from, test.to)) {
        truncation.push(scoreDegree(atMostOfTruncated(dayAhead, each), each));
        const distribution = predictSameDay(sameDay, each);
        censored.push(scoreDegree((degree) => probabilityAtMost(distribution, degree + 0.5), each));
      }
    }
    onProgress(test.to / days.length);
  }
  if (!fitted) return undefined;
  return {
    hour,
    n: censored.length,
    truncation: meanScores(truncation, ({ crps, logScore }) => ({ crps, logScore })),
    censored: meanScores(censored, (scores) => scores),
    coefficients: { ...fitted.coefficients, ...(fitted.hurdle && { hurdle: fitted.hurdle }) },
  };
}

interface HourlyCase extends SameDayCase {
  /** Rounded to whole degrees as for settlement. */
  reachedDegree: number;
  degree: number;
}

/** @param sign −1 for minima, which are maxima of the negated temperature */
function toCase({ stationId, observedF, curveF }: HourlyDay, hour: number, sign: 1 | -1): HourlyCase {
  const signed = observedF.map((t) => sign * t);
  const soFar = signed.slice(0, hour + 1);
  const reachedF = Math.max(...soFar);
  const extremeF = Math.max(...signed);
  // Half a degree rounds up, for minima too.
  const settled = (x: number) => sign * Math.round(sign * x);
  return {
    stationId,
    hour,
    reachedF,
    recentF: soFar.slice(-3),
    curveF: curveF.map((t) => sign * t),
    observedF: extremeF,
    reachedDegree: settled(reachedF),
    degree: settled(extremeF),
  };
}

function fitDayAhead(
  cases: readonly HourlyCase[],
  near: EmosCoefficients | undefined,
): EmosCoefficients | undefined {
  const rows = cases.map(({ curveF, observedF }) => ({
    mean: Math.max(...curveF),
    variance: 0,
    observed: observedF,
  }));
  const found = fitEmos(rows, { near });
  return 'reason' in found ? undefined : found.coefficients;
}

function atMostOfTruncated(normal: EmosCoefficients, { curveF, reachedDegree }: HourlyCase) {
  const { mean, deviation } = predictEmos(normal, Math.max(...curveF), 0);
  const distribution = { mean, deviation, atLeast: reachedDegree };
  return (degree: number) => probabilityWithin(distribution, { lowest: null, highest: degree, step: 1 });
}

/** Smaller remainders do not change the score noticeably. */
const NEGLIGIBLE = 1e-7;
const MIN_PROBABILITY = 1e-15;
const MAX_DEGREES = 300;

interface DegreeScores {
  crps: number;
  logScore: number;
  coverage: number;
}

function scoreDegree(
  distribution: (degree: number) => number,
  { reachedDegree, degree }: HourlyCase,
): DegreeScores {
  // The final value cannot be below the degree already reached.
  const atMost = (whole: number) => (whole < reachedDegree ? 0 : distribution(whole));
  let crps = 0;
  for (let whole = reachedDegree; whole < reachedDegree + MAX_DEGREES; whole++) {
    const probability = atMost(whole);
    crps += (probability - Number(whole >= degree)) ** 2;
    if (whole >= degree && 1 - probability < NEGLIGIBLE) break;
  }
  const below = atMost(degree - 1);
  const probability = Math.max(MIN_PROBABILITY, atMost(degree) - below);
  const [low, high] = [(1 - INTERVAL) / 2, (1 + INTERVAL) / 2];
  const within = Math.max(0, Math.min(high, below + probability) - Math.max(low, below));
  return { crps, logScore: -Math.log(probability), coverage: within / probability };
}
