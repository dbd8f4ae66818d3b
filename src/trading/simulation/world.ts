import type { Clock } from '../../clock.js';
import { climateDayAt, climateDayOf, type ClimateDay } from '../settlement/climate-day.js';
import { stations, type Station } from '../settlement/stations.js';
import type { SimulatedWeather } from './weather.js';

const DAY_MS = 24 * 60 * 60 * 1000;

/** What the sources of an invented world are made of. With the same seed and clock everybody sees the same. */
export interface SimulatedWorld {
  clock: Clock;
  seed: string;
  /** Of the same seed. */
  weather: SimulatedWeather;
}

export interface StationDay {
  station: Station;
  day: ClimateDay;
}

/** The climate days of all stations between two dates, both included. */
export function stationDaysBetween({ from, to }: { from: string; to: string }): StationDay[] {
  const days: StationDay[] = [];
  for (let ms = Date.parse(`${from}T00:00:00Z`); ms <= Date.parse(`${to}T00:00:00Z`); ms += DAY_MS) {
    const date = new Date(ms).toISOString().slice(0, 10);
    for (const station of stations) days.push({ station, day: climateDayOf(station, date) });
  }
  return days;
}

/** Yesterday, today and tomorrow at each station. */
export function stationDaysAround(at: Date): StationDay[] {
  return stations.flatMap((station) =>
    [-1, 0, 1].map((offset) => ({
      station,
      day: climateDayAt(station, new Date(at.getTime() + offset * DAY_MS)),
    })),
  );
}
