import { sql } from 'drizzle-orm';
import {
  check,
  date,
  doublePrecision,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
} from 'drizzle-orm/pg-core';

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date', precision: 6 });

/**
 * What the model and the market said about a day at a fixed time before its end, and how it came out. Written once and only
 * while it was the present: nothing here was known later.
 */
export const forecastRecords = pgTable(
  'forecast_records',
  {
    /** ICAO id. */
    station: text().notNull(),
    /** The climate day. */
    date: date({ mode: 'string' }).notNull(),
    /** Hours from the record to the end of the climate day. */
    leadHours: integer('lead_hours').notNull(),
    recordedAt: time('recorded_at').notNull(),
    marketSource: text('market_source').notNull(),
    forecastSource: text('forecast_source').notNull(),
    /** How the forecast was made: `raw_ensemble`. */
    method: text().notNull(),
    modelRunAt: time('model_run_at').notNull(),
    mean: doublePrecision().notNull(),
    deviation: doublePrecision().notNull(),
    /** From cold to warm: the brackets, the model's probability of each, and the market's (its mid prices, made to sum to one). */
    brackets: jsonb()
      .$type<
        { ticker: string; floor: number | null; cap: number | null; model: number; market: number | null }[]
      >()
      .notNull(),
    /** The reported temperature in whole degrees, once the venue has determined the day. */
    outcome: integer(),
    settledAt: time('settled_at'),
    modelLogScore: doublePrecision('model_log_score'),
    modelRps: doublePrecision('model_rps'),
    marketLogScore: doublePrecision('market_log_score'),
    marketRps: doublePrecision('market_rps'),
  },
  (t) => [
    primaryKey({ columns: [t.marketSource, t.forecastSource, t.station, t.date, t.leadHours] }),
    // Serves the scores of the last days, and the records of a day that has just settled.
    index('forecast_records_recent').on(t.marketSource, t.forecastSource, t.date),
    check('forecast_records_lead', sql`${t.leadHours} >= 0`),
  ],
);
