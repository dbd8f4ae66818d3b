import { and, desc, eq, gte, isNotNull, sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { queryRows } from '../../core/db/sql.js';
import { forecastRecords } from '../learning/table.js';
import type { TemperatureKind } from '../market/market.js';
import type { ForecastOutcome } from './diagnostics.js';
import { ofSources } from './queries.js';
import type { SourceNames } from '../learning/queries.js';
import type { CrpsPoint } from './schema.js';

/** Matches the index of recent records. */
const askedRows = ({ kind, since, station, leadHours, ...sources }: ReportQuery) =>
  and(
    ofSources(sources),
    eq(forecastRecords.kind, kind),
    gte(forecastRecords.date, since),
    station === undefined ? undefined : eq(forecastRecords.station, station),
    leadHours === undefined ? undefined : eq(forecastRecords.leadHours, leadHours),
  )!;

const calibratedRows = (wanted: ReportQuery) => sql`${askedRows(wanted)} and method <> 'raw_ensemble'`;

/** Newest first, where both model and market had probabilities. */
export async function listForecastOutcomes(orm: Orm, wanted: ReportQuery & { station: string }) {
  return queryRows(orm)<ForecastOutcome>`
    select kind, brackets, outcome
    from forecast_records
    where ${calibratedRows(wanted)} and market_log_score is not null
    order by date desc, hour desc, lead_hours
    limit 2000
  `;
}

/** Averages over the forecasts that have all four scores, in date order. */
export const listCrpsByDay = (orm: Orm, wanted: ReportQuery): Promise<CrpsPoint[]> => queryRows(orm)`
  select
    date::text as date,
    count(*)::int as n,
    avg(model_crps) as model,
    avg(raw_crps) as raw,
    avg(climate_crps) as climate,
    avg(market_crps) as market
  from forecast_records
  where ${calibratedRows(wanted)}
    and model_crps + raw_crps + climate_crps + market_crps is not null
  group by date
  order by date
  limit 400
`;

/** The mixture's means are over the same days. */
export interface ModelMeans {
  model: string;
  n: number;
  logScore: number;
  crps: number;
  mixedLogScore: number;
  mixedCrps: number;
  /** On the latest day with weights; null without such a day. */
  weight: number | null;
}

export const meanModelScores = (orm: Orm, wanted: ReportQuery): Promise<ModelMeans[]> => queryRows(orm)`
  with wanted as (
    select date, models, model_scores, model_log_score, model_crps
    from forecast_records
    where ${calibratedRows(wanted)} and models is not null
  ), latest as (
    select m.model, avg(m.weight) as weight
    from wanted, jsonb_to_recordset(models) as m(model text, weight float8)
    where date = (select max(date) from wanted)
    group by m.model
  )
  select
    s.key as model,
    count(*)::int as n,
    avg((s.value ->> 'logScore')::float8) as "logScore",
    avg((s.value ->> 'crps')::float8) as crps,
    avg(model_log_score) as "mixedLogScore",
    avg(model_crps) as "mixedCrps",
    min(latest.weight) as weight
  from wanted cross join jsonb_each(model_scores) as s left join latest on latest.model = s.key
  where model_scores is not null
  group by s.key
  order by s.key
  limit 20
`;

/** Oldest first; null for runs without a version. All places share versions, so one is enough. */
export const listStatedVersions = (
  orm: Orm,
  { forecastSource, kind, since }: ReportQuery,
  place: string,
): Promise<{ model: string; version: string | null; from: string }[]> => queryRows(orm)`
  select model, version, min(model_run_at at time zone 'UTC')::date::text as "from"
  from ensemble_runs
  where forecast_source = ${forecastSource} and kind = ${kind} and station = ${place} and date >= ${since}::date
  group by model, version
  order by min(model_run_at)
  limit 100
`;

export interface ReportQuery extends SourceNames {
  /** Kinds are never averaged together. */
  kind: TemperatureKind;
  since: string;
  /** For the hourly kind, an area. Undefined: all. Likewise `leadHours`. */
  station?: string | undefined;
  leadHours?: number | undefined;
}

/** Station or lead is null if the group covers all of them. */
export interface Means {
  isCalibrated: boolean;
  station: string | null;
  leadHours: number | null;
  /** Scored for both model and market. */
  n: number;
  waiting: number;
  withoutMarket: number;
  since: string | null;
  modelLogScore: number | null;
  modelRps: number | null;
  marketLogScore: number | null;
  marketRps: number | null;
  /** With all four CRPS values. */
  crpsN: number;
  modelCrps: number | null;
  rawCrps: number | null;
  climateCrps: number | null;
  marketCrps: number | null;
}

/** Calibrated and uncalibrated forecasts are separate. */
export async function meanScores(orm: Orm, wanted: ReportQuery): Promise<Means[]> {
  const both = sql`filter (where market_log_score is not null)`;
  const all = sql`filter (where model_crps + raw_crps + climate_crps + market_crps is not null)`;
  return queryRows(orm)<Means>`
    select
      method <> 'raw_ensemble' as "isCalibrated",
      station,
      lead_hours as "leadHours",
      count(*) ${both}::int as n,
      count(*) filter (where outcome is null)::int as waiting,
      count(*) filter (where outcome is not null and market_log_score is null)::int as "withoutMarket",
      (min(date) ${both})::text as since,
      avg(model_log_score) ${both} as "modelLogScore",
      avg(model_rps) ${both} as "modelRps",
      avg(market_log_score) as "marketLogScore",
      avg(market_rps) as "marketRps",
      count(*) ${all}::int as "crpsN",
      avg(model_crps) ${all} as "modelCrps",
      avg(raw_crps) ${all} as "rawCrps",
      avg(climate_crps) ${all} as "climateCrps",
      avg(market_crps) ${all} as "marketCrps"
    from forecast_records
    where ${askedRows(wanted)}
    group by grouping sets ((1, station, lead_hours), (1, station), (1, lead_hours), (1))
  `;
}

export async function listScoredRecords(orm: Orm, wanted: ReportQuery, limit: number) {
  return orm
    .select()
    .from(forecastRecords)
    .where(and(askedRows(wanted), isNotNull(forecastRecords.outcome)))
    .orderBy(
      desc(forecastRecords.date),
      forecastRecords.station,
      forecastRecords.hour,
      forecastRecords.leadHours,
    )
    .limit(limit);
}

/** Cheap to read, and changed by every record written or scored. */
export async function countRecords(orm: Orm, wanted: ReportQuery) {
  const [counts] = await orm
    .select({
      written: sql<number>`count(*)::int`,
      settled: sql<number>`count(outcome)::int`,
      lastSettled: sql<string | null>`max(settled_at)::text`,
    })
    .from(forecastRecords)
    .where(askedRows(wanted));
  return counts!;
}
