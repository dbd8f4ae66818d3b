import type { Clock } from '../../clock.js';
import { climateDayAt } from '../settlement/climate-day.js';
import { stations, type Station } from '../settlement/stations.js';
import { gaussian, smoothNoise } from '../simulation/random.js';
import type { SimulatedWeather } from '../simulation/weather.js';
import type { DayEnsemble, ObservedMaximum, WeatherSource } from './forecast.js';

const HOUR_MS = 60 * 60 * 1000;
const DAY_MS = 24 * HOUR_MS;
const RUN_MS = 6 * HOUR_MS;
/** A run is there some hours after it was started. */
const RUN_TAKES_MS = 4 * HOUR_MS;
const MEMBERS = 31;
/** °F. Less than the error that the members share: the ensemble is surer than it may be, as real ones are. */
const MEMBER_SPREAD_F = 1.5;
/** °F. The grid point is not the station: what the members are too warm by, on every day. */
const stationBiasF: Record<string, number> = {
  KNYC: 0.4,
  KMDW: 1.2,
  KMIA: -2.1,
  KAUS: 0.8,
  KDEN: -1.5,
  KLAX: 3.5,
  KPHL: -0.6,
};
/** Stations report at 9 minutes to the hour, and a report is there some minutes later. */
const REPORT_MINUTE_MS = 51 * 60 * 1000;
const REPORT_TAKES_MS = 4 * 60 * 1000;

export interface SimulatedWeatherOptions {
  clock: Clock;
  seed: string;
  weather: SimulatedWeather;
}

/** Forecasts and observations of the invented world, which its markets settle on. They follow from the seed and the clock. */
export function createSimulatedWeatherSource({
  clock,
  seed,
  weather,
}: SimulatedWeatherOptions): WeatherSource {
  /** The members of the last run that was asked for: they are the same until the next one. */
  let run = { at: 0, members: new Map<string, readonly number[]>() };

  function membersOf(station: Station, date: string, runMs: number): readonly number[] {
    if (run.at !== runMs) run = { at: runMs, members: new Map() };
    const key = `${station.id} ${date}`;
    const found = run.members.get(key) ?? makeMembers({ seed, weather, station, date, runMs });
    run.members.set(key, found);
    return found;
  }

  return {
    name: 'simulated',
    freshMs: 60 * 1000,
    read: async () => {
      const at = new Date(clock.now());
      const runMs = Math.floor((at.getTime() - RUN_TAKES_MS) / RUN_MS) * RUN_MS;
      const reportMs =
        Math.floor((at.getTime() - REPORT_TAKES_MS - REPORT_MINUTE_MS) / HOUR_MS) * HOUR_MS +
        REPORT_MINUTE_MS;
      const ensembles: DayEnsemble[] = [];
      const observed: ObservedMaximum[] = [];
      for (const station of stations)
        for (const offset of [-1, 0, 1]) {
          const { date, start, end } = climateDayAt(station, new Date(at.getTime() + offset * DAY_MS));
          const membersF = membersOf(station, date, runMs);
          ensembles.push({
            stationId: station.id,
            date,
            modelRunAt: new Date(runMs),
            fetchedAt: at,
            membersF,
          });
          const observedAt = new Date(Math.min(reportMs, end.getTime() - HOUR_MS + REPORT_MINUTE_MS));
          if (observedAt < start) continue;
          const maximumF = weather.runningMaximum(station, date, observedAt);
          if (maximumF !== null)
            observed.push({ stationId: station.id, date, maximumF, observedAt, fetchedAt: at });
        }
      return { fetchedAt: at, ensembles, observed };
    },
  };
}

interface Run {
  seed: string;
  weather: SimulatedWeather;
  station: Station;
  date: string;
  runMs: number;
}

/** The truth, the station's bias, an error that all members share and that drifts from run to run, and their own. */
function makeMembers({ seed, weather, station, date, runMs }: Run): number[] {
  const leadHours = Math.max(0, (weather.peak(station, date).getTime() - runMs) / HOUR_MS);
  const shared = (1.2 + 0.04 * leadHours) * smoothNoise(runMs / DAY_MS, seed, station.id, date, 'error');
  const centre = weather.maximum(station, date) + (stationBiasF[station.id] ?? 0) + shared;
  return Array.from(
    { length: MEMBERS },
    (_, i) => centre + MEMBER_SPREAD_F * gaussian(seed, station.id, date, runMs, i),
  );
}
