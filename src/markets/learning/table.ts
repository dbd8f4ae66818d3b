import { sql } from 'drizzle-orm';
import {
  check,
  date,
  index,
  pgTable,
  primaryKey,
  smallint,
  text,
  uuid,
  type AnyPgColumn,
} from 'drizzle-orm/pg-core';
import { time } from '../../core/db/sql.js';
import type { DistributionShape } from '../market/distribution.js';
import type { DailyKind, TemperatureKind } from '../market/market.js';
import { MAIN_MODEL } from '../weather/weather.js';
import { type ForecastMethod } from './forecast.js';
import type { Fit, Mix } from './fits.js';

/** Daily targets store a meaningless 0, so that the local hour can be part of keys. */
const targetColumns = {
  kind: text().$type<TemperatureKind>().notNull().default('daily_maximum'),
  station: text().notNull(),
  date: date({ mode: 'string' }).notNull(),
  hour: smallint().notNull().default(0),
};

const hourCheck = (name: string, t: { kind: AnyPgColumn; hour: AnyPgColumn }) =>
  check(name, sql`${t.hour} between 0 and 23 and (${t.kind} = 'hourly' or ${t.hour} = 0)`);

const sourceColumns = {
  forecastSource: text('forecast_source').notNull(),
  marketSource: text('market_source').notNull(),
};

const learnedColumns = {
  id: uuid().primaryKey(),
  ...sourceColumns,
  firstDate: date('first_date', { mode: 'string' }).notNull(),
  lastDate: date('last_date', { mode: 'string' }).notNull(),
  knownThrough: time('known_through').notNull(),
  trainedAt: time('trained_at').notNull(),
};

/** Rows from before other models were added belong to the first. */
const modelColumn = () => text('model').notNull().default(MAIN_MODEL);

export interface BracketCost {
  yes: number;
  no: number;
}

interface RecordedBracket {
  ticker: string;
  floor: number | null;
  cap: number | null;
  model: number;
  /** From mid prices, normalized to sum to one over the possible outcomes. */
  market: number | null;
  /** Null without a price, missing in records of earlier versions. */
  cost?: BracketCost | null;
}

interface RecordedModel {
  model: string;
  weight: number;
  /** °F. */
  mean: number;
  deviation: number;
  /** Undefined for a normal distribution. */
  shape?: DistributionShape;
}

export interface ModelScore {
  logScore: number;
  crps: number;
}

/** Model and market at a fixed time before the end. Written once, while current, so nothing learned later is in it. */
export const forecastRecords = pgTable(
  'forecast_records',
  (c) => ({
    ...targetColumns,
    leadHours: c.integer('lead_hours').notNull(),
    recordedAt: time('recorded_at').notNull(),
    ...sourceColumns,
    method: c.text().$type<ForecastMethod>().notNull(),
    fitId: c.uuid('fit_id'),
    modelRunAt: time('model_run_at').notNull(),
    mean: c.doublePrecision().notNull(),
    deviation: c.doublePrecision().notNull(),
    /** A maximum was certain to reach it (`atLeast`); a minimum could not exceed it (`atMost`). */
    atLeast: c.integer('at_least'),
    atMost: c.integer('at_most'),
    /** At that degree; null if the distribution was truncated there instead. */
    stays: c.doublePrecision(),
    /** Null means a normal distribution. */
    shape: c.text().$type<DistributionShape>(),
    members: c.doublePrecision().array(),
    /** Models with nonzero weight, if several had a run; only for forecasts made before the day. */
    models: c.jsonb().$type<RecordedModel[]>(),
    /** Mean of the reports of the last 30 days; null if there were too few. */
    climateMean: c.doublePrecision('climate_mean'),
    climateDeviation: c.doublePrecision('climate_deviation'),
    /** From coldest to warmest. */
    brackets: c.jsonb().$type<RecordedBracket[]>().notNull(),
    /** Once the venue has settled: whole degrees for a day, hundredths for an hour. */
    outcome: c.doublePrecision(),
    settledAt: time('settled_at'),
    modelLogScore: c.doublePrecision('model_log_score'),
    modelRps: c.doublePrecision('model_rps'),
    marketLogScore: c.doublePrecision('market_log_score'),
    marketRps: c.doublePrecision('market_rps'),
    /** ln of the model's probability of the outcome over its cost, and its minimum. Null without prices. */
    advantage: c.doublePrecision(),
    worstAdvantage: c.doublePrecision('worst_advantage'),
    modelScores: c.jsonb('model_scores').$type<Record<string, ModelScore>>(),
    /** °F, over the same degrees for all four forecasts. */
    modelCrps: c.doublePrecision('model_crps'),
    rawCrps: c.doublePrecision('raw_crps'),
    climateCrps: c.doublePrecision('climate_crps'),
    marketCrps: c.doublePrecision('market_crps'),
  }),
  (t) => [
    primaryKey({
      name: 'forecast_records_pk',
      columns: [t.marketSource, t.forecastSource, t.kind, t.station, t.date, t.hour, t.leadHours],
    }),
    // For the scores of recent days and the records of a day that has just settled.
    index('forecast_records_recent').on(t.marketSource, t.forecastSource, t.kind, t.date),
    check('forecast_records_lead', sql`${t.leadHours} >= 0`),
    hourCheck('forecast_records_hour', t),
  ],
);

