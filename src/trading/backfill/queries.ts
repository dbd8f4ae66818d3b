import { sql } from 'drizzle-orm';
import type { Orm } from '../../db/client.js';
import { selectRows } from '../../db/select-rows.js';
import type { Range } from './plan.js';

export interface DayRuns {
  station: string;
  date: string;
  runs: number;
  /** When the earliest of them was started. */
  firstRunMs: number;
}

/** How many runs there are of each day: a row for each station and day of the range that has any. */
export async function countRuns(orm: Orm, source: string, { from, to }: Range): Promise<DayRuns[]> {
  return selectRows<DayRuns>(
    orm,
    sql`select station, date::text, count(*)::int as runs, (extract(epoch from min(model_run_at)) * 1000)::float8 as "firstRunMs"
    from ensemble_runs
    where forecast_source = ${source} and date between ${from}::date and ${to}::date
    group by station, date`,
  );
}

/** The days of the range that have a report. */
export async function listReportedDays(
  orm: Orm,
  source: string,
  { from, to }: Range,
): Promise<{ station: string; date: string }[]> {
  return selectRows<{ station: string; date: string }>(
    orm,
    sql`select distinct station, date::text
    from climate_reports
    where market_source = ${source} and date between ${from}::date and ${to}::date`,
  );
}
