import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { daysBetween, type ClimateDay } from '../market/climate-day.js';
import { targetOf } from '../market/market.js';
import { isStation } from '../market/stations.js';
import { firstRunAt, firstSeenAt, newestRunAt, runsOf } from '../venue/simulation/ensemble.js';
import { gather } from '../venue/simulation/random.js';
import type { SimulatedWeather, SimulatedWorld } from '../venue/simulation/weather.js';
import {
  type KnownHour,
  EARLIER_MS,
  hourlyTemperatures,
  type DayEnsemble,
  type ObservedExtreme,
  type WeatherData,
  type WeatherHistory,
  type WeatherSource,
} from './weather.js';
import {
  everything,
  stationDaysBetween,
  subjectsAround,
  subjectsOn,
  type Selection,
  type StationDay,
  type SimulatedSubject,
} from '../venue/simulation/world.js';

const SINGLE = 'single';

/** Stations report at 51 minutes past the hour; reports arrive a few minutes later. */
const REPORT_MINUTE_MS = 51 * MINUTE_MS;
const REPORT_TAKES_MS = 4 * MINUTE_MS;
/** Time until the index value of a minute is available. */
const INDEX_TAKES_MS = 5 * MINUTE_MS;

/** The simulated world's markets settle on the same weather. All data depends only on the seed and the clock. */
export function createSimulatedWeatherSource(
  world: SimulatedWorld,
  selection: Selection = everything,
): WeatherSource & { history: WeatherHistory & Required<Pick<WeatherHistory, 'readHours'>> } {
  const now = () => new Date(world.clock.now());
  return {
    name: 'simulated',
    furtherModels: [SINGLE],
    freshMs: MINUTE_MS,
    read: async () => {
      const at = now();
      const read = (subject: SimulatedSubject) => [readWeatherOf(world, [subject], at)];
      const parts = await gather(subjectsAround(at, selection), read);
      return {
        fetchedAt: at,
        ensembles: parts.flatMap(({ ensembles }) => ensembles),
        observed: parts.flatMap(({ observed }) => observed),
      };
    },
    history: {
      async readRuns({ from, to }, signal) {
        const list = (subject: SimulatedSubject) => listRuns(world, subject, now());
        const runs: DayEnsemble[] = [];
        for (const date of daysBetween(from, to))
          runs.push(...(await gather(subjectsOn(date, selection), list, signal)));
        return runs;
      },
      readHours(range, signal) {
        const stationDays = stationDaysBetween(range, selection.stations);
        return gather(stationDays, (stationDay) => listHours(world, stationDay, now()), signal);
      },
    },
  };
}

function listHours(
  { weather }: Pick<SimulatedWorld, 'weather'>,
  { station, day: { date, start } }: StationDay,
  now: Date,
): KnownHour[] {
  return Array.from({ length: 23 }, (_, i): KnownHour => {
    const observedAt = new Date(start.getTime() + i * HOUR_MS + REPORT_MINUTE_MS);
    return {
      stationId: station.id,
      date,
      hour: i + 1,
      temperatureF: weather.temperature(station, observedAt),
      highestF: weather.running('daily_maximum', station, date, observedAt),
      lowestF: weather.running('daily_minimum', station, date, observedAt),
      observedAt,
      fetchedAt: new Date(observedAt.getTime() + REPORT_TAKES_MS),
    };
  }).filter(({ fetchedAt }) => fetchedAt <= now);
}

export function readWeatherOf(
  { weather }: Pick<SimulatedWorld, 'weather'>,
  subjects: readonly SimulatedSubject[],
  at: Date,
): WeatherData {
  const ensembles: DayEnsemble[] = [];
  const observed: ObservedExtreme[] = [];
  for (const subject of subjects) {
    const newest = newestRunAt(subject.span, at);
    ensembles.push(...runsAt(weather, subject, newest, at));
    const modelRunAt = new Date(newest.getTime() - EARLIER_MS);
    const known = { ...targetOf(subject), fetchedAt: at };
    if (modelRunAt >= firstRunAt(subject.span))
      ensembles.push({ ...known, modelRunAt, membersF: weather.members(subject, modelRunAt) });
    const seen = observe(weather, subject, at);
    if (seen) observed.push({ ...known, ...seen });
  }
  return { fetchedAt: at, ensembles, observed };
}

/** Returns the extreme so far from the last available report; for an hour, its temperature once available. */
function observe(weather: SimulatedWeather, subject: SimulatedSubject, at: Date) {
  const { kind, station, date, span } = subject;
  if (kind === 'hourly')
    return at.getTime() - span.end.getTime() < INDEX_TAKES_MS
      ? undefined
      : { extremeF: weather.value(subject), observedAt: span.end };
  const observedAt = lastReportAt(span, at);
  const extremeF = weather.running(kind, station, date, observedAt);
  if (extremeF === null) return undefined;
  return { extremeF, observedAt, hoursF: reportedHours(weather, subject, observedAt) };
}

function reportedHours(
  weather: SimulatedWeather,
  subject: SimulatedSubject,
  latest: Date,
): (number | null)[] {
  const {
    station,
    span: { start },
  } = subject;
  const reports: { at: Date; temperatureF: number }[] = [];
  for (let ms = start.getTime() + REPORT_MINUTE_MS; ms <= latest.getTime(); ms += HOUR_MS) {
    const at = new Date(ms);
    reports.push({ at, temperatureF: weather.temperature(station, at) });
  }
  return hourlyTemperatures(start, reports);
}

function listRuns({ weather }: SimulatedWorld, subject: SimulatedSubject, now: Date): DayEnsemble[] {
  const { span } = subject;
  return runsOf(span).flatMap((modelRunAt) => {
    const fetchedAt = firstSeenAt(span, modelRunAt);
    return fetchedAt > now ? [] : runsAt(weather, subject, modelRunAt, fetchedAt);
  });
}

function runsAt(weather: SimulatedWeather, subject: SimulatedSubject, modelRunAt: Date, fetchedAt: Date) {
  const { station, date, span } = subject;
  const known = { ...targetOf(subject), modelRunAt, fetchedAt };
  const membersF = weather.members(subject, modelRunAt);
  const curve = isStation(station) && {
    curveF: weather.curve({ station, day: { date, ...span } }, modelRunAt),
  };
  return [
    { ...known, membersF, ...curve },
    { ...known, model: SINGLE, membersF: [weather.single(subject, modelRunAt)] },
  ];
}

function lastReportAt({ end }: Pick<ClimateDay, 'end'>, at: Date): Date {
  const hour = Math.floor((at.getTime() - REPORT_TAKES_MS - REPORT_MINUTE_MS) / HOUR_MS) * HOUR_MS;
  return new Date(Math.min(hour + REPORT_MINUTE_MS, end.getTime() - HOUR_MS + REPORT_MINUTE_MS));
}
