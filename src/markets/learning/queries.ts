import { sql, type SQL } from 'drizzle-orm';
import type { PgTable } from 'drizzle-orm/pg-core';
import type { Orm } from '../../core/db/client.js';
import { queryRows } from '../../core/db/sql.js';
import { HOUR_MS } from '../../core/time.js';
import type { Target, TemperatureKind } from '../market/market.js';
import type { SettledDay } from '../market/source.js';
import { MAIN_MODEL, type DayEnsemble, type KnownHour } from '../weather/weather.js';
import { dateOf } from '../market/climate-day.js';
import { knownVersions, versionOn } from '../weather/versions.js';
import { ensembleRuns } from './table.js';

/** Fits and scores for one pair of sources do not apply to another. */
export interface SourceNames {
  marketSource: string;
  forecastSource: string;
}

export interface KnownRun extends Target {
  model?: string | undefined;
  modelRunAt: Date;
  fetchedAt: Date;
  members: number;
  meanF: number;
  /** °F²; 0 for a single member. */
  varianceF: number;
  curveF?: readonly number[] | undefined;
  /** Named by the source, or else known for the run's date. */
  version?: string | undefined;
  isNearMidnight?: true | undefined;
}

/** Training ignores curves fetched this many hours before the start of the day (UTC). */
const CURVE_AHEAD_HOURS = 12;

/** A day's maximum and minimum share the maximum's curve. */
export const usesCurve = ({ kind, date, fetchedAt }: Pick<DayEnsemble, 'kind' | 'date' | 'fetchedAt'>) =>
  kind === 'daily_maximum' && fetchedAt.getTime() > Date.parse(date) - CURVE_AHEAD_HOURS * HOUR_MS;

/** The next clean-up deletes the rest. */
const DELETED_AT_ONCE = 5_000;

/** Returns the number of new rows. */
async function insertNew(orm: Orm, insert: SQL): Promise<number> {
  const [added] = await queryRows(orm)<{ count: number }>`
    with added as (${insert} on conflict do nothing returning 1) select count(*)::int as count from added`;
  return added!.count;
}

export const insertRuns = (
  orm: Orm,
  forecastSource: string,
  runs: readonly (DayEnsemble & { mean: number; variance: number })[],
): Promise<number> =>
  insertNew(
    orm,
    sql`insert into ensemble_runs (forecast_source, model, kind, station, date, hour, model_run_at, fetched_at, members, mean, variance, curve, version, near_midnight)
      select ${forecastSource}, coalesce(r.model, ${MAIN_MODEL}), r.kind, r."stationId", r.date, coalesce(r.hour, 0), r."modelRunAt", r."fetchedAt", r."membersF", r.mean,
        r.variance, case when r.kind = 'daily_maximum' then r."curveF" end, r.version, coalesce(r."isNearMidnight", false)
      from json_to_recordset(${JSON.stringify(runs)}::json) as r(
        model text, kind text, "stationId" text, date date, hour smallint, "modelRunAt" timestamptz, "fetchedAt" timestamptz, "membersF" float8[], mean float8, variance float8,
        "curveF" float8[], version text, "isNearMidnight" boolean
      )`,
  );

export const insertHours = (orm: Orm, forecastSource: string, hours: readonly KnownHour[]): Promise<number> =>
  insertNew(
    orm,
    sql`insert into observed_hours (forecast_source, station, date, hour, observed_at, fetched_at, temperature, highest, lowest)
      select ${forecastSource}, r."stationId", r.date, r.hour, r."observedAt", r."fetchedAt", r."temperatureF", r."highestF", r."lowestF"
      from json_to_recordset(${JSON.stringify(hours)}::json) as r(
        "stationId" text, date date, hour smallint, "observedAt" timestamptz, "fetchedAt" timestamptz, "temperatureF" float8, "highestF" float8, "lowestF" float8
      )`,
  );

