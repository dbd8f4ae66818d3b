import { Command, InvalidArgumentError } from 'commander';
import { CommandError, dateFlag, runCommand, type Terminal } from '../../src/commands/kit/command.js';
import { nameOf } from '../../src/commands/kit/input.js';
import { HOUR_MS, MINUTE_MS } from '../../src/core/time.js';
import { modelWith, uncorrectedForecast } from '../../src/markets/learning/day-forecast.js';
import { noFits } from '../../src/markets/learning/fits.js';
import { daySoFarOf, reachedDegree, signOf, type HourFit } from '../../src/markets/learning/running-day.js';
import {
  fitSameDay,
  LAST_HOUR,
  type SameDayCase,
  type SameDayFit,
} from '../../src/markets/learning/same-day.js';
import { climateDayOf } from '../../src/markets/market/climate-day.js';
import { probabilityWithin, type TemperatureDistribution } from '../../src/markets/market/distribution.js';
import type { DailyKind } from '../../src/markets/market/market.js';
import { findStation } from '../../src/markets/market/stations.js';
import { createMinuteBook, type MemberReading } from '../../src/markets/weather/minutes.js';
import type { ObservedExtreme } from '../../src/markets/weather/weather.js';
import { LAG_DAYS, readHourlyDays, type HourlyDay } from './hourly.js';
import { createMinuteMaker, REPORT_LEAD } from './made-up-minutes.js';
import { showFitting } from './read-cases.js';
import { fitWindows, formatEpochDay, parseDay } from './training.js';

const help = `
Makes up one-minute readings around the hours, and scores the service's forecast of the day with them ÷ without them.

The file is that of evaluate --hourly --help; each station is one of those that Gauge knows. Hours count as reports of seven
minutes before them in whole °F. The minutes pass through the reports, and a reading is known three minutes later, in
whole °C. The day settles on its warmest minute. Each forecast is fitted to the sixty days before the last two.

Standard output is one JSON array with an object for each size of the noise:
  { "noise", "excessF", "n", "crps": { "9": … }, "ratio": { "9:00": …, "9:15": …, … } }
noise    share of the noise that the hours allow (its standard deviation)
excessF  °F by which the warmest minute exceeds the hourly reports on average
crps     of the whole degree on which the day settled, without minutes, °F
ratio    CRPS with minutes ÷ without, at times of local standard time

Example:
  npm run --silent evaluate -- hourly.csv.gz --hourly --minutes --from 2016-01-01`;

const listOf = (isValid: (x: number) => boolean, what: string) => (text: string) => {
  const values = text.split(',').map(Number);
  if (values.some((x) => !isValid(x)))
    throw new InvalidArgumentError(`It must be ${what}, separated by commas.`);
  return values.toSorted((a, b) => a - b);
};

const isHour = (hour: number) => Number.isInteger(hour) && hour >= 3 && hour <= LAST_HOUR;

const createMinutesCommand = () =>
  new Command('evaluate')
    .description('Measures what one-minute readings are worth to forecasts of a day in progress.')
    .argument('<file>', 'CSV, plain or gzip; - reads standard input')
    .requiredOption('--hourly', 'each row is a day with its hours')
    .requiredOption('--minutes', 'make up minutes')
    .option(
      '--hours <list>',
      'at these hours and each quarter after them',
      listOf(isHour, `hours from 3 to ${LAST_HOUR}`),
      [9, 12, 15, 18],
    )
    .option(
      '--noise <list>',
      'sizes of the noise',
      listOf((x) => x > 0 && x <= 1, 'numbers above 0, to 1'),
      [0.45, 0.6, 0.8],
    )
    .option('--from <date>', 'score days from this date on', dateFlag)
    .option('--until <date>', 'score days before this date', dateFlag)
    .option('--six-hours', 'reports also tell the extremes of six hours')
    .option('--minimum', 'forecast minima instead of maxima')
    .addHelpText('after', help);

interface MinutesFlags {
  hours: number[];
  noise: number[];
  from?: string;
  until?: string;
  sixHours?: boolean;
  minimum?: boolean;
}

export const runMinutesCommand = (terminal: Terminal): Promise<number> =>
  runCommand<MinutesFlags>(createMinutesCommand(), terminal, async (flags, files) => {
    const days = await readHourlyDays(files[0]!, terminal);
    const unknown = days.find(({ stationId }) => !findStation(stationId));
    if (unknown)
      throw new CommandError(
        `${nameOf(files[0]!)}: Gauge knows no station ${JSON.stringify(unknown.stationId)}.`,
      );
    const { noise: sizes } = flags;
    const found = showFitting(terminal, (onProgress) =>
      sizes.map((noise, i) =>
        scoreMinutes(days, noise, flags, (share) => onProgress((i + share) / sizes.length)),
      ),
    );
    if (found[0]!.n === 0)
      throw new CommandError(`${nameOf(files[0]!)}: No day can be scored: none has enough earlier days.`);
    terminal.stdout.write(`${JSON.stringify(found, null, 2)}\n`);
    return 0;
  });

