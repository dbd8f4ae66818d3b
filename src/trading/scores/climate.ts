import { DAY_MS } from '../../core/time.js';
import { groupBy } from '../../core/group-by.js';
import type { Database } from '../../core/db/client.js';
import { dateOf } from '../market/climate-day.js';
import { temperatureKinds, type Target } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { meanAndVariance } from '../forecast/forecast.js';
import { readReports } from '../forecast/queries.js';

const WINDOW_DAYS = 30;
/** The mean of fewer says nothing of a season. */
const MIN_DAYS = 10;
/** °F. Days that happened to be alike do not make the next one sure. */
const MIN_DEVIATION_F = 1;

/** What days (or the same hour of days) at a station were like lately. */
export interface Climate {
  mean: number;
  deviation: number;
}

/** By `climateKey`. */
export type Climates = ReadonlyMap<string, Climate>;

/** Minima are not like maxima, and an hour is like the same hour of other days. */
export const climateKey = ({ kind, stationId, hour }: Omit<Target, 'date'>): string =>
  hour === undefined ? `${kind} ${stationId}` : `${kind} ${stationId} ${hour}`;

/** Of the reports of the last 30 days that were known at a time. What has fewer than 10 has none. */
export async function readClimates(
  { orm }: Database,
  { marketSource, targets, at }: { marketSource: string; targets: readonly Target[]; at: Date },
): Promise<Climates> {
  const from = dateOf(at.getTime() - WINDOW_DAYS * DAY_MS);
  const reports: SettledDay[] = [];
  for (const kind of temperatureKinds)
    for (const stationId of stationsOf(targets, kind))
      reports.push(...(await readReports(orm, { marketSource, kind, stationId, from, at })));
  return climatesOf(reports);
}

const stationsOf = (targets: readonly Target[], kind: Target['kind']): Set<string> =>
  new Set(targets.filter((target) => target.kind === kind).map(({ stationId }) => stationId));

export function climatesOf(reports: readonly SettledDay[]): Climates {
  return new Map(
    [...groupBy(reports, climateKey)].flatMap(([key, group]): [string, Climate][] => {
      const climate = climateOf(group.map(({ temperatureF }) => temperatureF));
      return climate ? [[key, climate]] : [];
    }),
  );
}

/** What reports of some days say; undefined where they are too few. */
export function climateOf(reportsF: readonly number[]): Climate | undefined {
  if (reportsF.length < MIN_DAYS) return undefined;
  const { mean, variance } = meanAndVariance(reportsF);
  return { mean, deviation: Math.max(MIN_DEVIATION_F, Math.sqrt(variance)) };
}
