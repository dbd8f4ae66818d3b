import { daysBetween } from '../market/calendar.js';
import type { ClimateDay } from '../market/climate-day.js';
import { firstSeenAt, newestRunAt, runsOf } from '../venue/simulation/ensemble.js';
import { createPace } from '../venue/simulation/pace.js';
import {
  everything,
  subjectsAround,
  subjectsOf,
  subjectsOn,
  targetOfSubject,
  type Selection,
  type SimulatedWorld,
  type StationDay,
  type Subject,
} from '../venue/simulation/world.js';
import type { DayEnsemble, ObservedExtreme, WeatherData, WeatherHistory, WeatherSource } from './forecast.js';

const MINUTE_MS = 60 * 1000;
const HOUR_MS = 60 * MINUTE_MS;
/** Stations report at 9 minutes to the hour, and a report is there some minutes later. */
const REPORT_MINUTE_MS = 51 * MINUTE_MS;
const REPORT_TAKES_MS = 4 * MINUTE_MS;
/** What the index says of a moment is there some minutes later. */
const INDEX_TAKES_MS = 5 * MINUTE_MS;

/** Forecasts and observations of the invented world, which its markets settle on. They follow from the seed and the clock. */
export function createSimulatedWeatherSource(
  world: SimulatedWorld,
  selection: Selection = everything,
): WeatherSource & { history: WeatherHistory } {
  const now = () => new Date(world.clock.now());
  return {
    name: 'simulated',
    freshMs: 60 * 1000,
    read: async () => {
      const at = now();
      return readWeatherOf(world, subjectsAround(at, selection), at);
    },
    history: {
      async readRuns({ from, to }, signal) {
        const pace = createPace();
        const runs: DayEnsemble[] = [];
        for (const date of daysBetween(from, to)) {
          signal.throwIfAborted();
          for (const subject of subjectsOn(date, selection)) {
            runs.push(...listRuns(world, subject, now()));
            await pace();
          }
        }
        return runs;
      },
    },
  };
}

type Seeded = Pick<SimulatedWorld, 'weather'>;

/** What was known of some days, their maxima and minima, at any time. */
export const readWeather = (world: Seeded, days: readonly StationDay[], at: Date): WeatherData =>
  readWeatherOf(world, subjectsOf(days), at);

/** What was known of any subjects at any time: the newest run of each, and what has been measured of it so far. */
export function readWeatherOf({ weather }: Seeded, subjects: readonly Subject[], at: Date): WeatherData {
  const ensembles: DayEnsemble[] = [];
  const observed: ObservedExtreme[] = [];
  for (const subject of subjects) {
    const target = targetOfSubject(subject);
    const modelRunAt = newestRunAt(subject.span, at);
    ensembles.push({ ...target, modelRunAt, fetchedAt: at, membersF: weather.members(subject, modelRunAt) });
    const seen = observe({ weather }, subject, at);
    if (seen) observed.push({ ...target, ...seen, fetchedAt: at });
  }
  return { fetchedAt: at, ensembles, observed };
}

/** The extreme of a day so far, by the last report that is there; an hour's own temperature, once that is. */
function observe(
  { weather }: Seeded,
  subject: Subject,
  at: Date,
): Pick<ObservedExtreme, 'extremeF' | 'observedAt'> | undefined {
  const { kind, station, date, span } = subject;
  if (kind === 'hourly')
    return at.getTime() - span.end.getTime() < INDEX_TAKES_MS
      ? undefined
      : { extremeF: weather.value(subject), observedAt: span.end };
  const observedAt = lastReportAt(span, at);
  const running = kind === 'daily_maximum' ? 'runningMaximum' : 'runningMinimum';
  const extremeF = weather[running](station, date, observedAt);
  return extremeF === null ? undefined : { extremeF, observedAt };
}

/** Each run that has been there for a subject, as it was when it came. */
function listRuns({ weather }: Seeded, subject: Subject, now: Date): DayEnsemble[] {
  const { span } = subject;
  return runsOf(span).flatMap((modelRunAt) => {
    const fetchedAt = firstSeenAt(span, modelRunAt);
    if (fetchedAt > now) return [];
    const membersF = weather.members(subject, modelRunAt);
    return [{ ...targetOfSubject(subject), modelRunAt, fetchedAt, membersF }];
  });
}

/** The time of the day's last report that is there. */
function lastReportAt({ end }: Pick<ClimateDay, 'end'>, at: Date): Date {
  const hour = Math.floor((at.getTime() - REPORT_TAKES_MS - REPORT_MINUTE_MS) / HOUR_MS) * HOUR_MS;
  return new Date(Math.min(hour + REPORT_MINUTE_MS, end.getTime() - HOUR_MS + REPORT_MINUTE_MS));
}
