import { sql } from 'drizzle-orm';
import {
  boolean,
  check,
  date,
  doublePrecision,
  index,
  integer,
  jsonb,
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
import type { Fit } from './fits.js';
import type { Mix } from './mix.js';

/**
 * What is forecast. `hour` is by the clock of the place and only of hours; of a day it is 0 and means nothing, so that it can be
 * a part of keys.
 */
const targetColumns = {
  kind: text().$type<TemperatureKind>().notNull().default('daily_maximum'),
  /** Id of a station or an area. */
  station: text().notNull(),
  /** The climate day; of an hour the date by the clock. */
  date: date({ mode: 'string' }).notNull(),
  hour: smallint().notNull().default(0),
};

/** `hour` of a target as it is stored. */
const hourCheck = (name: string, t: { kind: AnyPgColumn; hour: AnyPgColumn }) =>
  check(name, sql`${t.hour} between 0 and 23 and (${t.kind} = 'hourly' or ${t.hour} = 0)`);

const sourceColumns = {
  forecastSource: text('forecast_source').notNull(),
  marketSource: text('market_source').notNull(),
};

/** Of what was learned: what of, from which days, by what was known until when. */
const learnedColumns = {
  id: uuid().primaryKey(),
  ...sourceColumns,
  firstDate: date('first_date', { mode: 'string' }).notNull(),
  lastDate: date('last_date', { mode: 'string' }).notNull(),
  knownThrough: time('known_through').notNull(),
  trainedAt: time('trained_at').notNull(),
};

/** Which of a source's models; its first one where rows are from before there were several. */
const modelColumn = () => text('model').notNull().default(MAIN_MODEL);

/** Dollars of a contract of either side, with its fee. */
export interface BracketCost {
  yes: number;
  no: number;
}

interface RecordedBracket {
  ticker: string;
  floor: number | null;
  cap: number | null;
  /** The model's probability. */
  model: number;
  /** The market's: its mid prices, made to sum to one over what can come. */
  market: number | null;
  /** What it cost then; null where it had no price, left out in records of earlier versions. */
  cost?: BracketCost | null;
}

/** What a model said by itself before anything was observed, and its share in the forecast. */
interface RecordedModel {
  model: string;
  weight: number;
  /** °F. */
  mean: number;
  deviation: number;
  /** Left out: normal. */
  shape?: DistributionShape;
}

/** Of one of several models by itself, as the scores of the record are. */
export interface ModelScore {
  logScore: number;
  crps: number;
}

/**
 * What the model and the market said about a day at a fixed time before its end (about an hour: before it), and how it came out. Written once and only
 * while it was the present: nothing here was known later.
 */
export const forecastRecords = pgTable(
  'forecast_records',
  {
    ...targetColumns,
    /** Hours from the record to the end of the climate day, or to the hour. */
    leadHours: integer('lead_hours').notNull(),
    recordedAt: time('recorded_at').notNull(),
    ...sourceColumns,
    /** How the forecast was made, see `ForecastMethod`. */
    method: text().$type<ForecastMethod>().notNull(),
    /** The fit it was corrected by. */
    fitId: uuid('fit_id'),
    modelRunAt: time('model_run_at').notNull(),
    mean: doublePrecision().notNull(),
    deviation: doublePrecision().notNull(),
    /** The whole degree that a maximum's report was sure to reach, and that a minimum's could not be above. */
    atLeast: integer('at_least'),
    atMost: integer('at_most'),
    /** The probability that it stays there; null where all that has been ruled out was cut off instead. */
    stays: doublePrecision(),
    /** Null: normal. */
    shape: text().$type<DistributionShape>(),
    /** What the ensemble said before any correction, °F. */
    members: doublePrecision().array(),
    /** Of a forecast before the day, where several models had a run: those that had a share. */
    models: jsonb().$type<RecordedModel[]>(),
    /** Mean and deviation of what was reported in the 30 days that were known then; null where they were too few. */
    climateMean: doublePrecision('climate_mean'),
    climateDeviation: doublePrecision('climate_deviation'),
    /** From cold to warm. */
    brackets: jsonb().$type<RecordedBracket[]>().notNull(),
    /** The reported temperature, once the venue is done with it: whole degrees of a day, hundredths of an hour. */
    outcome: doublePrecision(),
    settledAt: time('settled_at'),
    modelLogScore: doublePrecision('model_log_score'),
    modelRps: doublePrecision('model_rps'),
    marketLogScore: doublePrecision('market_log_score'),
    marketRps: doublePrecision('market_rps'),
    /** The model's log score ahead of what the outcome cost to buy; and the least that could have been, known before. Null without prices. */
    advantage: doublePrecision(),
    worstAdvantage: doublePrecision('worst_advantage'),
    /** By model, of `models`. */
    modelScores: jsonb('model_scores').$type<Record<string, ModelScore>>(),
    /** °F: of the same degrees for each of the four. */
    modelCrps: doublePrecision('model_crps'),
    rawCrps: doublePrecision('raw_crps'),
    climateCrps: doublePrecision('climate_crps'),
    marketCrps: doublePrecision('market_crps'),
    /** The model's probability of less than the outcome, and of at most the outcome. */
    pitLow: doublePrecision('pit_low'),
    pitHigh: doublePrecision('pit_high'),
  },
  (t) => [
    primaryKey({
      name: 'forecast_records_pk',
      columns: [t.marketSource, t.forecastSource, t.kind, t.station, t.date, t.hour, t.leadHours],
    }),
    // Serves the scores of the last days, and the records of a day that has just settled.
    index('forecast_records_recent').on(t.marketSource, t.forecastSource, t.kind, t.date),
    check('forecast_records_lead', sql`${t.leadHours} >= 0`),
    hourCheck('forecast_records_hour', t),
  ],
);

/** Each run of an ensemble for one temperature, as it was when it came into our hands. Written once. */
export const ensembleRuns = pgTable(
  'ensemble_runs',
  {
    forecastSource: text('forecast_source').notNull(),
    model: modelColumn(),
    ...targetColumns,
    modelRunAt: time('model_run_at').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    /** What each member says, °F. */
    members: doublePrecision().array().notNull(),
    /** Their mean and sample variance (0 for a single one): what training reads, so that it need not read the members. */
    mean: doublePrecision().notNull(),
    variance: doublePrecision().notNull(),
    /** Of a day: the members' mean hour by hour, °F. Kept with its maximum alone: the minimum's is the same. */
    curve: doublePrecision().array(),
  },
  (t) => [
    // Serves a station's training window.
    primaryKey({
      name: 'ensemble_runs_pk',
      columns: [t.forecastSource, t.kind, t.station, t.date, t.hour, t.modelRunAt, t.model],
    }),
    // Serves the clean-up.
    index('ensemble_runs_age').on(t.date),
    hourCheck('ensemble_runs_hour', t),
  ],
);

/**
 * What stations had reported when the temperature of an hour became known: written once, so that it stays what was known then. Hours
 * are of the climate day, by local standard time.
 */
export const observedHours = pgTable(
  'observed_hours',
  {
    forecastSource: text('forecast_source').notNull(),
    station: text().notNull(),
    date: date({ mode: 'string' }).notNull(),
    hour: smallint().notNull(),
    /** When the latest report was made, and when it came into our hands. */
    observedAt: time('observed_at').notNull(),
    fetchedAt: time('fetched_at').notNull(),
    /** °F at the hour. */
    temperature: doublePrecision().notNull(),
    /** The day's extremes so far, °F; null of an hour that was not the latest any more. */
    highest: doublePrecision(),
    lowest: doublePrecision(),
  },
  (t) => [
    // Serves a station's training window.
    primaryKey({ name: 'observed_hours_pk', columns: [t.forecastSource, t.station, t.date, t.hour] }),
    // Serves the clean-up.
    index('observed_hours_age').on(t.date),
    check('observed_hours_hour', sql`${t.hour} between 0 and 23`),
  ],
);

/** What the markets of a day or an hour were settled by. A correction is another row: what was known before stays what was known. */
export const climateReports = pgTable(
  'climate_reports',
  {
    marketSource: text('market_source').notNull(),
    ...targetColumns,
    knownAt: time('known_at').notNull(),
    /** Whole degrees of a day, hundredths of an hour. */
    temperature: doublePrecision().notNull(),
  },
  (t) => [
    // Serves a station's training window.
    primaryKey({
      name: 'climate_reports_pk',
      columns: [t.marketSource, t.kind, t.station, t.date, t.hour, t.knownAt],
    }),
    // Serves the clean-up.
    index('climate_reports_age').on(t.date),
    hourCheck('climate_reports_hour', t),
  ],
);

/** Fits and what they were trained on. Written once. */
export const forecastFits = pgTable(
  'forecast_fits',
  {
    ...learnedColumns,
    model: modelColumn(),
    kind: text().$type<TemperatureKind>().notNull().default('daily_maximum'),
    /** Null: all stations together. */
    station: text(),
    /** See `fitLeadOf`. */
    leadHours: integer('lead_hours').notNull(),
    /** By name. Null of earlier versions' fits, which were of a normal distribution: they are kept as what was forecast by. */
    coefficients: jsonb().$type<Fit['coefficients']>(),
    a: doublePrecision(),
    b: doublePrecision(),
    c: doublePrecision(),
    d: doublePrecision(),
    stationBias: jsonb('station_bias').$type<Record<string, number>>(),
    hourBias: jsonb('hour_bias').$type<Record<string, number>>(),
    n: integer().notNull(),
    lowestMean: doublePrecision('lowest_mean').notNull(),
    highestMean: doublePrecision('highest_mean').notNull(),
    trainingCrps: doublePrecision('training_crps').notNull(),
    rawCrps: doublePrecision('raw_crps').notNull(),
    /** One for each day or hour: what the fit saw. Empty of a station's own long past, of which the archive has what was known then. */
    training: jsonb()
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
  },
  (t) => [
    // Serves the fits in use: the newest of each model, kind, station and lead.
    index('forecast_fits_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
    check('forecast_fits_variance', sql`${t.c} >= 0 and ${t.d} >= 0`),
  ],
);

/** By what several models are mixed. Written once. */
export const forecastMixes = pgTable(
  'forecast_mixes',
  {
    ...learnedColumns,
    kind: text().$type<TemperatureKind>().notNull(),
    leadHours: integer('lead_hours').notNull(),
    skill: jsonb().$type<Mix['skill']>().notNull(),
    correlation: jsonb().$type<Mix['correlation']>().notNull(),
  },
  (t) => [
    // Serves those in use: the newest of each kind and lead.
    index('forecast_mixes_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
  ],
);

/** How each gate was judged last, so that a change of it is told once. */
export const signalGates = pgTable(
  'signal_gates',
  {
    ...sourceColumns,
    kind: text().$type<TemperatureKind>().notNull(),
    station: text().notNull(),
    leadHours: integer('lead_hours').notNull(),
    isOpen: boolean('is_open').notNull(),
    judgedAt: time('judged_at').notNull(),
  },
  (t) => [primaryKey({ columns: [t.marketSource, t.forecastSource, t.kind, t.station, t.leadHours] })],
);

/** Fits of days while they run, one for each kind and hour, and what they were trained on. Written once. */
export const sameDayFits = pgTable(
  'same_day_fits',
  {
    ...learnedColumns,
    kind: text().$type<DailyKind>().notNull(),
    /** The latest that was known of a day. */
    hour: smallint().notNull(),
    coefficients: jsonb().$type<Record<string, number>>().notNull(),
    /** Null where none is needed. */
    hurdle: jsonb().$type<number[]>(),
    stationBias: jsonb('station_bias').$type<Record<string, number>>().notNull(),
    n: integer().notNull(),
    trainingCrps: doublePrecision('training_crps').notNull(),
    rawCrps: doublePrecision('raw_crps').notNull(),
    /**
     * One for each day: what the fit saw. The hour itself and the run are in the archive: they are named, since a day's fits see
     * tens of thousands of days together.
     */
    training: jsonb()
      .$type<[station: string, date: string, modelRunAt: string, observed: number][]>()
      .notNull(),
  },
  (t) => [
    // Serves the fits in use: the newest of each kind and hour.
    index('same_day_fits_newest').on(t.forecastSource, t.marketSource, t.trainedAt),
    check('same_day_fits_hour', sql`${t.hour} between 0 and 22`),
  ],
);
