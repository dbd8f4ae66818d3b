import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { addDays, daysBetween } from '../market/climate-day.js';
import { spanOf, type Target } from '../market/market.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import type { DayEnsemble } from './weather.js';
import {
  hourlyF,
  matchPlaces,
  placeFields,
  placeQuery,
  targetReader,
  targetsOn,
} from './open-meteo-places.js';
import { readOpenMeteo } from './open-meteo-request.js';
import { WeatherUnavailableError } from './read-json.js';
import type { Place } from '../market/place.js';

interface ArchivedModel {
  model?: string;
  asked: string;
  runMs: number;
  firstDay: string;
}

/**
 * The deterministic GFS, the model behind NOAA's ensemble (`gfs_seamless` would mix in another model near the
 * stations); the deterministic models of ECMWF and DWD; and HRRR and NBM, for which some hours come from intermediate
 * runs.
 */
const archivedModels: readonly ArchivedModel[] = [
  { asked: 'gfs_global', runMs: 6 * HOUR_MS, firstDay: '2021-04-01' },
  { model: 'ecmwf', asked: 'ecmwf_ifs025', runMs: 6 * HOUR_MS, firstDay: '2024-02-04' },
  { model: 'hrrr', asked: 'ncep_hrrr_conus', runMs: HOUR_MS, firstDay: '2024-01-01' },
  { model: 'nbm', asked: 'ncep_nbm_conus', runMs: HOUR_MS, firstDay: '2024-01-01' },
  { model: 'icon', asked: 'icon_global', runMs: 6 * HOUR_MS, firstDay: '2024-01-01' },
];

/** Columns by the forecast's age, in days before the hour that it is for. */
const columns = ['temperature_2m_previous_day1', 'temperature_2m_previous_day2'] as const;
const [dayBefore, twoDaysBefore] = columns;

const placeSchema = z.looseObject({
  ...placeFields,
  hourly_units: z.looseObject({ [dayBefore]: z.literal('°F'), [twoDaysBefore]: z.literal('°F') }),
  hourly: z
    .looseObject({ time: z.array(z.int()), [dayBefore]: hourlyF, [twoDaysBefore]: hourlyF })
    .refine((hourly) => columns.every((column) => hourly[column].length === hourly.time.length), {
      message: 'there is not a value for each hour',
    }),
});

interface HistoryOptions extends Pick<WorkContext, 'clock' | 'log'> {
  baseUrl: string;
  apiKey: string | undefined;
}

/** A further model that fails is skipped; if the service is busy, the read rejects, so that all are retried. */
export async function readPreviousRuns(
  options: HistoryOptions,
  range: { from: string; to: string },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const runs: DayEnsemble[] = [];
  for (const archived of archivedModels) {
    try {
      for (const run of await readRunsOf(archived, options, range, signal)) runs.push(run);
    } catch (error) {
      if (archived.model === undefined || !isModelFailure(error, signal)) throw error;
      options.log.warn({ err: error, model: archived.model }, 'past forecasts of a model are left out');
    }
  }
  return runs;
}

const isModelFailure = (error: unknown, { aborted }: AbortSignal): boolean =>
  error instanceof UnexpectedAnswerError ||
  (error instanceof WeatherUnavailableError && error.retryAfterMs === undefined && !aborted);

/**
 * Reads past forecasts by single runs of the model, one and two days ahead, as ensembles of one member each. The
 * archive of real ensembles has only the first hours of each run, which had passed before the run was available.
 *
 * For each hour, the archive has the value of the newest run that started at least one (two) days before that hour, so
 * a day's hours come from several runs. The run of the day's last hour is the newest of them and its start is used for
 * the whole day, because no value comes from a later run. With four runs a day, that is 25 to 30 (49 to 54) hours
 * before the day's end. An area's hour comes from one run.
 *
 * One request covers all places: 31 days plus one count as 28 places × 32/7 weeks = 128 calls, 640 for all five models;
 * a year counts as 7,700, which exceeds the hourly limit.
 */
async function readRunsOf(
  { model, asked, runMs, firstDay }: ArchivedModel,
  { baseUrl, apiKey, clock, log }: HistoryOptions,
  { from, to }: { from: string; to: string },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const first = from < firstDay ? firstDay : from;
  if (to < first) return [];
  const query = {
    ...placeQuery,
    hourly: columns.join(','),
    models: asked,
    start_date: first,
    // Climate days end a few hours after midnight UTC.
    end_date: addDays(to, 1),
  };
  const url = `${baseUrl}/v1/forecast`;
  const answers = await readOpenMeteo({ url, query, apiKey, schema: z.array(z.unknown()), signal });
  const fetchedAt = new Date(clock.now());
  const { matched, problems } = matchPlaces(url, answers, placeSchema);
  if (problems.length > 0)
    log.warn(
      { model: model ?? asked, problems: problems.slice(0, 10) },
      'past forecasts of places are left out',
    );
  return matched.flatMap(([place, { hourly }]) =>
    daysBetween(first, to)
      .flatMap((date) => targetsOn(place, date))
      .flatMap((target) => {
        const { end } = spanOf(place, target);
        if (end > fetchedAt) return [];
        const read = targetReader(place, target, hourly.time);
        return columns.flatMap((column, i) => {
          const valueF = read(hourly[column]);
          if (valueF === null) return [];
          const modelRunAt = newestRun(lastHourOf(place, target), i + 1, runMs);
          return [{ ...(model && { model }), ...target, modelRunAt, fetchedAt, membersF: [valueF] }];
        });
      }),
  );
}

const lastHourOf = (place: Place, target: Target): number => {
  const { start, end } = spanOf(place, target);
  return start < end ? end.getTime() - HOUR_MS : end.getTime();
};

const newestRun = (hourMs: number, days: number, runMs: number): Date =>
  new Date(Math.floor((hourMs - days * DAY_MS) / runMs) * runMs);
