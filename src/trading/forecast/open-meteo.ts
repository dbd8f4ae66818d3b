import type { Logger } from 'pino';
import { z } from 'zod';
import type { Clock } from '../../core/clock.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { addDays, climateDayAt, climateDayOf, clockAt, daysBetween, hourOf } from '../market/climate-day.js';
import { spanOf, type Target } from '../market/market.js';
import { isStation, places, type Place } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import {
  createObserver,
  meanAndVariance,
  type DayEnsemble,
  type ObservationPart,
  type WeatherSource,
} from './forecast.js';
import { createPoll, readJson } from './read-json.js';

/** The grids' points are at most a quarter of a degree apart. */
const NEAR_DEGREES = 0.5;

/** One hourly series, °F; null where the service has nothing. */
const hourlyF = z.array(z.number().min(-100).max(150).nullable());

const placeFields = { latitude: z.number(), longitude: z.number(), utc_offset_seconds: z.literal(0) };

/**
 * All stations and areas in one question, hours in UTC, temperatures in °F.
 *
 * A question counts as several of the free 600 a minute, 5,000 an hour and 10,000 a day: once for each place, times a tenth of the
 * series for each (members count as series) if they are more than ten, times the weeks if it is more than one. Never asked for by
 * station: 28 questions would count as much, and take 28 times as long.
 */
const placeQuery = {
  latitude: places.map(({ latitude }) => latitude).join(','),
  longitude: places.map(({ longitude }) => longitude).join(','),
  temperature_unit: 'fahrenheit',
  timezone: 'GMT',
  timeformat: 'unixtime',
} as const;

/** Each place with its answer: they come in the order of the question. */
function matchPlaces<T extends { latitude: number; longitude: number }>(
  url: string,
  answers: readonly T[],
): [Place, T][] {
  if (answers.length !== places.length)
    throw new UnexpectedAnswerError(url, `${answers.length} places instead of ${places.length}`);
  return places.map((place, i) => {
    const { latitude, longitude } = answers[i]!;
    const distance = Math.max(Math.abs(latitude - place.latitude), Math.abs(longitude - place.longitude));
    if (distance > NEAR_DEGREES)
      throw new UnexpectedAnswerError(url, `${latitude}, ${longitude} is not where ${place.id} is`);
    return [place, answers[i]!];
  });
}

/** What is forecast for a place on a day: its maximum and minimum, or of an area each hour by its clock. */
const targetsOn = (place: Place, date: string): Target[] =>
  isStation(place)
    ? [
        { kind: 'daily_maximum', stationId: place.id, date },
        { kind: 'daily_minimum', stationId: place.id, date },
      ]
    : Array.from({ length: 24 }, (_, hour) => ({ kind: 'hourly', stationId: place.id, date, hour }));

/**
 * Reads a target from series that have a value for each hour; null if one is missing that it needs: the day's peak might have been
 * in it.
 * @param time of each value, seconds since 1970, an hour apart
 */
function targetReader(
  place: Place,
  { kind, date, hour }: Target,
  time: readonly number[],
): (values: readonly (number | null)[]) => number | null {
  const isHour = kind === 'hourly';
  const start = (isHour ? hourOf(place, date, hour!) : climateDayOf(place, date).start).getTime() / 1000;
  const first = time.indexOf(start);
  const end = first + (isHour ? 1 : 24);
  const isThere = first >= 0 && time[end - 1] === start + ((end - 1 - first) * HOUR_MS) / 1000;
  return (values) => {
    if (!isThere) return null;
    const wanted = values.slice(first, end);
    if (wanted.includes(null)) return null;
    return kind === 'daily_minimum' ? Math.min(...(wanted as number[])) : Math.max(...(wanted as number[]));
  };
}

/** NOAA's GEFS at a quarter of a degree: a control run and 30 members, four runs a day. */
const MODEL = 'gfs025';
/** The same by the name under which the service tells of its runs. */
const DATASET = 'ncep_gefs025';
const MIN_SERIES = 20;
const RUN_MS = 6 * HOUR_MS;
/** No run of this model has ever been there sooner after its start. */
const RUN_TAKES_MS = 3.5 * HOUR_MS;

const locationSchema = z.looseObject({
  ...placeFields,
  hourly_units: z.looseObject({ temperature_2m: z.literal('°F') }),
  hourly: z.object({ time: z.array(z.int()) }).catchall(hourlyF),
});

const metadataSchema = z.looseObject({
  /** Seconds since 1970. */
  last_run_initialisation_time: z.int(),
});

/**
 * Asks Open-Meteo for all places in one call: each member's maximum and minimum over a station's climate days, from its hourly
 * values, and its hours for the areas of the index. A call counts as 28 places × 31 members ÷ 10, so 87, and one for the run's time.
 */
