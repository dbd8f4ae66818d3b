import { z } from 'zod';
import type { Clock } from '../../clock.js';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';
import { climateDayAt } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import type { DayEnsemble } from './forecast.js';
import { dayMaximum, hourlyF, matchStations, placeFields, stationQuery } from './open-meteo-place.js';
import { readJson } from './read-json.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
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
 * Asks Open-Meteo for all stations in one call: each member's maximum over the climate day, from its hourly values. A
 * call counts as about 22 of the 10,000 that are free a day.
 */
export async function readEnsembles(
  { baseUrl, clock }: { baseUrl: string; clock: Clock },
  signal: AbortSignal,
): Promise<DayEnsemble[]> {
  const query = new URLSearchParams({
    ...stationQuery,
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
  const matched = matchStations(url, locations);
  const fetchedAt = new Date(clock.now());
  // Asked last: if a new run arrives in between, the data are taken for newer than they are, never for older.
  const modelRunAt = await readRunTime(baseUrl, fetchedAt, signal);
  return matched.flatMap(([station, location]) =>
    toDays(url, station, location, fetchedAt).map((day) => ({ ...day, modelRunAt, fetchedAt })),
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

/** The days of which every member has every hour. */
function toDays(
  url: string,
  station: Station,
  { hourly }: z.output<typeof locationSchema>,
  at: Date,
): Pick<DayEnsemble, 'kind' | 'stationId' | 'date' | 'membersF'>[] {
  const { time, ...columns } = hourly as { time: number[] } & Record<string, (number | null)[]>;
  const members = Object.entries(columns)
    .filter(([name]) => /^temperature_2m(_member\d+)?$/.test(name))
    .map(([, values]) => values);
  if (members.length < MIN_SERIES)
    throw new UnexpectedAnswerError(url, `${members.length} members instead of 31`);
  if (members.some((values) => values.length !== time.length))
    throw new UnexpectedAnswerError(url, 'the members do not have a value for each hour');
  return [-1, 0, 1].flatMap((offset) => {
    const { date, start } = climateDayAt(station, new Date(at.getTime() + offset * DAY_MS));
    const membersF = members.map((values) => dayMaximum(time, values, start));
    return membersF.includes(null)
      ? []
      : [{ kind: 'daily_maximum' as const, stationId: station.id, date, membersF: membersF as number[] }];
  });
}
