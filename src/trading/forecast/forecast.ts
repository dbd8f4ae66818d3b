import type { MarketEvent } from '../markets/event.js';
import type { Target } from '../markets/market.js';
import type { Place } from '../settlement/stations.js';
import type { Fit, FitBook } from './fits.js';

/** One run of an ensemble for one temperature. */
export interface DayEnsemble extends Target {
  /** When the weather model was started: nothing later is in it. */
  modelRunAt: Date;
  /** When we got it. */
  fetchedAt: Date;
  /** What each member says, °F. */
  membersF: readonly number[];
}

/**
 * The highest (of a minimum: the lowest) temperature that a station has reported within a climate day so far; of an hour what the
 * index says of it, once it does. Only what the day's report cannot be below (above) may stand here: readings that are rounded
 * twice on their way are a degree or two off.
 */
export interface ObservedExtreme extends Target {
  extremeF: number;
  /** When the latest report was made. */
  observedAt: Date;
  fetchedAt: Date;
}

/** What a weather source knew at one time. */
export interface WeatherData {
  fetchedAt: Date;
  ensembles: readonly DayEnsemble[];
  observed: readonly ObservedExtreme[];
}

/** Where forecasts and observations come from. */
export interface WeatherSource {
  readonly name: string;
  /** How long its data are good for: it is not asked again before. */
  readonly freshMs: number;
  /** Rejects with whatever cannot be trusted; the caller keeps what it had. */
  read(signal: AbortSignal): Promise<WeatherData>;
  /** Left out where nobody can say any more what was forecast in the past. */
  readonly history?: WeatherHistory;
}

/** Nobody can say any more what was forecast in the past. */
export class NoHistoryError extends Error {
  override readonly name = 'NoHistoryError';
}

/** What was forecast in the past. A forecast that was made of later data has no place here. */
export interface WeatherHistory {
  /**
   * The runs that were made for some climate days, at most 31 of them.
   * @param from the first day; @param to the last one
   * @returns with `fetchedAt` as the time at which each run really came into our hands: for what is asked for afterwards that
   * is now
   * @throws NoHistoryError, or as `read` does
   */
  readRuns(range: { from: string; to: string }, signal: AbortSignal): Promise<DayEnsemble[]>;
}

/**
 * How a distribution was made. `emos`: corrected by a fit of the station's own past. `emos_pooled`: by one of all stations
 * together. `raw_ensemble`: the members' own mean and spread, not corrected by anything.
 */
export type ForecastMethod = 'emos' | 'emos_pooled' | 'raw_ensemble';

/** What is expected of one climate day at one station. */
export interface DayForecast {
  date: string;
  eventTicker: string | null;
  method: ForecastMethod;
  /** Corrected by how earlier forecasts came out: true for every method but `raw_ensemble`. */
  isCalibrated: boolean;
  /** Why it was not made in a better way, in words; null for the best one. */
  fallback: string | null;
  /** What it was corrected by; null for `raw_ensemble`. */
  fit: Fit | null;
  /** From the start of the weather model's run to the end of the day. */
  leadHours: number;
  /** °F, of the day's maximum before what was observed is taken into account. */
  meanF: number;
  deviationF: number;
  /** The members' own, before any correction. */
  rawMeanF: number;
  rawDeviationF: number;
  /** The whole degree that the report is sure to reach, by what was observed; null while nothing is known of the day. */
  atLeastF: number | null;
  /** °F, of the maximum given what was observed, before it is rounded. Once the day is over they are what was observed. */
  quantiles: readonly { probability: number; temperatureF: number }[];
  membersF: readonly number[];
  modelRunAt: Date;
  fetchedAt: Date;
  observed: ObservedExtreme | null;
  /** By market: the probability that its YES pays. Over a whole event they sum to one. */
  probabilities: ReadonlyMap<string, number>;
}

export interface StationForecast {
  station: Place;
  /** Name of the weather source. */
  source: string;
  /** In the order of days. */
  days: readonly DayForecast[];
}

/** What is expected of what an event is about; undefined where there is no forecast. */
export const forecastOf = (
  forecasts: ReadonlyMap<string, StationForecast>,
  { kind, station, date }: Pick<MarketEvent, 'kind' | 'station' | 'date'>,
): DayForecast | undefined =>
  kind === 'daily_maximum' ? forecasts.get(station.id)?.days.find((day) => day.date === date) : undefined;

/** Makes forecasts of what is known: pure, so that the same inputs give the same forecast. */
export type ForecastModel = (input: {
  source: string;
  weather: WeatherData;
  events: readonly MarketEvent[];
  fits: FitBook;
  at: Date;
}) => ReadonlyMap<string, StationForecast>;
