import { sureDegree, type MaximumDistribution } from '../forecast/distribution.js';
import type { Station } from '../settlement/stations.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';

const HOUR_MS = 60 * 60 * 1000;

/**
 * What those who trade in the invented world believe about a day's maximum. The crowd knows the outcome with an error
 * that shrinks as the day's peak comes near, and it sees the running maximum.
 */
export function believe(
  seed: string,
  weather: SimulatedWeather,
  station: Station,
  date: string,
  at: Date,
): MaximumDistribution {
  const hoursToPeak = (weather.peak(station, date).getTime() - at.getTime()) / HOUR_MS;
  const deviation = hoursToPeak > 0 ? 0.5 + 0.13 * hoursToPeak ** 0.75 : 0.3;
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, station.id, date, 'crowd');
  const soFar = weather.runningMaximum(station, date, at);
  return {
    mean: weather.maximum(station, date) + 0.8 * deviation * error,
    deviation,
    atLeast: soFar === null ? null : sureDegree(soFar),
  };
}