/** Inserts a report only if it differs from the one known for its target at that time. */
export const insertReports = (orm: Orm, marketSource: string, reports: readonly SettledDay[]) =>
  insertNew(
    orm,
    sql`insert into climate_reports (market_source, kind, station, date, hour, known_at, temperature)
      select ${marketSource}, r.kind, r."stationId", r.date, coalesce(r.hour, 0), r."knownAt", r."temperatureF"
      from json_to_recordset(${JSON.stringify(reports)}::json) as r(
        kind text, "stationId" text, date date, hour smallint, "knownAt" timestamptz, "temperatureF" float8
      )
      where r."temperatureF" is distinct from (
        select c.temperature from climate_reports c
        where c.market_source = ${marketSource} and c.kind = r.kind and c.station = r."stationId" and c.date = r.date
          and c.hour = coalesce(r.hour, 0) and c.known_at <= r."knownAt"
        order by c.known_at desc limit 1
      )`,
  );

interface Window {
  kind: TemperatureKind;
  stationId: string;
  from: string;
  at: Date;
}

/** 90 days of hourly runs at leads up to three days, or the hours of 60 days at four runs a day. */
const MAX_RUNS = 12_000;
const milliseconds = (column: string) => sql.raw(`(extract(epoch from ${column}) * 1000)::float8`);

/** Every run of the first model is read, for days in progress. */
const oneOfHalfDay = sql.raw('floor(extract(epoch from model_run_at) / 43200)');

/**
 * One JSON text takes a quarter of the time that columns take.
 * @param to exclusive; if given, one run per half day is read for every model
 */
export async function readRuns(
  orm: Orm,
  asked: Window & { forecastSource: string; model: string; to?: string },
): Promise<KnownRun[]> {
  const { forecastSource, model, kind, stationId, from, to, at } = asked;
  const time = at.toISOString();
  const isMain = model === MAIN_MODEL;
  const isEach = isMain && to === undefined;
  const one = isEach ? sql`` : sql`distinct on (date, hour, ${oneOfHalfDay})`;
  const order = isEach
    ? sql`date desc, model_run_at desc`
    : sql`date desc, hour, ${oneOfHalfDay} desc, model_run_at`;
  const [answer] = await queryRows(orm)<{ runs: RunRow[] | null }>`select json_agg(json_build_array(
        date, hour, ${milliseconds('model_run_at')}, ${milliseconds('fetched_at')}, members, mean, variance, curve, version, near_midnight
      ) order by date desc, model_run_at desc) as runs
    from (
      select ${one} date, hour, model_run_at, fetched_at, cardinality(members) as members, mean, variance,
        case when fetched_at > date - make_interval(hours => ${CURVE_AHEAD_HOURS}) then curve end as curve, version, near_midnight
      from ensemble_runs
      where forecast_source = ${forecastSource} and kind = ${kind} and station = ${stationId} and date >= ${from}::date and model = ${model}
        ${to === undefined ? sql`` : sql`and date < ${to}::date`}
        and model_run_at <= ${time}::timestamptz and fetched_at <= ${time}::timestamptz
      order by ${order} limit ${MAX_RUNS}
    ) as newest`;
  const runs = answer?.runs ?? [];
  return runs.map(
    ([date, hour, modelRunMs, fetchedMs, members, meanF, varianceF, curveF, version, isNearMidnight]) => ({
      // Spread objects take twice the memory.
      model: isMain ? undefined : model,
      kind,
      stationId,
      date,
      hour: kind === 'hourly' ? hour : undefined,
      members,
      meanF,
      varianceF,
      curveF: curveF ?? undefined,
      version: version ?? versionOn(knownVersions[model], dateOf(modelRunMs)),
      isNearMidnight: isNearMidnight || undefined,
      modelRunAt: new Date(modelRunMs),
      fetchedAt: new Date(fetchedMs),
    }),
  );
}

