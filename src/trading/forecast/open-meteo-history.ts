import { z } from 'zod';
import type { Clock } from '../../clock.js';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';
import { addDays, daysBetween } from '../settlement/calendar.js';
import { climateDayOf } from '../settlement/climate-day.js';
import type { DayEnsemble } from './forecast.js';
import { dayMaximum, hourlyF, matchStations, placeFields, stationQuery } from './open-meteo-place.js';
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
 * that is 25 to 30 (49 to 54) hours before the day's end.
 *
 * Asks for all stations at once. Of the free 600 a minute, 5,000 an hour and 10,000 a day, 31 days count as at most 33 (7
 * places, and up to 32 days in steps of a week): a year is about 400.
 */
export async function readPreviousRuns(
  { baseUrl, clock }: { baseUrl: string; clock: Clock },
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const first = from < FIRST_DAY ? FIRST_DAY : from;
  if (to < first) return [];
  const query = new URLSearchParams({
    ...stationQuery,
    hourly: columns.join(','),
    models: MODEL,
    start_date: first,
    // A climate day ends some hours after midnight UTC.
    end_date: addDays(to, 1),
  });
  const url = `${baseUrl}/v1/forecast`;
  const places = await readJson({ url: `${url}?${query.toString()}`, schema: z.array(placeSchema), signal });
  const fetchedAt = new Date(clock.now());
  return matchStations(url, places).flatMap(([{ id: stationId, standardOffsetHours }, { hourly }]) => {
    if (columns.some((column) => hourly[column].length !== hourly.time.length))
      throw new UnexpectedAnswerError(url, 'there is not a value for each hour');
    return daysBetween(first, to).flatMap((date) => {
      const { start, end } = climateDayOf({ standardOffsetHours }, date);
      if (end > fetchedAt) return [];
      return columns.flatMap((column, i) => {
        const extremeF = dayMaximum(hourly.time, hourly[column], start);
        const modelRunAt = newestRun(end, i + 1);
        return extremeF === null
          ? []
          : [
              {
                kind: 'daily_maximum' as const,
                stationId,
                date,
                modelRunAt,
                fetchedAt,
                membersF: [extremeF],
              },
            ];
      });
    });
  });
}

/** The newest run that was started at least so many days before the last hour of a day. */
function newestRun(dayEnd: Date, days: number): Date {
  const lastHour = dayEnd.getTime() - HOUR_MS;
  return new Date(Math.floor((lastHour - days * DAY_MS) / RUN_MS) * RUN_MS);
}