async function readEnsembles(
  { baseUrl, clock }: { baseUrl: string; clock: Clock },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const query = new URLSearchParams({
    ...placeQuery,
    hourly: 'temperature_2m',
    models: MODEL,
    past_days: '2',
    forecast_days: '3',
  });
  const url = `${baseUrl}/v1/ensemble`;
  const locations = await readJson({
    url: `${url}?${query.toString()}`,
    schema: z.array(locationSchema),
    signal,
  });
  const matched = matchPlaces(url, locations);
  const fetchedAt = new Date(clock.now());
  // Asked last: if a new run arrives in between, the data are taken for newer than they are, never for older.
  const modelRunAt = await readRunTime(baseUrl, fetchedAt, signal);
  return matched.flatMap(([place, location]) =>
    toRuns(url, place, location, fetchedAt).map((run) => ({ ...run, modelRunAt, fetchedAt })),
  );
}

/**
 * When the run was started that the data are from. Where the service does not tell: the last one that can be there, so
 * that the data are not taken to have been known earlier than they were.
 */
async function readRunTime(baseUrl: string, fetchedAt: Date, signal: AbortSignal): Promise<Date> {
  const url = `${baseUrl}/data/${DATASET}/static/meta.json`;
  const latest = Math.floor((fetchedAt.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS;
  try {
    const metadata = await readJson({ url, schema: metadataSchema, signal });
    const runMs = metadata.last_run_initialisation_time * 1000;
    return new Date(runMs > 0 && runMs <= fetchedAt.getTime() ? runMs : latest);
  } catch {
    return new Date(latest);
  }
}

/** What every member has every hour of. */
function toRuns(
  url: string,
  place: Place,
  { hourly }: z.output<typeof locationSchema>,
  at: Date,
): (Target & Pick<DayEnsemble, 'membersF' | 'curveF'>)[] {
  const { time, ...columns } = hourly as { time: number[] } & Record<string, (number | null)[]>;
  const members = Object.entries(columns)
    .filter(([name]) => /^temperature_2m(_member\d+)?$/.test(name))
    .map(([, values]) => values);
  if (members.length < MIN_SERIES)
    throw new UnexpectedAnswerError(url, `${members.length} members instead of 31`);
  if (members.some((values) => values.length !== time.length))
    throw new UnexpectedAnswerError(url, 'the members do not have a value for each hour');
  return datesInView(place, at).flatMap((date) => {
    const curveF = isStation(place) ? meanCurve(place, date, { time, members }) : undefined;
    return targetsOn(place, date).flatMap((target) => {
      const membersF = members.map(targetReader(place, target, time));
      return membersF.includes(null) ? [] : [{ ...target, membersF: membersF as number[], curveF }];
    });
  });
}

/** The mean of the members at each hour of a climate day; undefined if one of them is missing. */
function meanCurve(
  place: Place,
  date: string,
  { time, members }: { time: readonly number[]; members: readonly (number | null)[][] },
): number[] | undefined {
  const { start } = climateDayOf(place, date);
  const first = time.indexOf(start.getTime() / 1000);
  const hours = members.map((values) => values.slice(first, first + 24));
  if (first < 0 || hours.some((values) => values.length < 24 || values.includes(null))) return undefined;
  return Array.from({ length: 24 }, (_, hour) => meanAndVariance(hours.map((values) => values[hour]!)).mean);
}

/** Of a station yesterday, whose markets may not be settled, to tomorrow; of an area today and tomorrow by its clock. */
function datesInView(place: Place, at: Date): string[] {
  const today = isStation(place) ? climateDayAt(place, at).date : clockAt(place, at).date;
  return (isStation(place) ? [-1, 0, 1] : [0, 1]).map((days) => addDays(today, days));
}

/**
 * The model runs four times a day: asking more often brings little. 24 questions a day count as about 2,100 of the 10,000 that are
 * free, one as 88 of 600 a minute; while the service fails up to 96 questions as 8,400.
 */
const ENSEMBLES_EVERY_MS = HOUR_MS;
/** Ensembles are used on for as long while the service fails: until about the next run they are still the newest. */
const ENSEMBLES_LAST_MS = 3 * HOUR_MS;

interface OpenMeteoOptions {
  /** Of the ensembles. */
  baseUrl: string;
  /** Of the archive of earlier runs. */
  historyBaseUrl: string;
  /** What was measured in the world that the markets are about. */
  observations: readonly ObservationPart[];
  clock: Clock;
  log: Logger;
}

/**
 * The real weather: ensembles from Open-Meteo beside what was observed, each at its own pace. Without observations the ensembles
 * are as good as before, so a service that fails to observe takes nothing away.
 */
export function createOpenMeteoSource(options: OpenMeteoOptions): WeatherSource {
  const { baseUrl, historyBaseUrl, observations, clock, log } = options;
  const pollEnsembles = createPoll(clock, ENSEMBLES_EVERY_MS, async (signal) => {
    const ensembles = await readEnsembles({ baseUrl, clock }, signal);
    return { ensembles, readAt: clock.now() };
  });
  const observe = createObserver(observations, { clock, log });
  let told: unknown;

  return {
    name: 'openmeteo',
    freshMs: MINUTE_MS,
    async read(signal) {
      const [forecast, observed] = await Promise.all([pollEnsembles(signal), observe(signal)]);
      const { value, problem } = forecast;
      const isUsable = value && clock.now() - value.readAt < ENSEMBLES_LAST_MS;
      if (!isUsable || problem instanceof UnexpectedAnswerError) throw problem;
      if (problem !== undefined && problem !== told)
        log.warn({ err: problem }, 'no new ensembles: the last ones are kept');
      told = problem;
      return { fetchedAt: new Date(clock.now()), ensembles: value.ensembles, observed };
    },
    history: {
      readRuns: (range, signal) => readPreviousRuns({ baseUrl: historyBaseUrl, clock }, range, signal),
    },
  };
}

/** NOAA's GFS alone, the model that the ensemble is made with; `gfs_seamless` would be another one near the stations. */
const ARCHIVED_MODEL = 'gfs_global';
const ARCHIVED_RUN_MS = 6 * HOUR_MS;
/** The archive begins on this day for temperatures of this model. */
const FIRST_DAY = '2021-04-01';

/** By the days that the forecast is older than the hour that it is about. */
const columns = ['temperature_2m_previous_day1', 'temperature_2m_previous_day2'] as const;
const [dayBefore, twoDaysBefore] = columns;

const placeSchema = z.looseObject({
  ...placeFields,
  hourly_units: z.looseObject({ [dayBefore]: z.literal('°F'), [twoDaysBefore]: z.literal('°F') }),
  hourly: z.looseObject({ time: z.array(z.int()), [dayBefore]: hourlyF, [twoDaysBefore]: hourlyF }),
});

/**
 * What a single run of the model said of past days, one and two days before: ensembles of one member each. The
 * archive of ensembles themselves keeps only what each run said of its own first hours, which were not known in time.
 *
 * When such a forecast was made: the archive gives for each hour the value of the newest run that was started at least one (two)
 * days before that hour, so a day's hours are of several runs. The newest one among them, that of the day's last hour,
 * stands for all: none of the values was known before an earlier run and none is of a later one. With four runs a day
 * that is 25 to 30 (49 to 54) hours before the day's end. An hour of an area is of one run.
 *
 * Asks for all places at once: 31 days (and one more) count as 28 places × 32/7 weeks, so 128, and a year as 1,540.
 */
async function readPreviousRuns(
  { baseUrl, clock }: { baseUrl: string; clock: Clock },
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const first = from < FIRST_DAY ? FIRST_DAY : from;
  if (to < first) return [];
  const query = new URLSearchParams({
    ...placeQuery,
    hourly: columns.join(','),
    models: ARCHIVED_MODEL,
    start_date: first,
    // A climate day ends some hours after midnight UTC.
    end_date: addDays(to, 1),
  });
  const url = `${baseUrl}/v1/forecast`;
  const answers = await readJson({ url: `${url}?${query.toString()}`, schema: z.array(placeSchema), signal });
  const fetchedAt = new Date(clock.now());
  return matchPlaces(url, answers).flatMap(([place, { hourly }]) => {
    if (columns.some((column) => hourly[column].length !== hourly.time.length))
      throw new UnexpectedAnswerError(url, 'there is not a value for each hour');
    return daysBetween(first, to)
      .flatMap((date) => targetsOn(place, date))
      .flatMap((target) => {
        const { end } = spanOf(place, target);
        if (end > fetchedAt) return [];
        const read = targetReader(place, target, hourly.time);
        return columns.flatMap((column, i) => {
          const valueF = read(hourly[column]);
          const modelRunAt = newestRun(lastHourOf(place, target), i + 1);
          return valueF === null ? [] : [{ ...target, modelRunAt, fetchedAt, membersF: [valueF] }];
        });
      });
  });
}

/** The last whole hour whose value is in what is forecast. */
const lastHourOf = (place: Place, target: Target): number => {
  const { start, end } = spanOf(place, target);
  return start < end ? end.getTime() - HOUR_MS : end.getTime();
};

/** The newest run that was started at least so many days before an hour. */
const newestRun = (hourMs: number, days: number): Date =>
  new Date(Math.floor((hourMs - days * DAY_MS) / ARCHIVED_RUN_MS) * ARCHIVED_RUN_MS);