const QUARTERS = [0, 15, 30, 45];
/** Days of a fit, as in the service. */
const WINDOW_DAYS = 60;
/** Minutes until the venue has published a reading. */
const PUBLISHED_AFTER = 3;

/** A day with its minutes, the forecast at whole hours, and the official extreme. */
interface MinuteDay {
  kind: DailyKind;
  stationId: string;
  date: string;
  startMs: number;
  officialF: Int16Array;
  /** Reports of this hour and each sixth from it also tell the extremes of six hours; none do if it is undefined. */
  sixthHour: number | undefined;
  curveF: readonly number[];
  extremeF: number;
}

function toMinuteDay(
  { stationId, day, curveF }: HourlyDay,
  officialF: Int16Array,
  { sixHours, minimum }: Pick<MinutesFlags, 'sixHours' | 'minimum'>,
): MinuteDay {
  const kind = minimum ? 'daily_minimum' : 'daily_maximum';
  const station = findStation(stationId)!;
  const date = formatEpochDay(day);
  return {
    kind,
    stationId,
    date,
    startMs: climateDayOf(station, date).start.getTime(),
    officialF,
    // These reports are made before 0, 6, 12 and 18 h UTC.
    sixthHour: sixHours ? (station.standardOffsetHours + 24) % 6 : undefined,
    curveF: curveF.map((t, hour) => t + (REPORT_LEAD / 60) * ((curveF[hour + 1] ?? t) - t)),
    extremeF: mostOf(kind, officialF),
  };
}

const mostOf = (kind: DailyKind, temperaturesF: Iterable<number>): number =>
  (kind === 'daily_maximum' ? Math.max : Math.min)(...temperaturesF);

/** The report of hour 0 is of the day before. */
const reportsOf = ({ officialF }: MinuteDay, hour: number): (number | null)[] =>
  Array.from({ length: 24 }, (_, h) => (h === 0 || h > hour ? null : officialF[h * 60 - REPORT_LEAD]!));

function observedAt(day: MinuteDay, hour: number): ObservedExtreme {
  const hoursF = reportsOf(day, hour);
  const at = new Date(day.startMs + (hour * 60 - REPORT_LEAD) * MINUTE_MS);
  const { kind, officialF, sixthHour = Infinity } = day;
  const sixHours = [6, 12, 18].flatMap((after) => {
    const end = (sixthHour + after) * 60 - REPORT_LEAD;
    return end > hour * 60 || end < 6 * 60 ? [] : [mostOf(kind, officialF.subarray(end - 6 * 60, end + 1))];
  });
  const extremeF = mostOf(kind, [...hoursF.filter((t) => t !== null), ...sixHours]);
  return { ...day, extremeF, observedAt: at, fetchedAt: at, hoursF };
}

function toCase(day: MinuteDay, hour: number): SameDayCase {
  const { kind, curveF, stationId } = day;
  const { extremeF } = observedAt(day, hour);
  const known = daySoFarOf({ kind, stationId, extremeF, hoursF: reportsOf(day, hour), curveF })!;
  const hasRisen = signOf(kind) * (day.extremeF - reachedDegree(kind, extremeF)) > 0;
  return { ...known, observedF: hasRisen ? signOf(kind) * day.extremeF : known.boundF! };
}

