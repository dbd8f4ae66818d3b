import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import type { Target, TemperatureKind } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import type { DayEnsemble } from '../forecast/forecast.js';
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
      insert into ensemble_runs (forecast_source, kind, station, date, hour, model_run_at, fetched_at, members, mean, variance)
      select ${forecastSource}, r.kind, r."stationId", r.date, coalesce(r.hour, 0), r."modelRunAt", r."fetchedAt", r."membersF", r.mean,
        r.variance
      from json_to_recordset(${rows}::json) as r(
        kind text, "stationId" text, date date, hour smallint, "modelRunAt" timestamptz, "fetchedAt" timestamptz, "membersF" float8[], mean float8, variance float8
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
      insert into climate_reports (market_source, kind, station, date, hour, known_at, temperature)
      select ${marketSource}, r.kind, r."stationId", r.date, coalesce(r.hour, 0), r."knownAt", r."temperatureF"
      from json_to_recordset(${rows}::json) as r(
        kind text, "stationId" text, date date, hour smallint, "knownAt" timestamptz, "temperatureF" float8
      )
      where r."temperatureF" is distinct from (
        select c.temperature from climate_reports c
        where c.market_source = ${marketSource} and c.kind = r.kind and c.station = r."stationId" and c.date = r.date
          and c.hour = coalesce(r.hour, 0) and c.known_at <= r."knownAt"
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
  kind: TemperatureKind;
  stationId: string;
  /** The first day. */
  from: string;
  /** What became known later is not there. */
  at: Date;
}

/**
 * A source that runs every hour has this many runs of 90 days at leads up to three days; one that runs four times a day has as
 * many of 60 days' hours.
 */
const MAX_RUNS = 12_000;
const milliseconds = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1000)::float8`);

/** The rows come as one JSON text: thousands of them are read in a quarter of the time that as many rows of columns take. */
export async function readRuns(
  orm: Orm,
  { forecastSource, kind, stationId, from, at }: Window & { forecastSource: string },
): Promise<KnownRun[]> {
  const time = at.toISOString();
  const [answer] = await selectRows<{ runs: RunRow[] | null }>(
    orm,
    sql`select json_agg(json_build_array(
        date, hour, ${milliseconds('model_run_at')}, ${milliseconds('fetched_at')}, members, mean, variance
      ) order by date desc, model_run_at desc) as runs
    from (
      select date, hour, model_run_at, fetched_at, cardinality(members) as members, mean, variance
      from ensemble_runs
      where forecast_source = ${forecastSource} and kind = ${kind} and station = ${stationId} and date >= ${from}::date
        and model_run_at <= ${time}::timestamptz and fetched_at <= ${time}::timestamptz
      order by date desc, model_run_at desc limit ${MAX_RUNS}
    ) as newest`,
  );
  const runs = answer?.runs ?? [];
  return runs.map(([date, hour, modelRunMs, fetchedMs, members, meanF, varianceF]) => ({
    ...toTarget({ kind, stationId, date, hour }),
    members,
    meanF,
    varianceF,
    modelRunAt: new Date(modelRunMs),
    fetchedAt: new Date(fetchedMs),
  }));
}

/** The hour that is stored of a day means nothing. */
const toTarget = ({ hour, ...target }: Target): Target =>
  target.kind === 'hourly' ? { ...target, hour } : target;

type RunRow = [
  date: string,
  hour: number,
  modelRunMs: number,
  fetchedMs: number,
  members: number,
  mean: number,
  variance: number,
];

/** The report of each day or hour that was known last. */
export async function readReports(
  orm: Orm,
  { marketSource, kind, stationId, from, at }: Window & { marketSource: string },
): Promise<SettledDay[]> {
  const rows = await selectRows<{ date: string; hour: number; temperatureF: number; knownMs: number }>(
    orm,
    sql`select distinct on (date, hour) date::text, hour, temperature as "temperatureF", ${milliseconds('known_at')} as "knownMs"
    from climate_reports
    where market_source = ${marketSource} and kind = ${kind} and station = ${stationId} and date >= ${from}::date
      and known_at <= ${at.toISOString()}::timestamptz
    order by date, hour, known_at desc`,
  );
  return rows.map(({ date, hour, temperatureF, knownMs }) => ({
    ...toTarget({ kind, stationId, date, hour }),
    temperatureF,
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
