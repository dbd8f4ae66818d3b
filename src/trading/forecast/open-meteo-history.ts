import { z } from 'zod';
import type { Clock } from '../../core/clock.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { addDays, daysBetween } from '../market/calendar.js';
import { spanOf, type Target } from '../market/market.js';
import type { Place } from '../market/stations.js';
import type { DayEnsemble } from './forecast.js';
import {
  hourlyF,
  matchPlaces,
  placeFields,
  placeQuery,
  targetsOn,
  targetReader,
} from './open-meteo-place.js';
import { readJson } from './read-json.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
/** NOAA's GFS alone, the model that the ensemble is made with; `gfs_seamless` would be another one near the stations. */
const MODEL = 'gfs_global';
const RUN_MS = 6 * HOUR_MS;
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
 * archive of ensembles themselves keeps only what each run said of its own first hours, which nobody knew in time.
 *
 * When such a forecast was made: the archive gives for each hour the value of the newest run that was started at least one (two)
 * days before that hour, so a day's hours are of several runs. The newest one among them, that of the day's last hour,
 * stands for all: none of the values was known before an earlier run and none is of a later one. With four runs a day
 * that is 25 to 30 (49 to 54) hours before the day's end. An hour of an area is of one run.
 *
 * Asks for all places at once: 31 days (and one more) count as 28 places × 32/7 weeks, so 128, and a year as 1,540.
 */
export async function readPreviousRuns(
  { baseUrl, clock }: { baseUrl: string; clock: Clock },
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const first = from < FIRST_DAY ? FIRST_DAY : from;
  if (to < first) return [];
  const query = new URLSearchParams({
    ...placeQuery,
    hourly: columns.join(','),
    models: MODEL,
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
  new Date(Math.floor((hourMs - days * DAY_MS) / RUN_MS) * RUN_MS);
