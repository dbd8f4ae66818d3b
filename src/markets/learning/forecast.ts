import type { DistributionShape, TemperatureDistribution } from '../market/distribution.js';
import type { MarketEvent } from '../market/event.js';
import type { TemperatureKind } from '../market/market.js';
import type { Place } from '../market/stations.js';
import type { ObservedExtreme, WeatherData } from '../weather/weather.js';
import type { Fit, FitBook } from './fits.js';
import type { RunningDay } from './running-day.js';

/**
 * How a distribution was made. `same_day`: by how days went on that had come as far. `emos_pooled`: corrected by a fit of all stations
 * together. `emos`: half by that, half by one of the station's own long past. `raw_ensemble`: the members' own mean and spread, not corrected by anything.
 */
export const forecastMethods = ['same_day', 'emos', 'emos_pooled', 'raw_ensemble'] as const;
export type ForecastMethod = (typeof forecastMethods)[number];

/** What one of several models says by itself, and its share in the forecast. */
export interface ModelPart {
  /** `MAIN_MODEL`, `EARLIER_RUN`, or what the source calls it. */
  model: string;
  modelRunAt: Date;
  fetchedAt: Date;
  membersF: readonly number[];
  /** °F: of its members, and corrected by its own fit. */
  rawMeanF: number;
  meanF: number;
  deviationF: number;
  shape: DistributionShape;
  /** They sum to one. */
  weight: number;
  /** Why its weight is 0; null where it is not. */
  reason: string | null;
}

/** What is expected of one temperature: a climate day's maximum or minimum at a station, an hour's of an area. */
export interface DayForecast {
  kind: TemperatureKind;
  /** The climate day; of an hour the date by the clock. */
  date: string;
  /** By the clock of the place; of an hour only. */
  hour?: number;
  eventTicker: string | null;
  method: ForecastMethod;
  /** Corrected by how earlier forecasts came out: true for every method but `raw_ensemble`. */
  isCalibrated: boolean;
  /** Why it was not made in a better way, in words; null for the best one. */
  fallback: string | null;
  /** What the members were corrected by; null for nothing. */
  fit: Fit | null;
  /** The station's own fit with the seasons, which counts as much; left out: none. */
  seasonalFit?: Fit | undefined;
  /** From the start of the weather model's run to the end of the day, or to the hour. */
  leadHours: number;
  /** °F, before what was observed is taken into account. */
  meanF: number;
  deviationF: number;
  /** Of the distribution around them. */
  shape: DistributionShape;
  /** What went into mean and deviation, where more than one model has a run; left out: the first one alone. */
  models?: readonly ModelPart[] | undefined;
  /** The members' own, before any correction. */
  rawMeanF: number;
  rawDeviationF: number;
  /** What comes of it with what was observed: all probabilities are of this. */
  distribution: TemperatureDistribution;
  /** Of a day that runs, once something was observed of it; null for all others. */
  running: RunningDay | null;
  /** °F, given what was observed, before it is rounded. Once the day is over they are what was observed. */
  quantiles: readonly { probability: number; temperatureF: number }[];
  membersF: readonly number[];
  /** Of the members' mean, hour by hour; left out where it is not known. */
  curveF?: readonly number[] | undefined;
  modelRunAt: Date;
  fetchedAt: Date;
  observed: ObservedExtreme | null;
  /** By market: the probability that its YES pays. Over the brackets of a day they sum to one. */
  probabilities: ReadonlyMap<string, number>;
}

export interface StationForecast {
  station: Place;
  /** Name of the weather source. */
  source: string;
  /** Of every kind that there is a run of, in the order of kinds, dates and hours. */
  days: readonly DayForecast[];
}

/** What is expected of what an event is about; undefined where there is no forecast. */
export const forecastOf = (
  forecasts: ReadonlyMap<string, StationForecast>,
  { kind, station, date, hour }: Pick<MarketEvent, 'kind' | 'station' | 'date' | 'hour'>,
): DayForecast | undefined =>
  forecasts.get(station.id)?.days.find((day) => day.date === date && day.kind === kind && day.hour === hour);

/** Makes forecasts of what is known: pure, so that the same inputs give the same forecast. */
export type ForecastModel = (input: {
  source: string;
  weather: WeatherData;
  events: readonly MarketEvent[];
  fits: FitBook;
  at: Date;
}) => ReadonlyMap<string, StationForecast>;
