import type { ClimateDay } from '../settlement/climate-day.js';
import { firstSeenAt, newestRunAt, runsOf } from '../simulation/ensemble.js';
import {
  stationDaysAround,
  stationDaysBetween,
  type SimulatedWorld,
  type StationDay,
} from '../simulation/world.js';
import type { DayEnsemble, ObservedExtreme, WeatherData, WeatherHistory, WeatherSource } from './forecast.js';

const HOUR_MS = 60 * 60 * 1000;
/** Stations report at 9 minutes to the hour, and a report is there some minutes later. */
const REPORT_MINUTE_MS = 51 * 60 * 1000;
const REPORT_TAKES_MS = 4 * 60 * 1000;

/** Forecasts and observations of the invented world, which its markets settle on. They follow from the seed and the clock. */
export function createSimulatedWeatherSource(
  world: SimulatedWorld,
): WeatherSource & { history: WeatherHistory } {
  const now = () => new Date(world.clock.now());
  return {
    name: 'simulated',
    freshMs: 60 * 1000,
    read: async () => {
      const at = now();
      return readWeather(world, stationDaysAround(at), at);
    },
    history: {
      readRuns: async (range) => stationDaysBetween(range).flatMap((day) => listRuns(world, day, now())),
    },
  };
}

type Seeded = Pick<SimulatedWorld, 'weather'>;

/** What was known of some days at any time: the newest run of each, and the highest temperature so far. */
export function readWeather({ weather }: Seeded, days: readonly StationDay[], at: Date): WeatherData {
  const ensembles: DayEnsemble[] = [];
  const observed: ObservedExtreme[] = [];
  for (const { station, day } of days) {
    const { date } = day;
    const modelRunAt = newestRunAt(day, at);
    const membersF = weather.members(station, date, modelRunAt);
    ensembles.push({
      kind: 'daily_maximum',
      stationId: station.id,
      date,
      modelRunAt,
      fetchedAt: at,
      membersF,
    });
    const observedAt = lastReportAt(day, at);
    const extremeF = weather.runningMaximum(station, date, observedAt);
    if (extremeF !== null)
      observed.push({
        kind: 'daily_maximum',
        stationId: station.id,
        date,
        extremeF,
        observedAt,
        fetchedAt: at,
      });
  }
  return { fetchedAt: at, ensembles, observed };
}

/** Each run that has been there for a day, as it was when it came. */
function listRuns({ weather }: Seeded, { station, day }: StationDay, now: Date): DayEnsemble[] {
  const { date } = day;
  return runsOf(day).flatMap((modelRunAt) => {
    const fetchedAt = firstSeenAt(day, modelRunAt);
    if (fetchedAt > now) return [];
    const membersF = weather.members(station, date, modelRunAt);
    return [{ kind: 'daily_maximum', stationId: station.id, date, modelRunAt, fetchedAt, membersF }];
  });
}

/** The time of the day's last report that is there. */
function lastReportAt({ end }: ClimateDay, at: Date): Date {
  const hour = Math.floor((at.getTime() - REPORT_TAKES_MS - REPORT_MINUTE_MS) / HOUR_MS) * HOUR_MS;
  return new Date(Math.min(hour + REPORT_MINUTE_MS, end.getTime() - HOUR_MS + REPORT_MINUTE_MS));
}
