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
  uuid,
} from 'drizzle-orm/pg-core';
import type { ForecastMethod } from './forecast.js';

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
    /** How the forecast was made, see `ForecastMethod`. */
    method: text().$type<ForecastMethod>().notNull(),
    /** The fit it was corrected by. */
    fitId: uuid('fit_id'),
    modelRunAt: time('model_run_at').notNull(),
    mean: doublePrecision().notNull(),
    deviation: doublePrecision().notNull(),
    /** The whole degree that the report was sure to reach. */
    atLeast: integer('at_least'),
    /** What the ensemble said before any correction, °F. */
    members: doublePrecision().array(),
    /** Mean and deviation of what was reported in the 30 days that were known then; null where they were too few. */
    climateMean: doublePrecision('climate_mean'),
    climateDeviation: doublePrecision('climate_deviation'),
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
    /** °F: of whole degrees, on the same ones for each of the four. */
    modelCrps: doublePrecision('model_crps'),
    rawCrps: doublePrecision('raw_crps'),
    climateCrps: doublePrecision('climate_crps'),
    marketCrps: doublePrecision('market_crps'),
    /** The model's probability of less than the outcome, and of at most the outcome. */
    pitLow: doublePrecision('pit_low'),
    pitHigh: doublePrecision('pit_high'),
  },
  (t) => [
    primaryKey({ columns: [t.marketSource, t.forecastSource, t.station, t.date, t.leadHours] }),
    // Serves the scores of the last days, and the records of a day that has just settled.
    index('forecast_records_recent').on(t.marketSource, t.forecastSource, t.date),
    check('forecast_records_lead', sql`${t.leadHours} >= 0`),
  ],
);

/** Each run of an ensemble for one climate day, as it was when it came into our hands. Written once. */
export const ensembleRuns = pgTable(
  'ensemble_runs',
  {
    forecastSource: text('forecast_source').notNull(),
    station: text().notNull(),
    date: date({ mode: 'string' }).notNull(),
    modelRunAt: time('model_run_at').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    /** The day's maximum of each member, °F. */
    members: doublePrecision().array().notNull(),
    /** Their mean and sample variance (0 for a single one): what training reads, so that it need not read the members. */
    mean: doublePrecision().notNull(),
    variance: doublePrecision().notNull(),
  },
  (t) => [
    // Serves a station's training window.
    primaryKey({ columns: [t.forecastSource, t.station, t.date, t.modelRunAt] }),
    // Serves the clean-up.
    index('ensemble_runs_age').on(t.date),
  ],
);

/** What the markets of a day were settled by. A correction is another row: what was known before stays what was known. */
export const climateReports = pgTable(
  'climate_reports',
  {
    marketSource: text('market_source').notNull(),
    station: text().notNull(),
    date: date({ mode: 'string' }).notNull(),
    knownAt: time('known_at').notNull(),
    /** Whole degrees. */
    temperature: integer().notNull(),
  },
  (t) => [
    // Serves a station's training window.
    primaryKey({ columns: [t.marketSource, t.station, t.date, t.knownAt] }),
    // Serves the clean-up.
    index('climate_reports_age').on(t.date),
  ],
);

/** Fits and what they were trained on. Written once. */
export const forecastFits = pgTable(
  'forecast_fits',
  {
    id: uuid().primaryKey(),
    forecastSource: text('forecast_source').notNull(),
    marketSource: text('market_source').notNull(),
    /** Null: all stations together. */
    station: text(),
    /** See `fitLeadOf`. */
    leadHours: integer('lead_hours').notNull(),
    a: doublePrecision().notNull(),
    b: doublePrecision().notNull(),
    c: doublePrecision().notNull(),
    d: doublePrecision().notNull(),
    stationBias: jsonb('station_bias').$type<Record<string, number>>(),
    n: integer().notNull(),
    firstDate: date('first_date', { mode: 'string' }).notNull(),
    lastDate: date('last_date', { mode: 'string' }).notNull(),
    lowestMean: doublePrecision('lowest_mean').notNull(),
    highestMean: doublePrecision('highest_mean').notNull(),
    trainingCrps: doublePrecision('training_crps').notNull(),
    rawCrps: doublePrecision('raw_crps').notNull(),
    knownThrough: time('known_through').notNull(),
    trainedAt: time('trained_at').notNull(),
    /** One for each day: what the fit saw. */
    training: jsonb()
      .$type<
        {
          station: string;
          date: string;
          modelRunAt: string;
          fetchedAt: string;
          mean: number;
          variance: number;
          temperature: number;
          knownAt: string;
        }[]
      >()
      .notNull(),
  },
  (t) => [
    // Serves the fits in use: the newest of each station and lead.
    index('forecast_fits_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
    check('forecast_fits_variance', sql`${t.c} >= 0 and ${t.d} >= 0`),
  ],
);
