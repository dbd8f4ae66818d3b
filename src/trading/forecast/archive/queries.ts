import { sql } from 'drizzle-orm';
import type { Orm } from '../../../db/client.js';
import { selectRows } from '../../../db/select-rows.js';
import type { SettledDay } from '../../markets/source.js';
import type { DayEnsemble } from '../forecast.js';
import type { KnownRun } from './known-history.js';

/** A statement deletes no more than this; what is left goes the next time. */
const DELETED_AT_ONCE = 5_000;

/** The first writer of a run wins. Resolves with the number of rows that are new. */
export async function insertRuns(
  orm: Orm,
  forecastSource: string,
  runs: readonly (DayEnsemble & { mean: number; variance: number })[],
): Promise<number> {
  const rows = JSON.stringify(runs);
  const [added] = await selectRows<{ count: number }>(
    orm,
    sql`with added as (
      insert into ensemble_runs (forecast_source, station, date, model_run_at, fetched_at, members, mean, variance)
      select ${forecastSource}, r."stationId", r.date, r."modelRunAt", r."fetchedAt", r."membersF", r.mean, r.variance
      from json_to_recordset(${rows}::json) as r(
        "stationId" text, date date, "modelRunAt" timestamptz, "fetchedAt" timestamptz, "membersF" float8[], mean float8, variance float8
      )
      on conflict do nothing
      returning 1
    )
    select count(*)::int as count from added`,
  );
  return added!.count;
}

/** Only what differs from what was known by then is a new row. Resolves with the number of rows that are new. */
export async function insertReports(
  orm: Orm,
  marketSource: string,
  reports: readonly SettledDay[],
): Promise<number> {
  const rows = JSON.stringify(reports);
  const [added] = await selectRows<{ count: number }>(
    orm,
    sql`with added as (
      insert into climate_reports (market_source, station, date, known_at, temperature)
      select ${marketSource}, r."stationId", r.date, r."knownAt", r."temperatureF"
      from json_to_recordset(${rows}::json) as r("stationId" text, date date, "knownAt" timestamptz, "temperatureF" int)
      where r."temperatureF" is distinct from (
        select c.temperature from climate_reports c
        where c.market_source = ${marketSource} and c.station = r."stationId" and c.date = r.date and c.known_at <= r."knownAt"
        order by c.known_at desc limit 1
      )
      on conflict do nothing
      returning 1
    )
    select count(*)::int as count from added`,
  );
  return added!.count;
}

interface Window {
  stationId: string;
  /** The first day. */
  from: string;
  /** What became known later is not there. */
  at: Date;
}

/** A source that runs every hour has this many runs of 90 days at leads up to three days. */
const MAX_RUNS = 10_000;
const milliseconds = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1000)::float8`);

/** The rows come as one JSON text: thousands of them are read in a quarter of the time that as many rows of columns take. */
export async function readRuns(
  orm: Orm,
  { forecastSource, stationId, from, at }: Window & { forecastSource: string },
): Promise<KnownRun[]> {
  const time = at.toISOString();
  const [answer] = await selectRows<{ runs: RunRow[] | null }>(
    orm,
    sql`select json_agg(json_build_array(
        date, ${milliseconds('model_run_at')}, ${milliseconds('fetched_at')}, members, mean, variance
      ) order by date desc, model_run_at desc) as runs
    from (
      select date, model_run_at, fetched_at, cardinality(members) as members, mean, variance
      from ensemble_runs
      where forecast_source = ${forecastSource} and station = ${stationId} and date >= ${from}::date
        and model_run_at <= ${time}::timestamptz and fetched_at <= ${time}::timestamptz
      order by date desc, model_run_at desc limit ${MAX_RUNS}
    ) as newest`,
  );
  const runs = answer?.runs ?? [];
  return runs.map(([date, modelRunMs, fetchedMs, members, meanF, varianceF]) => ({
    date,
    members,
    meanF,
    varianceF,
    stationId,
    modelRunAt: new Date(modelRunMs),
    fetchedAt: new Date(fetchedMs),
  }));
}

type RunRow = [
  date: string,
  modelRunMs: number,
  fetchedMs: number,
  members: number,
  mean: number,
  variance: number,
];

/** The report of each day that was known last. */
export async function readReports(
  orm: Orm,
  { marketSource, stationId, from, at }: Window & { marketSource: string },
): Promise<SettledDay[]> {
  const rows = await selectRows<{ date: string; temperatureF: number; knownMs: number }>(
    orm,
    sql`select distinct on (date) date::text, temperature as "temperatureF", ${milliseconds('known_at')} as "knownMs"
    from climate_reports
    where market_source = ${marketSource} and station = ${stationId} and date >= ${from}::date
      and known_at <= ${at.toISOString()}::timestamptz
    order by date, known_at desc`,
  );
  return rows.map(({ knownMs, ...report }) => ({
    ...report,
    kind: 'daily_maximum',
    stationId,
    knownAt: new Date(knownMs),
  }));
}

export async function deleteOldRuns(orm: Orm, before: string): Promise<void> {
  await orm.execute(sql`
    delete from ensemble_runs where ctid = any(array(
      select ctid from ensemble_runs where date < ${before}::date order by date limit ${DELETED_AT_ONCE}
    ))`);
}

export async function deleteOldReports(orm: Orm, before: string): Promise<void> {
  await orm.execute(sql`
    delete from climate_reports where ctid = any(array(
      select ctid from climate_reports where date < ${before}::date order by date limit ${DELETED_AT_ONCE}
    ))`);
}
