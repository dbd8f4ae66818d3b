import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { textArray } from '../../core/db/array-literal.js';
import { selectRows } from '../../core/db/select-rows.js';
import { MAIN_MODEL } from '../forecast/forecast.js';
import type { TemperatureKind } from '../market/market.js';

/** Climate days, both included. */
export interface Range {
  from: string;
  to: string;
}

export interface DayRuns {
  kind: TemperatureKind;
  station: string;
  date: string;
  runs: number;
  /** When the earliest of them was started. */
  firstRunMs: number;
}

/** How many runs of the first model there are of each day: a row for each kind, station and day of the range that has any. */
export async function countRuns(
  orm: Orm,
  source: string,
  kinds: readonly TemperatureKind[],
  { from, to }: Range,
): Promise<DayRuns[]> {
  return selectRows<DayRuns>(
    orm,
    sql`select kind, station, date::text, count(*)::int as runs, (extract(epoch from min(model_run_at)) * 1000)::float8 as "firstRunMs"
    from ensemble_runs
    where forecast_source = ${source} and model = ${MAIN_MODEL} and kind = any(${textArray(kinds)}) and date between ${from}::date and ${to}::date
    group by kind, station, date`,
  );
}

export async function listReportedDays(
  orm: Orm,
  source: string,
  kinds: readonly TemperatureKind[],
  { from, to }: Range,
): Promise<Pick<DayRuns, 'kind' | 'station' | 'date'>[]> {
  return selectRows<Pick<DayRuns, 'kind' | 'station' | 'date'>>(
    orm,
    sql`select distinct kind, station, date::text
    from climate_reports
    where market_source = ${source} and kind = any(${textArray(kinds)}) and date between ${from}::date and ${to}::date`,
  );
}
