import { z } from 'zod';
import { UnexpectedAnswerError } from '../markets/kalshi-client.js';
import { stations, type Station } from '../settlement/stations.js';

const HOUR_MS = 60 * 60 * 1000;
/** The grids' points are at most a quarter of a degree apart. */
const NEAR_DEGREES = 0.5;

/** One hourly series, °F; null where the service has nothing. */
export const hourlyF = z.array(z.number().min(-100).max(150).nullable());

export const placeFields = { latitude: z.number(), longitude: z.number(), utc_offset_seconds: z.literal(0) };

/** All stations in one question, hours in UTC, temperatures in °F. */
export const stationQuery = {
  latitude: stations.map(({ latitude }) => latitude).join(','),
  longitude: stations.map(({ longitude }) => longitude).join(','),
  temperature_unit: 'fahrenheit',
  timezone: 'GMT',
  timeformat: 'unixtime',
} as const;

/** Each station with its answer: they come in the order of the question. */
export function matchStations<T extends { latitude: number; longitude: number }>(
  url: string,
  places: readonly T[],
): [Station, T][] {
  if (places.length !== stations.length)
    throw new UnexpectedAnswerError(url, `${places.length} places instead of ${stations.length}`);
  return stations.map((station, i) => {
    const { latitude, longitude } = places[i]!;
    const distance = Math.max(Math.abs(latitude - station.latitude), Math.abs(longitude - station.longitude));
    if (distance > NEAR_DEGREES)
      throw new UnexpectedAnswerError(url, `${latitude}, ${longitude} is not where ${station.id} is`);
    return [station, places[i]!];
  });
}

/**
 * The highest of a series over the 24 hours of a climate day; null if one of them is missing: the day's peak might have
 * been in it.
 * @param time of each value, seconds since 1970
 */
export function dayMaximum(
  time: readonly number[],
  values: readonly (number | null)[],
  dayStart: Date,
): number | null {
  const first = time.indexOf(dayStart.getTime() / 1000);
  let highest = -Infinity;
  for (let hour = 0; hour < 24; hour++) {
    const isThere = first >= 0 && time[first + hour] === (dayStart.getTime() + hour * HOUR_MS) / 1000;
    const value = isThere ? (values[first + hour] ?? null) : null;
    if (value === null) return null;
    highest = Math.max(highest, value);
  }
  return highest;
}
