import type { Orm } from '../../core/db/client.js';
import { textArray, queryRows } from '../../core/db/sql.js';
import type { SourceNames } from '../learning/queries.js';
import { MAIN_MODEL } from '../weather/weather.js';
import type { TemperatureKind } from '../market/market.js';
import { climateDayOf } from '../market/climate-day.js';
import { findPlace, placesOf } from '../market/stations.js';
import type { Place } from '../market/place.js';

/** Climate days, both inclusive. */
export interface DateRange {
  from: string;
  to: string;
}

export interface CoverageSources extends SourceNames {
  runKinds: readonly TemperatureKind[];
  reportKinds: readonly TemperatureKind[];
}

/**
 * Counts the days with complete forecasts and the days with complete reports. Forecasts are complete if every station
 * has a run of every kind that started before the local day began, because the service may have been started during the
 * day. Reports are complete if every station has one of every kind; for hourly reports, a single hour is enough.
 */
export async function readCoverage(
  orm: Orm,
  { forecastSource, marketSource, runKinds, reportKinds }: CoverageSources,
  stations: readonly Place[],
  range: DateRange,
) {
  const isCounted = ({ kind, station }: { kind: TemperatureKind; station: string }) =>
    countedPlaces(kind, stations).some(({ id }) => id === station);
  const runs = (await countRuns(orm, forecastSource, runKinds, range)).filter(isCounted);
  const reported = (await listReportedDays(orm, marketSource, reportKinds, range)).filter(isCounted);
  const forecast = runs.filter(
    ({ station, date, firstRunMs }) => firstRunMs < climateDayOf(findPlace(station)!, date).start.getTime(),
  );
  const [forecastAt, reportedAt] = [countByDate(forecast), countByDate(reported)];
  const wanted = (kinds: readonly TemperatureKind[]) =>
    kinds.reduce((sum, kind) => sum + countedPlaces(kind, stations).length, 0);
  return {
    hasRuns: (date: string) => forecastAt.get(date) === wanted(runKinds),
    hasReports: (date: string) => reportedAt.get(date) === wanted(reportKinds),
    stations: [...new Set([...runKinds, ...reportKinds])].flatMap((kind) =>
      countedPlaces(kind, stations).map((station) => {
        const isOf = (row: { kind: TemperatureKind; station: string }) =>
          row.kind === kind && row.station === station.id;
        return {
          kind,
          station,
          /** Number of days with a run that started before the day began. */
          forecastDays: forecast.filter(isOf).length,
          runs: runs.filter(isOf).reduce((sum, day) => sum + day.runs, 0),
          reports: reported.filter(isOf).length,
        };
      }),
    ),
  };
}

const countedPlaces = (kind: TemperatureKind, stations: readonly Place[]): readonly Place[] =>
  kind === 'hourly' ? placesOf(kind) : stations;

function countByDate(rows: readonly { date: string }[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { date } of rows) counts.set(date, (counts.get(date) ?? 0) + 1);
  return counts;
}

interface DayRuns {
  kind: TemperatureKind;
  station: string;
  date: string;
  runs: number;
  firstRunMs: number;
}

const countRuns = (orm: Orm, source: string, kinds: readonly TemperatureKind[], { from, to }: DateRange) =>
  queryRows(orm)<DayRuns>`
    select kind, station, date::text, count(*)::int as runs, (extract(epoch from min(model_run_at)) * 1000)::float8 as "firstRunMs"
    from ensemble_runs
    where forecast_source = ${source} and model = ${MAIN_MODEL} and kind = any(${textArray(kinds)}) and date between ${from}::date and ${to}::date
    group by kind, station, date`;

const listReportedDays = (
  orm: Orm,
  source: string,
  kinds: readonly TemperatureKind[],
  { from, to }: DateRange,
) =>
  queryRows(orm)<Pick<DayRuns, 'kind' | 'station' | 'date'>>`select distinct kind, station, date::text
    from climate_reports
    where market_source = ${source} and kind = any(${textArray(kinds)}) and date between ${from}::date and ${to}::date`;

export async function listModelDays(orm: Orm, source: string, model: string, { from, to }: DateRange) {
  const rows = await queryRows(orm)<Pick<DayRuns, 'station' | 'date'>>`select distinct station, date::text
    from ensemble_runs
    where forecast_source = ${source} and model = ${model} and kind = 'daily_maximum' and date between ${from}::date and ${to}::date`;
  return new Set(rows.map(({ station, date }) => `${station} ${date}`));
}
