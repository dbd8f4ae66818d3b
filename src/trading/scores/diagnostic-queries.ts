import { sql } from 'drizzle-orm';
import type { Orm } from '../../core/db/client.js';
import { selectRows } from '../../core/db/select-rows.js';
import type { CrpsPoint } from '../../core/charts/series.js';
import type { DatedPit } from './pit-histogram.js';
import type { SaidRecord } from './reliability.js';
import type { Wanted } from './report-queries.js';

/** The calibrated records that are asked for, on the index of recent ones. */
const wantedRows = ({ marketSource, forecastSource, kind, since, station, leadHours }: Wanted) => sql`
  market_source = ${marketSource}
    and forecast_source = ${forecastSource}
    and kind = ${kind}
    and date >= ${since}
    and method <> 'raw_ensemble'
    ${station === undefined ? sql`` : sql`and station = ${station}`}
    ${leadHours === undefined ? sql`` : sql`and lead_hours = ${leadHours}`}
`;

/** What was said of the markets of a station, where model and market both said something; the newest. */
export async function listSaid(orm: Orm, wanted: Wanted & { station: string }): Promise<SaidRecord[]> {
  return selectRows<SaidRecord>(
    orm,
    sql`
      select kind, brackets, outcome
      from forecast_records
      where ${wantedRows(wanted)} and market_log_score is not null
      order by date desc, hour desc, lead_hours
      limit 2000
    `,
  );
}

/** Where outcomes lay in their forecasts; the newest. */
export async function listPits(orm: Orm, wanted: Wanted): Promise<DatedPit[]> {
  return selectRows<DatedPit>(
    orm,
    sql`
      select date::text as date, pit_low as below, pit_high as "atMost"
      from forecast_records
      where ${wantedRows(wanted)} and pit_low is not null and pit_high is not null
      order by date desc, hour desc, station, lead_hours
      limit 10000
    `,
  );
}

/** Mean CRPS of each day, of the forecasts that have all four; in the order of days. */
export async function listCrpsByDay(orm: Orm, wanted: Wanted): Promise<CrpsPoint[]> {
  return selectRows<CrpsPoint>(
    orm,
    sql`
      select
        date::text as date,
        count(*)::int as n,
        avg(model_crps) as model,
        avg(raw_crps) as raw,
        avg(climate_crps) as climate,
        avg(market_crps) as market
      from forecast_records
      where ${wantedRows(wanted)}
        and model_crps + raw_crps + climate_crps + market_crps is not null
      group by date
      order by date
      limit 400
    `,
  );
}
