import { and, desc, eq, gte, inArray, isNotNull, isNull, sql } from 'drizzle-orm';
import type { Orm } from '../../db/client.js';
import { selectRows } from '../../db/select-rows.js';
import { forecastRecords } from '../forecast/table.js';
import type { ForecastRecord, NewRecord, Scores } from './records.js';

/** Whose records: of one pair of sources. */
export interface Sources {
  marketSource: string;
  forecastSource: string;
}

const ofSources = ({ marketSource, forecastSource }: Sources) =>
  and(eq(forecastRecords.marketSource, marketSource), eq(forecastRecords.forecastSource, forecastSource));

/** The first writer wins: a record is never changed by another look at the same moment. */
export async function insertRecords(orm: Orm, records: NewRecord[]): Promise<void> {
  await orm.insert(forecastRecords).values(records).onConflictDoNothing();
}

/** The records of these days that have no outcome yet. */
export async function listOpenRecords(
  orm: Orm,
  sources: Sources,
  dates: string[],
): Promise<ForecastRecord[]> {
  return orm
    .select()
    .from(forecastRecords)
    .where(and(ofSources(sources), inArray(forecastRecords.date, dates), isNull(forecastRecords.outcome)))
    .limit(1_000);
}

export async function setOutcome(
  orm: Orm,
  record: ForecastRecord,
  outcome: Scores & { outcome: number; settledAt: Date },
): Promise<void> {
  await orm
    .update(forecastRecords)
    .set(outcome)
    .where(
      and(
        ofSources(record),
        eq(forecastRecords.station, record.station),
        eq(forecastRecords.date, record.date),
        eq(forecastRecords.leadHours, record.leadHours),
        isNull(forecastRecords.outcome),
      ),
    );
}

/** How many records there are of each day since a date. */
export async function countByDate(
  orm: Orm,
  sources: Sources,
  since: string,
): Promise<{ date: string; count: number }[]> {
  return orm
    .select({ date: forecastRecords.date, count: sql<number>`count(*)::int` })
    .from(forecastRecords)
    .where(and(ofSources(sources), gte(forecastRecords.date, since)))
    .groupBy(forecastRecords.date)
    .limit(1_000);
}

export interface Wanted extends Sources {
  method: string;
  /** The first day. */
  since: string;
  /** Left out: all. */
  station: string | undefined;
}

/** Means over a group of records; station and lead are null where the group has all of them. */
export interface Means {
  station: string | null;
  leadHours: number | null;
  /** Records that model and market are both scored for: only these are compared. */
  n: number;
  waiting: number;
  withoutMarket: number;
  since: string | null;
  modelLogScore: number | null;
  modelRps: number | null;
  marketLogScore: number | null;
  marketRps: number | null;
}

/** By station and lead, by station, by lead, and over all. */
export async function meanScores(orm: Orm, wanted: Wanted): Promise<Means[]> {
  const both = sql`filter (where market_log_score is not null)`;
  return selectRows<Means>(
    orm,
    sql`
      select
        station,
        lead_hours as "leadHours",
        count(*) ${both}::int as n,
        count(*) filter (where outcome is null)::int as waiting,
        count(*) filter (where outcome is not null and market_log_score is null)::int as "withoutMarket",
        (min(date) ${both})::text as since,
        avg(model_log_score) ${both} as "modelLogScore",
        avg(model_rps) ${both} as "modelRps",
        avg(market_log_score) as "marketLogScore",
        avg(market_rps) as "marketRps"
      from forecast_records
      where market_source = ${wanted.marketSource}
        and forecast_source = ${wanted.forecastSource}
        and method = ${wanted.method}
        and date >= ${wanted.since}
        ${wanted.station === undefined ? sql`` : sql`and station = ${wanted.station}`}
      group by grouping sets ((station, lead_hours), (station), (lead_hours), ())
    `,
  );
}

/** The newest days that have come out. */
export async function listScoredRecords(
  orm: Orm,
  { method, since, station, ...sources }: Wanted,
  limit: number,
): Promise<ForecastRecord[]> {
  return orm
    .select()
    .from(forecastRecords)
    .where(
      and(
        ofSources(sources),
        eq(forecastRecords.method, method),
        gte(forecastRecords.date, since),
        station === undefined ? undefined : eq(forecastRecords.station, station),
        isNotNull(forecastRecords.outcome),
      ),
    )
    .orderBy(desc(forecastRecords.date), forecastRecords.station, forecastRecords.leadHours)
    .limit(limit);
}
