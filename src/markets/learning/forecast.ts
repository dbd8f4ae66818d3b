import { allAtOnce, type Steps } from '../../core/steps.js';
import type { DistributionShape, TemperatureDistribution } from '../market/distribution.js';
import type { MarketEvent } from '../market/event.js';
import type { TemperatureKind } from '../market/market.js';
import type { ObservedExtreme, WeatherData } from '../weather/weather.js';
import type { Fit, FitBook } from './fits.js';
import type { RunningDay } from './running-day.js';
import type { Place } from '../market/place.js';

/**
 * How a distribution was made. `same_day`: from past days as observed up to the same hour. `emos_pooled`: corrected by
 * a fit over all stations. `emos`: the average of `emos_pooled` and a fit to the station's own long archive.
 * `raw_ensemble`: the members' own mean and spread, uncorrected.
 */
export const forecastMethods = ['same_day', 'emos', 'emos_pooled', 'raw_ensemble'] as const;
export type ForecastMethod = (typeof forecastMethods)[number];

export interface ModelPart {
  /** `MAIN_MODEL`, `EARLIER_RUN`, or the source's name for the model. */
  model: string;
  modelRunAt: Date;
  fetchedAt: Date;
  membersF: readonly number[];
  /** °F. `rawMeanF` is the members' mean; the other values are corrected by the model's own fit. */
  rawMeanF: number;
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** Weights sum to one. */
  weight: number;
  /** Reason for a weight of 0; null otherwise. */
  reason: string | null;
}

/**
 * Forecast of one temperature: a climate day's maximum or minimum at a station, or an area's temperature at one hour.
 */
export interface DayForecast {
  kind: TemperatureKind;
  date: string;
  hour?: number;
  eventTicker: string | null;
  method: ForecastMethod;
  /** True if corrected for past forecast errors, which holds for every method but `raw_ensemble`. */
  isCalibrated: boolean;
  /** Readable reason why no better method was used; null for the best method. */
  fallback: string | null;
  fit: Fit | null;
  /** The station's own seasonal fit, weighted equally with `fit`; omitted if the station has none. */
  seasonalFit?: Fit | undefined;
  /** Hours from the start of the model run to the end of the day, or to the hour. */
  leadHours: number;
  /** °F, before observations. */
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** Each model's contribution to the mean and standard deviation; omitted if only the first model has a run. */
  models?: readonly ModelPart[] | undefined;
  rawMeanF: number;
  rawDeviationF: number;
  /** The forecast given the observations; all probabilities are derived from it. */
  distribution: TemperatureDistribution;
  /** State of a day in progress; null before its first observation and for other days. */
  running: RunningDay | null;
  /** °F, given the observations, before rounding. After the end of the day they equal the observed value. */
  quantiles: readonly { probability: number; temperatureF: number }[];
  membersF: readonly number[];
  curveF?: readonly number[] | undefined;
  modelRunAt: Date;
  /** As in `DayEnsemble`. */
  isRunUnknown?: true | undefined;
  fetchedAt: Date;
  observed: ObservedExtreme | null;
  /** Probability that each market's YES pays, by ticker. The probabilities of a day's brackets sum to one. */
  probabilities: ReadonlyMap<string, number>;
}

export interface StationForecast {
  station: Place;
  source: string;
  /** Forecasts of every kind that has a run, ordered by kind, date and hour. */
  days: readonly DayForecast[];
}

export const forecastOf = (
  forecasts: ReadonlyMap<string, StationForecast>,
  { kind, station, date, hour }: Pick<MarketEvent, 'kind' | 'station' | 'date' | 'hour'>,
): DayForecast | undefined =>
  forecasts.get(station.id)?.days.find((day) => day.date === date && day.kind === kind && day.hour === hour);

export interface ForecastInput {
  source: string;
  weather: WeatherData;
  events: readonly MarketEvent[];
  fits: FitBook;
  at: Date;
}

/** Computes forecasts by station from known data. Pure: the same inputs give the same forecasts. */
export interface ForecastModel {
  (input: ForecastInput): ReadonlyMap<string, StationForecast>;
  inSteps(input: ForecastInput): Steps<ReadonlyMap<string, StationForecast>>;
}

export const modelOf = (inSteps: ForecastModel['inSteps']): ForecastModel =>
  Object.assign((input: ForecastInput) => allAtOnce(inSteps(input)), { inSteps });
