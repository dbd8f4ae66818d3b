import { normalCdf } from '../forecast/normal.js';
import { bracketRange, type Bracket } from '../settlement/brackets.js';
import type { Station } from '../settlement/stations.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';

const HOUR_MS = 60 * 60 * 1000;

/** What those who trade believe about a day's maximum at some time. */
export interface Belief {
  mean: number;
  deviation: number;
  /** The report cannot be below this whole degree any more; null before the day has begun. */
  atLeast: number | null;
}

/**
 * The crowd of the invented world: it knows the outcome with an error that shrinks as the day's peak comes near, and it
 * sees the running maximum.
 */
export function believe(
  seed: string,
  weather: SimulatedWeather,
  station: Station,
  date: string,
  at: Date,
): Belief {
  const hoursToPeak = (weather.peak(station, date).getTime() - at.getTime()) / HOUR_MS;
  const deviation = hoursToPeak > 0 ? 0.5 + 0.13 * hoursToPeak ** 0.75 : 0.3;
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, station.id, date, 'crowd');
  const soFar = weather.runningMaximum(station, date, at);
  return {
    mean: weather.maximum(station, date) + 0.8 * deviation * error,
    deviation,
    atLeast: soFar === null ? null : Math.round(soFar),
  };
}

/** The probability of a bracket, in whole degrees and given what has been reached already. */
export function probabilityOf({ mean, deviation, atLeast }: Belief, bracket: Bracket): number {
  const below = (degrees: number) => normalCdf((degrees - mean) / deviation);
  const { lowest, highest } = bracketRange(bracket);
  const floor = atLeast === null ? -Infinity : atLeast - 0.5;
  const from = Math.max(lowest === null ? -Infinity : lowest - 0.5, floor);
  const to = highest === null ? Infinity : highest + 0.5;
  if (to <= from) return 0;
  const possible = 1 - (floor === -Infinity ? 0 : below(floor));
  // What has been reached is beyond anything the crowd thought possible: the lowest bracket that is left has it.
  if (possible < 1e-9) return from === floor ? 1 : 0;
  return Math.max(
    0,
    Math.min(1, ((to === Infinity ? 1 : below(to)) - (from === -Infinity ? 0 : below(from))) / possible),
  );
}