function scoreMinutes(
  allDays: readonly HourlyDay[],
  noise: number,
  { hours, from, until, ...flags }: MinutesFlags,
  onProgress: (share: number) => void,
) {
  const makeUp = createMinuteMaker(allDays, noise);
  const since = from === undefined ? -Infinity : parseDay(from)!;
  const end = until === undefined ? Infinity : parseDay(until)!;
  const days = allDays.filter(({ day }) => day >= since - 2 * WINDOW_DAYS && day < end);
  const known = days.map((day) => toMinuteDay(day, makeUp(day), flags));
  const fits = hours.map((hour) => fitHour(days, known, hour, since));
  const sums = { excess: 0, n: 0, without: new Map<string, number>(), with: new Map<string, number>() };
  const add = (to: Map<string, number>, key: string, crps: number) => to.set(key, (to.get(key) ?? 0) + crps);
  for (const [i, day] of known.entries()) {
    if (fits.some((of) => !of[i])) continue;
    sums.n++;
    sums.excess += signOf(day.kind) * (day.extremeF - observedAt(day, 23).extremeF);
    for (const { hour, quarter, ...crps } of scoreDay(day, hours, (h) => fits[h]![i]!)) {
      if (quarter === 0) add(sums.without, `${hour}`, crps.without);
      add(sums.with, `${hour}:${String(quarter).padStart(2, '0')}`, crps.with);
    }
    onProgress(i / known.length);
  }
  const round = (values: Iterable<[string, number]>) =>
    Object.fromEntries([...values].map(([key, value]) => [key, Number(value.toFixed(4))]));
  const ratios = [...sums.with].map(([clock, crps]): [string, number] => [
    clock,
    crps / sums.without.get(clock.split(':')[0]!)!,
  ]);
  const means = [...sums.without].map(([hour, crps]): [string, number] => [hour, crps / sums.n]);
  const excessF = Number((sums.excess / sums.n).toFixed(4));
  return { noise, excessF, n: sums.n, crps: round(means), ratio: round(ratios) };
}

/** With the same reports for both. */
function* scoreDay(day: MinuteDay, hours: readonly number[], fitOf: (position: number) => SameDayFit) {
  const book = createMinuteBook();
  let taken = 0;
  for (const [position, hour] of hours.entries()) {
    const reports = observedAt(day, hour);
    const score = (seen: ObservedExtreme, at: Date) =>
      crpsOf(forecastWith(seen, day, fitOf(position), at), day.extremeF);
    const without = score(reports, new Date(day.startMs + hour * HOUR_MS));
    for (const quarter of QUARTERS) {
      const minute = hour * 60 + quarter;
      const now = day.startMs + minute * MINUTE_MS;
      book.take(readingsOf(day, taken, (taken = minute - PUBLISHED_AFTER + 1)), now);
      yield { hour, quarter, without, with: score(book.addTo(reports, now), new Date(now)) };
    }
  }
}

const readingsOf = (
  { stationId, startMs, officialF }: MinuteDay,
  from: number,
  to: number,
): MemberReading[] =>
  [...officialF.subarray(from, to)].map((official, i) => ({
    stationId,
    at: new Date(startMs + (from + i) * MINUTE_MS),
    temperatureF: Math.round((official - 32) / 1.8) * 1.8 + 32,
    code: 'ok',
  }));

/** Sum over whole degrees; those farther away than this do not change it noticeably. */
const FAR_F = 40;

function crpsOf(distribution: TemperatureDistribution, settledF: number): number {
  let sum = 0;
  for (let highest = settledF - FAR_F; highest < settledF + FAR_F; highest++) {
    const atMost = probabilityWithin(distribution, { lowest: null, highest, step: 1 });
    sum += (atMost - Number(settledF <= highest)) ** 2;
  }
  return sum;
}

/** For each day, the fit to the days before it. */
function fitHour(days: readonly HourlyDay[], known: readonly MinuteDay[], hour: number, since: number) {
  const cases = known.map((day) => toCase(day, hour));
  const fits = Array.from<SameDayFit | undefined>({ length: days.length });
  const steps = fitWindows<SameDayFit>(
    days.map(({ day }) => day),
    { since, lagDays: LAG_DAYS },
    ({ from, to }, last) => {
      const first = days[to - 1]!.day - WINDOW_DAYS;
      return fitSameDay(
        cases.slice(from, to).filter((_, i) => days[from + i]!.day > first),
        last,
      );
    },
  );
  for (const { test, fit } of steps) if (typeof fit === 'object') fits.fill(fit, test.from, test.to);
  return fits;
}

const service = modelWith((ensemble) => uncorrectedForecast(ensemble, null));

function forecastWith(
  observed: ObservedExtreme,
  day: MinuteDay,
  found: SameDayFit,
  at: Date,
): TemperatureDistribution {
  const early = new Date(day.startMs);
  const fit: HourFit = {
    ...found,
    id: '',
    kind: day.kind,
    firstDate: '',
    lastDate: '',
    rawCrps: 0,
    knownThrough: early,
    trainedAt: early,
  };
  const ensemble = { ...day, modelRunAt: early, fetchedAt: early, membersF: day.curveF };
  const weather = { fetchedAt: at, ensembles: [ensemble], observed: [observed] };
  const fits = { ...noFits, hours: { fits: [fit], missing: [] } };
  return service({ source: '', weather, events: [], fits, at }).get(day.stationId)!.days[0]!.distribution;
}
