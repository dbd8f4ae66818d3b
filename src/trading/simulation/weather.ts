import { climateDayOf } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import { simulateEnsembles, type Ensembles } from './ensemble.js';
import { gaussian, smoothNoise } from './random.js';
import { createRecall } from './recall.js';

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

const usual = { mean: 65, swing: 20, spread: 7 };
/** Days are asked for again with every refresh. */
const MAX_KEPT = 500;

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
  /** What forecasts of the day say. */
  members: Ensembles;
}

/** A day as it will be. */
interface Day {
  /** °F. */
  maximum: number;
  peakHour: number;
  /** How far the night is below the maximum, °F. */
  range: number;
}

export function simulateWeather(seed: string): SimulatedWeather {
  const recall = createRecall<Day>(MAX_KEPT);
  const dayOf = (station: Station, date: string): Day =>
    recall(`${station.id} ${date}`, () => makeDay(seed, station, date));
  const maximum = (station: Station, date: string): number => dayOf(station, date).maximum;
  const peak = (station: Station, date: string): Date =>
    new Date(climateDayOf(station, date).start.getTime() + dayOf(station, date).peakHour * HOUR_MS);
  return {
    maximum,
    peak,
    members: simulateEnsembles(seed, { maximum, peak }),
    report: (station, date) => Math.round(maximum(station, date)),
    runningMaximum(station, date, at) {
      const { start, end } = climateDayOf(station, date);
      if (at < start) return null;
      const until = Math.min(at.getTime(), end.getTime() - 1);
      const { maximum, peakHour, range } = dayOf(station, date);
      const hours = Math.min((until - start.getTime()) / HOUR_MS, peakHour);
      // It begins as warm as the night is and rises to its maximum; after the peak the maximum stands.
      const sinceMorning = Math.max(0, hours - MORNING_HOUR) / (peakHour - MORNING_HOUR);
      return maximum - range * (1 - Math.max(NIGHT, Math.sin((sinceMorning * Math.PI) / 2)));
    },
  };
}

function makeDay(seed: string, { id }: Station, date: string): Day {
  const { spread } = climate[id] ?? usual;
  // Warm and cold spells last some days.
  const spell = smoothNoise(Date.parse(`${date}T00:00:00Z`) / (4 * DAY_MS), seed, id, 'spell');
  const day = gaussian(seed, id, date, 'day');
  return {
    maximum: normalMaximum(id, date) + spread * (0.8 * spell + 0.6 * day),
    // Around 15:00.
    peakHour: 15 + Math.max(-2, Math.min(2, 0.8 * gaussian(seed, id, date, 'peak'))),
    range: 14 + 4 * gaussian(seed, id, date, 'range') ** 2,
  };
}

/** The usual maximum of that time of the year, in °F. */
function normalMaximum(stationId: string, date: string): number {
  const { mean, swing } = climate[stationId] ?? usual;
  const dayOfYear = (Date.parse(`${date}T00:00:00Z`) - Date.UTC(Number(date.slice(0, 4)), 0, 1)) / DAY_MS;
  // Warmest at the end of July.
  return mean - swing * Math.cos(((dayOfYear - 22) / 365.25) * 2 * Math.PI);
}

const MORNING_HOUR = 5.5;
/** How far up the day's range the first hours are: the evening before was warm. */
const NIGHT = 0.18;
