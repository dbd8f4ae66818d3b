import { z } from 'zod';
import { HOUR_MS } from '../../core/time.js';
import { climateDayOf, hourOf } from '../market/climate-day.js';
import type { Target } from '../market/market.js';
import { isStation, places } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { placeOf } from './read-json.js';
import { isPossible } from './weather.js';
import type { Place } from '../market/place.js';

/** Maximum distance of a place from its grid point. Grid points are at most a quarter of a degree apart. */
const NEAR_DEGREES = 0.5;

/** One hourly series in °F; null for an hour without a possible value. */
export const hourlyF = z
  .array(z.unknown())
  .transform((values) =>
    values.map((value) => (typeof value === 'number' && isPossible(value) ? value : null)),
  );

export const placeFields = { latitude: z.number(), longitude: z.number(), utc_offset_seconds: z.literal(0) };

/**
 * Query for all stations and areas together, with hours in UTC and temperatures in °F.
 *
 * A request counts as several of the free 600 a minute, 5,000 an hour and 10,000 a day: one per place, times a tenth of
 * the number of series per place (each member is a series) if above ten, times the number of weeks if above one.
 * Requests per station would count the same and take 28 times as long.
 */
export const placeQuery = {
  latitude: places.map(({ latitude }) => latitude).join(','),
  longitude: places.map(({ longitude }) => longitude).join(','),
  temperature_unit: 'fahrenheit',
  timezone: 'GMT',
  timeformat: 'unixtime',
} as const;

/**
 * Pairs each place with its part of the response, which has the order of the request.
 * @returns also what is wrong with the places that are left out
 * @throws UnexpectedAnswerError if most places cannot be read, because then the order or the format has changed
 */
export function matchPlaces<T extends { latitude: number; longitude: number }>(
  url: string,
  answers: readonly unknown[],
  schema: z.ZodType<T>,
): { matched: [Place, T][]; problems: string[] } {
  if (answers.length !== places.length)
    throw new UnexpectedAnswerError(url, `${answers.length} places instead of ${places.length}`);
  const problems: string[] = [];
  const matched = places.flatMap((place, i): [Place, T][] => {
    const { data, error } = schema.safeParse(answers[i]);
    const away = data
      ? Math.max(Math.abs(data.latitude - place.latitude), Math.abs(data.longitude - place.longitude))
      : 0;
    if (data && away <= NEAR_DEGREES) return [[place, data]];
    const what = data
      ? `${data.latitude}, ${data.longitude} is not where ${place.id} is`
      : `${placeOf(error!.issues[0]!.path)}: ${error!.issues[0]!.message}`;
    problems.push(`${place.id}: ${what}`);
    return [];
  });
  if (problems.length > places.length / 2) throw new UnexpectedAnswerError(url, problems[0]!);
  return { matched, problems };
}

export const targetsOn = (place: Place, date: string): Target[] =>
  isStation(place)
    ? [
        { kind: 'daily_maximum', stationId: place.id, date },
        { kind: 'daily_minimum', stationId: place.id, date },
      ]
    : Array.from({ length: 24 }, (_, hour) => ({ kind: 'hourly', stationId: place.id, date, hour }));

/**
 * Reads a target from hourly series; null if a value is missing, because it might have been the day's peak.
 * @param time of each value, seconds since 1970, an hour apart
 */
export function targetReader(place: Place, { kind, date, hour }: Target, time: readonly number[]) {
  const isHour = kind === 'hourly';
  const start = (isHour ? hourOf(place, date, hour!) : climateDayOf(place, date).start).getTime() / 1000;
  const first = time.indexOf(start);
  const end = first + (isHour ? 1 : 24);
  const isThere = first >= 0 && time[end - 1] === start + ((end - 1 - first) * HOUR_MS) / 1000;
  return (values: readonly (number | null)[]) => {
    if (!isThere) return null;
    const wanted = values.slice(first, end);
    if (wanted.includes(null)) return null;
    return kind === 'daily_minimum' ? Math.min(...(wanted as number[])) : Math.max(...(wanted as number[]));
  };
}
