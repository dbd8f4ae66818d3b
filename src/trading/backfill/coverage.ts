import type { Orm } from '../../db/client.js';
import { climateDayOf } from '../settlement/climate-day.js';
import type { Station } from '../settlement/stations.js';
import type { Range } from './plan.js';
import { countRuns, listReportedDays } from './queries.js';

export interface StationCoverage {
  station: Station;
  /** Days with a run from before the day began. */
  forecastDays: number;
  runs: number;
  /** Days with a report. */
  reports: number;
}

/** What there is of a range of days. */
export interface Coverage {
  hasRuns(date: string): boolean;
  hasReports(date: string): boolean;
  stations: StationCoverage[];
}

/**
 * A day has its forecasts once every station has a run that was started before the day began there: the service itself
 * may have come up during the day. It has its reports once every station has one.
 */
export async function readCoverage(
  orm: Orm,
  sources: { forecastSource: string; marketSource: string },
  stations: readonly Station[],
  range: Range,
): Promise<Coverage> {
  const runs = await countRuns(orm, sources.forecastSource, range);
  const reports = await listReportedDays(orm, sources.marketSource, range);
  const stationOf = new Map(stations.map((station) => [station.id, station]));
  const forecast = runs.filter(({ station: id, date, firstRunMs }) => {
    const station = stationOf.get(id);
    return station && firstRunMs < climateDayOf(station, date).start.getTime();
  });
  const reported = reports.filter(({ station }) => stationOf.has(station));
  const [forecastAt, reportedAt] = [countByDate(forecast), countByDate(reported)];
  const ofStation = <T extends { station: string }>(rows: T[], id: string) =>
    rows.filter(({ station }) => station === id);
  return {
    hasRuns: (date) => forecastAt.get(date) === stations.length,
    hasReports: (date) => reportedAt.get(date) === stations.length,
    stations: stations.map((station) => ({
      station,
      forecastDays: ofStation(forecast, station.id).length,
      runs: ofStation(runs, station.id).reduce((sum, day) => sum + day.runs, 0),
      reports: ofStation(reported, station.id).length,
    })),
  };
}

function countByDate(rows: readonly { date: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { date } of rows) counts.set(date, (counts.get(date) ?? 0) + 1);
  return counts;
}
