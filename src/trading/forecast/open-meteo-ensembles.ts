import { z } from 'zod';
import type { Clock } from '../../core/clock.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import type { Target } from '../market/market.js';
import { climateDayAt, clockAt } from '../market/climate-day.js';
import { addDays } from '../market/calendar.js';
import { isStation, type Place } from '../market/stations.js';
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
export async function readEnsembles(
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
 * that nobody takes the data to have been known earlier than they were.
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
): (Target & Pick<DayEnsemble, 'membersF'>)[] {
  const { time, ...columns } = hourly as { time: number[] } & Record<string, (number | null)[]>;
  const members = Object.entries(columns)
    .filter(([name]) => /^temperature_2m(_member\d+)?$/.test(name))
    .map(([, values]) => values);
  if (members.length < MIN_SERIES)
    throw new UnexpectedAnswerError(url, `${members.length} members instead of 31`);
  if (members.some((values) => values.length !== time.length))
    throw new UnexpectedAnswerError(url, 'the members do not have a value for each hour');
  return datesInView(place, at)
    .flatMap((date) => targetsOn(place, date))
    .flatMap((target) => {
      const membersF = members.map(targetReader(place, target, time));
      return membersF.includes(null) ? [] : [{ ...target, membersF: membersF as number[] }];
    });
}

/** Of a station yesterday, whose markets may not be settled, to tomorrow; of an area today and tomorrow by its clock. */
function datesInView(place: Place, at: Date): string[] {
  const today = isStation(place) ? climateDayAt(place, at).date : clockAt(place, at).date;
  return (isStation(place) ? [-1, 0, 1] : [0, 1]).map((days) => addDays(today, days));
}