/** A daily target's stored hour is meaningless. */
export const toTarget = ({ hour, ...target }: Target): Target =>
  target.kind === 'hourly' ? { ...target, hour } : target;

type RunRow = [
  date: string,
  hour: number,
  modelRunMs: number,
  fetchedMs: number,
  members: number,
  mean: number,
  variance: number,
  curve: number[] | null,
  version: string | null,
  isNearMidnight: boolean,
];

export async function readHours(
  orm: Orm,
  { forecastSource, stationId, from, at }: Omit<Window, 'kind'> & { forecastSource: string },
): Promise<KnownHour[]> {
  const time = at.toISOString();
  const [answer] = await queryRows(orm)<{ hours: HourRow[] | null }>`select json_agg(json_build_array(
        date, hour, ${milliseconds('observed_at')}, ${milliseconds('fetched_at')}, temperature, highest, lowest
      ) order by date, hour) as hours
    from observed_hours
    where forecast_source = ${forecastSource} and station = ${stationId} and date >= ${from}::date
      and observed_at <= ${time}::timestamptz and fetched_at <= ${time}::timestamptz`;
  const hours = answer?.hours ?? [];
  return hours.map(([date, hour, observedMs, fetchedMs, temperatureF, highestF, lowestF]) => ({
    stationId,
    date,
    hour,
    temperatureF,
    highestF,
    lowestF,
    observedAt: new Date(observedMs),
    fetchedAt: new Date(fetchedMs),
  }));
}

type HourRow = [
  date: string,
  hour: number,
  observedMs: number,
  fetchedMs: number,
  temperature: number,
  highest: number | null,
  lowest: number | null,
];

export async function readReports(
  orm: Orm,
  { marketSource, kind, stationId, from, at }: Window & { marketSource: string },
): Promise<SettledDay[]> {
  const rows = await queryRows(orm)<{ date: string; hour: number; temperatureF: number; knownMs: number }>`
    select distinct on (date, hour) date::text, hour, temperature as "temperatureF", ${milliseconds('known_at')} as "knownMs"
    from climate_reports
    where market_source = ${marketSource} and kind = ${kind} and station = ${stationId} and date >= ${from}::date
      and known_at <= ${at.toISOString()}::timestamptz
    order by date, hour, known_at desc`;
  return rows.map(({ date, hour, temperatureF, knownMs }) => ({
    ...toTarget({ kind, stationId, date, hour }),
    temperatureF,
    knownAt: new Date(knownMs),
  }));
}

export async function readFirstDate(
  orm: Orm,
  { forecastSource, kind, stationId }: Pick<Window, 'kind' | 'stationId'> & { forecastSource: string },
): Promise<string | undefined> {
  const [first] = await queryRows(orm)<{ date: string }>`select date::text from ensemble_runs
    where forecast_source = ${forecastSource} and kind = ${kind} and station = ${stationId}
    order by date limit 1`;
  return first?.date;
}

/** Limits how many retained rows each clean-up scans. */
const LOOKED_BACK_DAYS = 31;

/**
 * Seasonal fits learn from the first model's daily runs.
 * @param long every run for a date before this is deleted
 */
export async function deleteOldRuns(orm: Orm, before: string, long: string): Promise<void> {
  const isShort = sql`date < ${before}::date and date >= ${before}::date - ${LOOKED_BACK_DAYS}::int and (model <> ${MAIN_MODEL} or kind = 'hourly')`;
  for (const where of [sql`date < ${long}::date`, isShort]) await deleteSome(orm, ensembleRuns, where);
}

export const deleteDaysBefore = (orm: Orm, table: PgTable, before: string): Promise<unknown> =>
  deleteSome(orm, table, sql`date < ${before}::date`);

const deleteSome = (orm: Orm, table: PgTable, where: SQL): Promise<unknown> =>
  orm.execute(sql`
    delete from ${table} where ctid = any(array(
      select ctid from ${table} where ${where} order by date limit ${DELETED_AT_ONCE}
    ))`);