export type ForecastRecord = typeof forecastRecords.$inferSelect;

/** Keeps what was first received. Written once. */
export const ensembleRuns = pgTable(
  'ensemble_runs',
  (c) => ({
    forecastSource: c.text('forecast_source').notNull(),
    model: modelColumn(),
    ...targetColumns,
    modelRunAt: time('model_run_at').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    members: c.doublePrecision().array().notNull(),
    /** Training need not read the members. The variance of a single member is 0. */
    mean: c.doublePrecision().notNull(),
    variance: c.doublePrecision().notNull(),
    /** Hourly means in °F, with the maximum only; the minimum has the same curve. */
    curve: c.doublePrecision().array(),
    /** Null if the source names none. */
    version: c.text(),
    /** The model's window may miss the day's extreme. Not used for training. */
    nearMidnight: c.boolean('near_midnight').notNull().default(false),
  }),
  (t) => [
    primaryKey({
      name: 'ensemble_runs_pk',
      columns: [t.forecastSource, t.kind, t.station, t.date, t.hour, t.modelRunAt, t.model],
    }),
    index('ensemble_runs_age').on(t.date),
    hourCheck('ensemble_runs_hour', t),
  ],
);

/** As known when each was first received, in local standard time. Written once. */
export const observedHours = pgTable(
  'observed_hours',
  (c) => ({
    forecastSource: c.text('forecast_source').notNull(),
    station: c.text().notNull(),
    date: c.date({ mode: 'string' }).notNull(),
    hour: c.smallint().notNull(),
    observedAt: time('observed_at').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    /** °F on the hour. */
    temperature: c.doublePrecision().notNull(),
    /** In °F; null if a later hour was already known. */
    highest: c.doublePrecision(),
    lowest: c.doublePrecision(),
  }),
  (t) => [
    primaryKey({ name: 'observed_hours_pk', columns: [t.forecastSource, t.station, t.date, t.hour] }),
    index('observed_hours_age').on(t.date),
    check('observed_hours_hour', sql`${t.hour} between 0 and 23`),
  ],
);

/** A correction adds a row, so that the value known earlier is preserved. */
export const climateReports = pgTable(
  'climate_reports',
  (c) => ({
    marketSource: c.text('market_source').notNull(),
    ...targetColumns,
    knownAt: time('known_at').notNull(),
    /** Whole degrees for a day, hundredths for an hour. */
    temperature: c.doublePrecision().notNull(),
  }),
  (t) => [
    primaryKey({
      name: 'climate_reports_pk',
      columns: [t.marketSource, t.kind, t.station, t.date, t.hour, t.knownAt],
    }),
    index('climate_reports_age').on(t.date),
    hourCheck('climate_reports_hour', t),
  ],
);

