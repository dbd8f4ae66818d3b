import type { MarketEvent } from '../markets/event.js';
import type { Station } from '../settlement/stations.js';

/** One run of an ensemble for one climate day. */
export interface DayEnsemble {
  stationId: string;
  /** The climate day, `YYYY-MM-DD`. */
  date: string;
  /** When the weather model was started: nothing later is in it. */
  modelRunAt: Date;
  /** When we got it. */
  fetchedAt: Date;
  /** The day's maximum of each member, °F. */
  membersF: readonly number[];
}

/**
 * The highest temperature that a station has reported within a climate day so far. Only what the day's report cannot
 * be below may stand here: readings that are rounded twice on their way are a degree or two off.
 */
export interface ObservedMaximum {
  stationId: string;
  date: string;
  maximumF: number;
  /** When the station's latest report was made. */
  observedAt: Date;
  fetchedAt: Date;
}

/** What a weather source knew at one time. */
export interface WeatherData {
  fetchedAt: Date;
  ensembles: readonly DayEnsemble[];
  observed: readonly ObservedMaximum[];
}

/** Where forecasts and observations come from. */
export interface WeatherSource {
  readonly name: string;
  /** How long its data are good for: it is not asked again before. */
  readonly freshMs: number;
  /** Rejects with whatever cannot be trusted; the caller keeps what it had. */
  read(signal: AbortSignal): Promise<WeatherData>;
}

/** What is expected of one climate day at one station. */
export interface DayForecast {
  date: string;
  eventTicker: string | null;
  /** How the distribution was made: `raw_ensemble` is the members' own mean and spread, not corrected by anything. */
  method: 'raw_ensemble';
  isCalibrated: boolean;
  /** °F, of the day's maximum before what was observed is taken into account. */
  meanF: number;
  deviationF: number;
  /** °F, of the maximum given what was observed, before it is rounded. Once the day is over they are what was observed. */
  quantiles: readonly { probability: number; temperatureF: number }[];
  membersF: readonly number[];
  modelRunAt: Date;
  fetchedAt: Date;
  observed: ObservedMaximum | null;
  /** By market: the probability that its YES pays. Over a whole event they sum to one. */
  probabilities: ReadonlyMap<string, number>;
}

export interface StationForecast {
  station: Station;
  /** Name of the weather source. */
  source: string;
  /** In the order of days. */
  days: readonly DayForecast[];
}

/** Makes forecasts of what is known: pure, so that the same inputs give the same forecast. */
export type ForecastModel = (input: {
  source: string;
  weather: WeatherData;
  events: readonly MarketEvent[];
  at: Date;
}) => ReadonlyMap<string, StationForecast>;
