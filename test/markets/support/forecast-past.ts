import { KnownHistory } from '../../../src/markets/training/forecast-archive.js';
import { train, type Training } from '../../../src/markets/training/training.js';
import { noFits, type Fit } from '../../../src/markets/learning/fits.js';
import type { SettledDay } from '../../../src/markets/market/source.js';
import { spanOf, type Target } from '../../../src/markets/market/market.js';
import { findPlace } from '../../../src/markets/market/stations.js';
import { gaussian } from '../../../src/markets/venue/simulation/random.js';
import type { KnownRun } from '../../../src/markets/learning/queries.js';
import type { KnownHour } from '../../../src/markets/weather/weather.js';

const HOUR_MS = 3_600_000;

export const dateAfter = (first: string, days: number): string =>
  new Date(Date.parse(first) + days * 24 * HOUR_MS).toISOString().slice(0, 10);

/** Parameters of a made-up past. */
export interface Truth {
  stationId: string;
  /** Warm bias of the members, °F. */
  biasF: number;
  /** Standard deviations in °F: of the ensemble mean from the truth, and of members from the mean. */
  errorF: number;
  spreadF: number;
  members?: number;
  /** Default: the day's maximum. */
  kind?: 'daily_minimum' | 'hourly';
  /** Only for the hourly kind. */
  hour?: number;
}

export interface Past {
  runs: KnownRun[];
  reports: SettledDay[];
}

export const first = '2026-05-01';

/**
 * Generates one run per day, by default 24 hours before the day's end and fetched five hours later. The report is known
 * nine hours after the end.
 */
export function makePast(truth: Truth, days: number, over: { from?: number; leadHours?: number } = {}): Past {
  const { stationId, biasF, errorF, spreadF, members = 31, kind = 'daily_maximum', hour } = truth;
  const { from = 0, leadHours = 24 } = over;
  const past: Past = { runs: [], reports: [] };
  for (let i = from; i < from + days; i++) {
    const date = dateAfter(first, i);
    const target: Target = { kind, stationId, date, ...(hour === undefined ? {} : { hour }) };
    const end = spanOf(findPlace(stationId)!, target).end.getTime();
    // Each kind has its own weather.
    const salt = kind === 'daily_maximum' ? [] : [kind, hour ?? 0];
    const extremeF = 75 + 8 * gaussian(stationId, date, 'weather', ...salt);
    // The ensemble's spread varies by day, and days with a wider spread have larger errors.
    const sureness = members === 1 ? 1 : 0.7 + 0.6 * Math.abs(gaussian(stationId, date, 'sureness'));
    past.runs.push({
      ...target,
      modelRunAt: new Date(end - leadHours * HOUR_MS),
      fetchedAt: new Date(end - (leadHours - 5) * HOUR_MS),
      members,
      meanF: extremeF + biasF + errorF * sureness * gaussian(stationId, date, leadHours, 'error'),
      varianceF: members === 1 ? 0 : (spreadF * sureness) ** 2,
    });
    past.reports.push({
      ...target,
      temperatureF: kind === 'hourly' ? Math.round(extremeF * 100) / 100 : Math.round(extremeF),
      knownAt: new Date(end + 9 * HOUR_MS),
    });
  }
  return past;
}

export const together = (...pasts: Past[]): Past => ({
  runs: pasts.flatMap(({ runs }) => runs),
  reports: pasts.flatMap(({ reports }) => reports),
});

export const learn = (past: Past, at: Date, previous = noFits): Training =>
  train(KnownHistory.at(at, past), { previous, newId: () => 'a fit' });

/** Coefficients of a fit with mean a + b·m and deviation exp(c + d·ln s), and the given station biases. */
export const lineCoefficients = (
  { a, b, c, d = 0 }: { a: number; b: number; c: number; d?: number },
  biasF: Readonly<Record<string, number>> = {},
): Fit['coefficients'] => ({
  bias: a,
  deviation: 1,
  centre: 0,
  width: 1,
  spread: 0,
  constant: 0,
  slope: b - 1,
  'ln scale': c - Math.log(Math.PI / Math.sqrt(3)),
  'by spread': d,
  ...Object.fromEntries(Object.entries(biasF).map(([id, tooWarmF]) => [`bias ${id}`, -tooWarmF])),
});

export interface RunningPast extends Past {
  hours: KnownHour[];
}

/** Hourly temperatures and forecasts in °F for a day that is warmest at 15:00 and coldest at 05:00. */
export function courseOf(stationId: string, date: string, biasF: number) {
  const mean = 70 + 6 * gaussian(stationId, date, 'running');
  const swing = 9 + 2 * gaussian(stationId, date, 'swing');
  const at = (hour: number) => (hour < 5 || hour > 20 ? -0.6 : -Math.cos(((hour - 5) / 10) * Math.PI));
  const errorF = 2.4 * gaussian(stationId, date, 'curve');
  return Array.from({ length: 24 }, (_, hour) => {
    const temperatureF = mean + swing * at(hour);
    const drift = errorF * (0.4 + hour / 24);
    return { temperatureF, forecastF: temperatureF + biasF + drift };
  });
}

/**
 * A past with hourly data. Each run is fetched an hour before its day begins. Each hour's temperature is observed nine
 * minutes before the hour and fetched four minutes after that. The report is known nine hours after the day's end.
 */
export function makeRunning(
  { stationId, biasF }: Pick<Truth, 'stationId' | 'biasF'>,
  days: number,
  { from = 0, hours = [11, 12, 13] }: { from?: number; hours?: readonly number[] } = {},
): RunningPast {
  const past: RunningPast = { runs: [], reports: [], hours: [] };
  for (let i = from; i < from + days; i++) {
    const date = dateAfter(first, i);
    const { start, end } = spanOf(findPlace(stationId)!, { date });
    const course = courseOf(stationId, date, biasF);
    const curveF = course.map(({ forecastF }) => forecastF);
    const temperaturesF = course.map(({ temperatureF }) => temperatureF);
    const known = { stationId, date };
    past.runs.push({
      ...known,
      kind: 'daily_maximum',
      modelRunAt: new Date(start.getTime() - 6 * HOUR_MS),
      fetchedAt: new Date(start.getTime() - HOUR_MS),
      members: 31,
      meanF: Math.max(...curveF),
      varianceF: 2,
      curveF,
    });
    const knownAt = new Date(end.getTime() + 9 * HOUR_MS);
    const [highestF, lowestF] = [Math.max(...temperaturesF), Math.min(...temperaturesF)];
    past.reports.push({ ...known, kind: 'daily_maximum', temperatureF: Math.round(highestF), knownAt });
    past.reports.push({ ...known, kind: 'daily_minimum', temperatureF: Math.round(lowestF), knownAt });
    for (const hour of hours) {
      const soFar = temperaturesF.slice(1, hour + 1);
      const observedAt = new Date(start.getTime() + hour * HOUR_MS - 9 * 60_000);
      past.hours.push({
        ...known,
        hour,
        temperatureF: temperaturesF[hour]!,
        highestF: Math.max(...soFar),
        lowestF: Math.min(...soFar),
        observedAt,
        fetchedAt: new Date(observedAt.getTime() + 4 * 60_000),
      });
    }
  }
  return past;
}

export const runningTogether = (...pasts: RunningPast[]): RunningPast => ({
  ...together(...pasts),
  hours: pasts.flatMap(({ hours }) => hours),
});
