import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { queryRows } from '../../core/db/sql.js';
import type { ObservedExtreme } from '../weather/weather.js';
import type { climateProducts } from './table.js';

type Product = typeof climateProducts.$inferSelect;
export type DayKey = Pick<Product, 'station' | 'kind' | 'date'>;

interface NewReport extends Omit<Product, 'isFirstFinal' | 'settled'> {
  /** No earlier final report can have been missed. */
  isCertain: boolean;
}

const SHOWN = 10;

/** A day's first final report is the first only if no earlier one can have been missed. */
export const insertReport = (
  orm: Orm,
  { station, kind, date, issuedAt, fetchedAt, stage, value, isCertain }: NewReport,
): Promise<unknown> =>
  orm.execute(
    sql`insert into climate_products (station, kind, date, issued_at, fetched_at, stage, value, is_first_final)
    values (
      ${station}, ${kind}, ${date}, ${issuedAt.toISOString()}::timestamptz, ${fetchedAt.toISOString()}::timestamptz, ${stage}, ${value},
      ${isCertain} and not exists (
        select from climate_products p
        where p.station = ${station} and p.kind = ${kind} and p.date = ${date} and p.stage <> 'preliminary'
      )
    )
    on conflict do nothing`,
  );

export const listReported = (orm: Orm, since: string): Promise<(DayKey & { isFinal: boolean })[]> =>
  queryRows(orm)`
    select station, kind, date::text as date, bool_or(stage <> 'preliminary') as "isFinal" from climate_products
    where date >= ${since}::date
    group by station, kind, date`;

/** Each day's first final report, or else its most extreme value so far. */
export async function readObserved(orm: Orm, since: string): Promise<ObservedExtreme[]> {
  const rows = await queryRows(orm)<ReportRow>`
    select distinct on (station, kind, date) station, kind, date::text as date, is_first_final as "isFinal", value,
      (extract(epoch from issued_at) * 1000)::float8 as "issuedMs", (extract(epoch from fetched_at) * 1000)::float8 as "fetchedMs"
    from climate_products
    where date >= ${since}::date and (is_first_final or stage = 'preliminary')
    order by station, kind, date, is_first_final desc, case when kind = 'daily_maximum' then -value else value end, issued_at desc`;
  return rows.map(({ station, kind, date, isFinal, value, issuedMs, fetchedMs }) => ({
    kind,
    stationId: station,
    date,
    extremeF: value,
    observedAt: new Date(issuedMs),
    fetchedAt: new Date(fetchedMs),
    ...(isFinal && { isFinal }),
  }));
}

type ReportRow = DayKey & { isFinal: boolean; value: number; issuedMs: number; fetchedMs: number };

/** Overwrites values that the venue has revised. */
export const recordSettled = (orm: Orm, days: readonly (DayKey & { settled: number })[]): Promise<unknown> =>
  orm.execute(
    sql`update climate_products p set settled = d.settled
    from json_to_recordset(${JSON.stringify(days)}::json) as d(station text, kind text, date date, settled int)
    where p.station = d.station and p.kind = d.kind and p.date = d.date and p.is_first_final
      and p.settled is distinct from d.settled`,
  );

export interface CrossCheck {
  compared: number;
  agreed: number;
  since: string;
  /** Newest first, at most ten. */
  disagreements: { date: string; venue: number; report: number }[];
}

export const readCrossChecks = (orm: Orm): Promise<(CrossCheck & Omit<DayKey, 'date'>)[]> =>
  queryRows(orm)`
    select c.station, c.kind, c.compared, c.agreed, c.since, coalesce(d.days, '[]') as disagreements
    from (
      select station, kind, count(*)::int as compared, count(*) filter (where settled = value)::int as agreed,
        min(date)::text as since
      from climate_products where is_first_final and settled is not null
      group by station, kind
    ) c
    left join lateral (
      select json_agg(json_build_object('date', n.date, 'venue', n.settled, 'report', n.value) order by n.date desc) as days
      from (
        select date, settled, value from climate_products
        where is_first_final and station = c.station and kind = c.kind and settled <> value
        order by date desc limit ${SHOWN}
      ) n
    ) d on c.agreed < c.compared
    order by c.station, c.kind`;
