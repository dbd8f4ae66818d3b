import type { Database } from '../../db/client.js';
import { readReports } from '../forecast/archive/queries.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const WINDOW_DAYS = 30;
/** The mean of fewer says nothing of a season. */
const MIN_DAYS = 10;
/** °F. Days that happened to be alike do not make the next one sure. */
const MIN_DEVIATION_F = 1;

/** What days at a station were like lately. */
export interface Climate {
  mean: number;
  deviation: number;
}

/** By station: of the reports of the last 30 days that were known at a time. A station with fewer than 10 has none. */
export async function readClimates(
  { orm }: Database,
  { marketSource, stationIds, at }: { marketSource: string; stationIds: Iterable<string>; at: Date },
): Promise<Map<string, Climate>> {
  const from = new Date(at.getTime() - WINDOW_DAYS * DAY_MS).toISOString().slice(0, 10);
  const climates = new Map<string, Climate>();
  for (const stationId of new Set(stationIds)) {
    const reports = await readReports(orm, { marketSource, stationId, from, at });
    const climate = climateOf(reports.map(({ temperatureF }) => temperatureF));
    if (climate) climates.set(stationId, climate);
  }
  return climates;
}

/** What reports of some days say; undefined where they are too few. */
export function climateOf(reportsF: readonly number[]): Climate | undefined {
  if (reportsF.length < MIN_DAYS) return undefined;
  const mean = reportsF.reduce((sum, report) => sum + report, 0) / reportsF.length;
  const variance = reportsF.reduce((sum, report) => sum + (report - mean) ** 2, 0) / (reportsF.length - 1);
  return { mean, deviation: Math.max(MIN_DEVIATION_F, Math.sqrt(variance)) };
}