/** Written once. */
export const forecastFits = pgTable(
  'forecast_fits',
  (c) => ({
    ...learnedColumns,
    model: modelColumn(),
    kind: c.text().$type<TemperatureKind>().notNull().default('daily_maximum'),
    /** Null for a fit of all stations. */
    station: c.text(),
    leadHours: c.integer('lead_hours').notNull(),
    /** Null for fits of earlier versions with a normal distribution, which past forecasts used. */
    coefficients: c.jsonb().$type<Fit['coefficients']>(),
    a: c.doublePrecision(),
    b: c.doublePrecision(),
    c: c.doublePrecision(),
    d: c.doublePrecision(),
    stationBias: c.jsonb('station_bias').$type<Record<string, number>>(),
    hourBias: c.jsonb('hour_bias').$type<Record<string, number>>(),
    n: c.integer().notNull(),
    lowestMean: c.doublePrecision('lowest_mean').notNull(),
    highestMean: c.doublePrecision('highest_mean').notNull(),
    trainingCrps: c.doublePrecision('training_crps').notNull(),
    rawCrps: c.doublePrecision('raw_crps').notNull(),
    /** Empty for seasonal fits, because the archive still has the data. */
    training: c
      .jsonb()
      .$type<
        {
          station: string;
          date: string;
          hour?: number;
          modelRunAt: string;
          fetchedAt: string;
          mean: number;
          variance: number;
          temperature: number;
          knownAt: string;
        }[]
      >()
      .notNull(),
  }),
  (t) => [
    index('forecast_fits_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
    check('forecast_fits_variance', sql`${t.c} >= 0 and ${t.d} >= 0`),
  ],
);

/** Written once. */
export const forecastMixes = pgTable(
  'forecast_mixes',
  (c) => ({
    ...learnedColumns,
    kind: c.text().$type<TemperatureKind>().notNull(),
    leadHours: c.integer('lead_hours').notNull(),
    skill: c.jsonb().$type<Mix['skill']>().notNull(),
    correlation: c.jsonb().$type<Mix['correlation']>().notNull(),
  }),
  (t) => [index('forecast_mixes_newest').on(t.forecastSource, t.marketSource, t.trainedAt)],
);

/** Each change is reported once. */
export const signalGates = pgTable(
  'signal_gates',
  (c) => ({
    ...sourceColumns,
    kind: c.text().$type<TemperatureKind>().notNull(),
    station: c.text().notNull(),
    leadHours: c.integer('lead_hours').notNull(),
    isOpen: c.boolean('is_open').notNull(),
    judgedAt: time('judged_at').notNull(),
  }),
  (t) => [primaryKey({ columns: [t.marketSource, t.forecastSource, t.kind, t.station, t.leadHours] })],
);

/** One per kind and hour. Written once. */
export const sameDayFits = pgTable(
  'same_day_fits',
  (c) => ({
    ...learnedColumns,
    kind: c.text().$type<DailyKind>().notNull(),
    hour: c.smallint().notNull(),
    coefficients: c.jsonb().$type<Record<string, number>>().notNull(),
    hurdle: c.jsonb().$type<number[]>(),
    stationBias: c.jsonb('station_bias').$type<Record<string, number>>().notNull(),
    stationExtremeBias: c.jsonb('station_extreme_bias').$type<Record<string, number>>().notNull().default({}),
    n: c.integer().notNull(),
    trainingCrps: c.doublePrecision('training_crps').notNull(),
    rawCrps: c.doublePrecision('raw_crps').notNull(),
    /** References: the fits of one day cover tens of thousands of days of the archive. */
    training: c
      .jsonb()
      .$type<[station: string, date: string, modelRunAt: string, observed: number][]>()
      .notNull(),
  }),
  (t) => [
    index('same_day_fits_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
    check('same_day_fits_hour', sql`${t.hour} between 0 and 22`),
  ],
);
