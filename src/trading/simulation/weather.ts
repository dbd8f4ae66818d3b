import { climateDayOf } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import { gaussian, smoothNoise } from './random.js';

/** Mean daily maximum in °F over the year, and how far summer and winter are from it. */
const climate: Record<string, { mean: number; swing: number; spread: number }> = {
  KNYC: { mean: 63, swing: 22, spread: 7 },
  KMDW: { mean: 60, swing: 26, spread: 9 },
  KMIA: { mean: 84, swing: 7, spread: 3 },
  KAUS: { mean: 81, swing: 17, spread: 7 },
  KDEN: { mean: 65, swing: 23, spread: 10 },
  KLAX: { mean: 72, swing: 6, spread: 5 },
  KPHL: { mean: 65, swing: 22, spread: 7 },
};

const DAY_MS = 24 * 60 * 60 * 1000;
const HOUR_MS = 60 * 60 * 1000;

/** What the weather of an invented world does. Everything follows from its seed. */
export interface SimulatedWeather {
  /** The day's maximum in °F before it is rounded to whole degrees. */
  maximum(station: Station, date: string): number;
  /** The same as the report has it. */
  report(station: Station, date: string): number;
  /** The highest temperature of the climate day so far in °F, or null before it has begun. */
  runningMaximum(station: Station, date: string, at: Date): number | null;
  /** When the day's maximum is reached. */
  peak(station: Station, date: string): Date;
  /** The usual maximum of that time of the year, in °F. */
  normal(station: Station, date: string): number;
}

export function simulateWeather(seed: string): SimulatedWeather {
  const normal = ({ id }: Station, date: string): number => {
    const { mean, swing } = climate[id] ?? { mean: 65, swing: 20 };
    const dayOfYear = (Date.parse(`${date}T00:00:00Z`) - Date.UTC(Number(date.slice(0, 4)), 0, 1)) / DAY_MS;
    // Warmest at the end of July.
    return mean - swing * Math.cos(((dayOfYear - 22) / 365.25) * 2 * Math.PI);
  };
  const maximum = (station: Station, date: string): number => {
    const { spread } = climate[station.id] ?? { spread: 7 };
    // Warm and cold spells last some days.
    const spell = smoothNoise(Date.parse(`${date}T00:00:00Z`) / (4 * DAY_MS), seed, station.id, 'spell');
    const day = gaussian(seed, station.id, date, 'day');
    return normal(station, date) + spread * (0.8 * spell + 0.6 * day);
  };
  return {
    normal,
    maximum,
    peak: (station, date) =>
      new Date(climateDayOf(station, date).start.getTime() + peakHour(seed, station, date) * HOUR_MS),
    report: (station, date) => Math.round(maximum(station, date)),
    runningMaximum(station, date, at) {
      const { start, end } = climateDayOf(station, date);
      if (at < start) return null;
      const until = Math.min(at.getTime(), end.getTime() - 1);
      const peak = peakHour(seed, station, date);
      const hours = Math.min((until - start.getTime()) / HOUR_MS, peak);
      const highest = maximum(station, date);
      // It begins as warm as the night is and rises to its maximum; after the peak the maximum stands.
      const range = 14 + 4 * gaussian(seed, station.id, date, 'range') ** 2;
      const sinceMorning = Math.max(0, hours - MORNING_HOUR) / (peak - MORNING_HOUR);
      return highest - range * (1 - Math.max(NIGHT, Math.sin((sinceMorning * Math.PI) / 2)));
    },
  };
}

const MORNING_HOUR = 5.5;
/** How far up the day's range the first hours are: the evening before was warm. */
const NIGHT = 0.18;

/** Hour of the climate day with the highest temperature, around 15:00. */
const peakHour = (seed: string, station: Station, date: string): number =>
  15 + Math.max(-2, Math.min(2, 0.8 * gaussian(seed, station.id, date, 'peak')));
