import { allAtOnce, type Steps } from '../../core/steps.js';
import type { DistributionShape, TemperatureDistribution } from '../market/distribution.js';
import type { MarketEvent } from '../market/event.js';
import type { TemperatureKind } from '../market/market.js';
import type { ObservedExtreme, WeatherData } from '../weather/weather.js';
import type { ExtremeHours } from './extreme-hours.js';
import type { Fit, FitBook } from './fits.js';
import type { RunningDay } from './running-day.js';
import type { Place } from '../market/place.js';

/**
 * `same_day`: from past days as observed up to the same hour. `emos_pooled`: corrected by a fit over all stations.
 * `emos`: with a fit to the station's own long archive. `raw_ensemble`: uncorrected.
 */
export const forecastMethods = ['same_day', 'emos', 'emos_pooled', 'raw_ensemble'] as const;
export type ForecastMethod = (typeof forecastMethods)[number];

export interface ModelPart {
  /** `MAIN_MODEL`, `EARLIER_RUN`, or the source's name. */
  model: string;
  modelRunAt: Date;
  fetchedAt: Date;
  membersF: readonly number[];
  /** °F. `rawMeanF` is the members' mean; the model's own fit corrects the others. */
  rawMeanF: number;
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** Weights sum to one. */
  weight: number;
  /** Explains a weight of 0. */
  reason: string | null;
}

/** A climate day's maximum or minimum at a station, or an area's temperature at one hour. */
export interface DayForecast {
  kind: TemperatureKind;
  date: string;
  hour?: number;
  eventTicker: string | null;
  method: ForecastMethod;
  /** True for every method but `raw_ensemble`. */
  isCalibrated: boolean;
  /** Why no better method was used; null for the best. */
  fallback: string | null;
  fit: Fit | null;
  /** Weighted equally with `fit`. */
  seasonalFit?: Fit | undefined;
  /** From the start of the model run to the end of the day, or to the hour. */
  leadHours: number;
  /** °F, before observations. */
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** Undefined if only the first model has a run. */
  models?: readonly ModelPart[] | undefined;
  rawMeanF: number;
  rawDeviationF: number;
  /** Given the observations; all probabilities are derived from it. */
  distribution: TemperatureDistribution;
  /** Null before a day's first observation. */
  running: RunningDay | null;
  /** °F, before rounding. After the end of the day they equal the observed value. */
  quantiles: readonly { probability: number; temperatureF: number }[];
  membersF: readonly number[];
  curveF?: readonly number[] | undefined;
  modelRunAt: Date;
  /** As in `DayEnsemble`. */
  isRunUnknown?: true | undefined;
  fetchedAt: Date;
  observed: ObservedExtreme | null;
  /** Omitted for an hour. */
  extremeHours?: ExtremeHours | undefined;
  /** Probability that YES pays, by ticker. The probabilities of a day's brackets sum to one. */
  probabilities: ReadonlyMap<string, number>;
}

export interface StationForecast {
  station: Place;
  source: string;
  /** By kind, date and hour. */
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

/** Pure: the same inputs give the same forecasts. */
export interface ForecastModel {
  (input: ForecastInput): ReadonlyMap<string, StationForecast>;
  inSteps(input: ForecastInput): Steps<ReadonlyMap<string, StationForecast>>;
}

export const modelOf = (inSteps: ForecastModel['inSteps']): ForecastModel =>
  Object.assign((input: ForecastInput) => allAtOnce(inSteps(input)), { inSteps });
