import { sureDegree, type TemperatureDistribution } from '../forecast/distribution.js';
import { climateDayOf } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import { gridBiasF, newestRunAt, sharedErrorF } from './ensemble.js';
import { smoothNoise } from './random.js';
import type { SimulatedWeather } from './weather.js';

const HOUR_MS = 60 * 60 * 1000;

/** How those who trade on a station's temperature go about it. */
interface Temperament {
  /** The share of the grid point's bias that they know of. 1: they read the ensemble as it should be read. */
  corrected: number;
  /** What they take their uncertainty to be, as a multiple of what it is. */
  width: number;
  /** How little they know besides the ensemble, see `insightF`. */
  blindness: number;
}

/**
 * Every city has its own crowd. Where many trade, prices are as good as any forecast can be; elsewhere they follow a grid
 * point that is not the station, or are surer than they may be. That is what a calibrated forecast can find.
 */
const temperaments: Readonly<Record<string, Temperament>> = {
  KNYC: { corrected: 1, width: 1, blindness: 1.5 },
  KMDW: { corrected: 1, width: 1.1, blindness: 2 },
  KMIA: { corrected: 0, width: 0.9, blindness: 4 },
  KAUS: { corrected: 1, width: 1, blindness: 1.5 },
  KDEN: { corrected: 0.1, width: 0.85, blindness: 3 },
  KLAX: { corrected: 0.5, width: 1, blindness: 4 },
  KPHL: { corrected: 0, width: 0.85, blindness: 2 },
};
const usual: Temperament = { corrected: 1, width: 1, blindness: 2 };

/**
 * What those who trade in the invented world believe about a day's maximum. They read the same ensemble as everybody,
 * weigh it against what they see of the day themselves, which is more the nearer the day's peak is, and read the
 * thermometer.
 */
export function believe(
  seed: string,
  weather: SimulatedWeather,
  station: Station,
  date: string,
  at: Date,
): TemperatureDistribution {
  const { corrected, width, blindness } = temperaments[station.id] ?? usual;
  const peakMs = weather.peak(station, date).getTime();
  const runAt = newestRunAt(climateDayOf(station, date), at);
  const read = {
    mean: meanOf(weather.members(station, date, runAt)) - corrected * (gridBiasF[station.id] ?? 0),
    deviation: sharedErrorF((peakMs - runAt.getTime()) / HOUR_MS),
  };
  const seenDeviation = insightF((peakMs - at.getTime()) / HOUR_MS, blindness);
  const error = smoothNoise(at.getTime() / (3 * HOUR_MS), seed, station.id, date, 'crowd');
  const seen = { mean: weather.maximum(station, date) + seenDeviation * error, deviation: seenDeviation };
  const believed = weigh(read, seen);
  const soFar = weather.runningMaximum(station, date, at);
  return {
    mean: believed.mean,
    deviation: width * believed.deviation,
    atLeast: soFar === null ? null : sureDegree(soFar),
  };
}

/** °F: the error of what can be seen of a day's maximum. A day ahead that is nothing; after the peak only tenths are open. */
const insightF = (hoursToPeak: number, blindness: number): number =>
  hoursToPeak > 0
    ? 0.3 + blindness * Math.expm1(hoursToPeak / 8)
    : Math.max(0.05, 0.3 * Math.exp(hoursToPeak / 6));

interface Estimate {
  mean: number;
  deviation: number;
}

/** Two independent estimates as one, each with the weight of its precision. */
function weigh(a: Estimate, b: Estimate): Estimate {
  const [ofA, ofB] = [1 / a.deviation ** 2, 1 / b.deviation ** 2];
  return { mean: (a.mean * ofA + b.mean * ofB) / (ofA + ofB), deviation: 1 / Math.sqrt(ofA + ofB) };
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
