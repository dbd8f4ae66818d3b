import { and, gte, inArray, isNull, sql } from 'drizzle-orm';
import { intArray, textArray, insertRows, queryRows, matches } from '../../core/db/sql.js';
import type { Orm, Tx } from '../../core/db/client.js';
import type { ForecastMethod } from '../learning/forecast.js';
import type { SourceNames } from '../learning/queries.js';
import { forecastRecords, type ForecastRecord } from '../learning/table.js';
import { temperatureKinds } from '../market/market.js';
import type { GateBook } from '../signals/signal.js';
import type { NewRecord } from './records.js';
import type { Scores } from './score.js';

export type JudgedRecord = Pick<
  ForecastRecord,
  'kind' | 'station' | 'date' | 'leadHours' | 'method' | 'advantage' | 'worstAdvantage' | 'settledAt'
>;

export const ofSources = ({ marketSource, forecastSource }: SourceNames) =>
  matches(forecastRecords, { marketSource, forecastSource });

/** Returns indices of changed gates, except new ones and those with a later judgement. */
export async function storeGates(
  tx: Tx,
  sources: SourceNames,
  { gates, madeAt }: GateBook,
): Promise<number[]> {
  const { marketSource, forecastSource } = sources;
  const at = madeAt!.toISOString();
  const judged = sql`unnest(
    ${textArray(gates.map(({ kind }) => kind))}::text[], ${textArray(gates.map(({ stationId }) => stationId))}::text[],
    ${intArray(gates.map(({ leadHours }) => leadHours))}::int[], ${textArray(gates.map(({ isOpen }) => String(isOpen)))}::bool[]
  ) with ordinality as j (kind, station, lead_hours, is_open, ord)`;
  await tx.execute(sql`
    insert into signal_gates (market_source, forecast_source, kind, station, lead_hours, is_open, judged_at)
    select ${marketSource}, ${forecastSource}, kind, station, lead_hours, is_open, ${at}::timestamptz from ${judged}
    order by kind, station, lead_hours
    on conflict do nothing`);
  const changed = await queryRows(tx)<{ place: number }>`
    update signal_gates g set is_open = j.is_open, judged_at = ${at}::timestamptz
    from ${judged}
    where (g.market_source, g.forecast_source, g.kind, g.station, g.lead_hours) = (${marketSource}, ${forecastSource}, j.kind, j.station, j.lead_hours)
      and g.is_open <> j.is_open and g.judged_at < ${at}::timestamptz
    returning (j.ord - 1)::int as place`;
  return changed.map(({ place }) => place);
}

/** A second instance never changes an existing record. */
export const insertRecords = (orm: Orm, records: readonly NewRecord[]): Promise<void> =>
  insertRows(orm, forecastRecords, records);

export async function listOpenRecords(orm: Orm, sources: SourceNames, dates: string[]) {
  const { kind, date } = forecastRecords;
  const isWanted = and(inArray(kind, [...temperatureKinds]), inArray(date, dates));
  return orm
    .select()
    .from(forecastRecords)
    .where(and(ofSources(sources), isWanted, isNull(forecastRecords.outcome)))
    .limit(2_000);
}

export async function setOutcome(
  orm: Orm,
  record: ForecastRecord,
  outcome: Scores & { outcome: number; settledAt: Date },
): Promise<void> {
  const { kind, station, date, hour, leadHours } = record;
  const isRecord = matches(forecastRecords, { kind, station, date, hour, leadHours });
  await orm
    .update(forecastRecords)
    .set(outcome)
    .where(and(ofSources(record), isRecord, isNull(forecastRecords.outcome)));
}

/** One JSON text takes a fraction of the time that columns take. */
export async function listJudgedRecords(
  orm: Orm,
  { marketSource, forecastSource }: SourceNames,
  { kind, station, since, settledBy }: JudgedOf,
): Promise<JudgedRecord[]> {
  const [answer] = await queryRows(orm)<{ records: JudgedRow[] | null }>`select json_agg(json_build_array(
        date, lead_hours, method, advantage, worst_advantage, (extract(epoch from settled_at) * 1000)::float8
      )) as records
    from (
      select * from forecast_records
      where market_source = ${marketSource} and forecast_source = ${forecastSource} and kind = ${kind} and station = ${station}
        and date >= ${since}::date and settled_at <= ${settledBy.toISOString()}::timestamptz
      limit 40000
    ) as judged`;
  return (answer?.records ?? []).map(([date, leadHours, method, advantage, worstAdvantage, settledMs]) => ({
    kind,
    station,
    date,
    leadHours,
    method,
    advantage,
    worstAdvantage,
    settledAt: new Date(settledMs),
  }));
}

type JudgedOf = Pick<ForecastRecord, 'kind' | 'station'> & { since: string; settledBy: Date };

type JudgedRow = [
  date: string,
  leadHours: number,
  method: ForecastMethod,
  advantage: number | null,
  worstAdvantage: number | null,
  settledMs: number,
];

export async function listRecorded(orm: Orm, sources: SourceNames, since: string) {
  const { kind, station, date, hour, leadHours } = forecastRecords;
  return orm
    .select({ kind, station, date, hour, leadHours })
    .from(forecastRecords)
    .where(and(ofSources(sources), inArray(kind, [...temperatureKinds]), gte(date, since)))
    .limit(100_000);
}
