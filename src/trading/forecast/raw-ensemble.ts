import type { MarketEvent } from '../markets/event.js';
import { climateDayOf } from '../settlement/climate-day.js';
import { findStation, type Station } from '../settlement/stations.js';
import { probabilityOf, quantileOf, sureDegree, type MaximumDistribution } from './distribution.js';
import type {
  DayEnsemble,
  DayForecast,
  ForecastModel,
  ObservedMaximum,
  StationForecast,
  WeatherData,
} from './forecast.js';

/** A spread of fewer members says nothing. */
export const MIN_MEMBERS = 10;
/**
 * °F. Members that agree to a tenth are not that sure: the model's grid is not the station, and its hours are not the
 * day's peak.
 */
export const MIN_DEVIATION_F = 1;
/** What the air has never been. An ensemble with such a member is broken. */
const POSSIBLE_F = { lowest: -100, highest: 150 };
/** An observation this shortly before the day's end, or later, tells of the whole day. */
const COVERS_DAY_MS = 90 * 60 * 1000;

const quantileLevels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

/**
 * The ensemble as it is: the members' own mean and spread, normally distributed, not corrected by anything, and not
 * below what was observed. What was not known at the time `at` does not exist for it.
 */
export const rawEnsemble: ForecastModel = ({ source, weather, events, at }) => {
  const known = whatWasKnown(weather, at);
  const eventOf = new Map(events.map((event) => [keyOf(event.station.id, event.date), event]));
  const forecasts = new Map<string, StationForecast & { days: DayForecast[] }>();
  for (const [key, ensemble] of known.ensembles) {
    const station = findStation(ensemble.stationId);
    if (!station) continue;
    const day = forecastDay({
      station,
      ensemble,
      observed: known.observed.get(key),
      event: eventOf.get(key),
      at,
    });
    const found = forecasts.get(station.id);
    if (found) found.days.push(day);
    else forecasts.set(station.id, { station, source, days: [day] });
  }
  for (const { days } of forecasts.values()) days.sort((a, b) => (a.date < b.date ? -1 : 1));
  return forecasts;
};

const keyOf = (stationId: string, date: string): string => `${stationId} ${date}`;

/** By station and day: the newest ensemble that can be used, and the highest temperature that was reported. */
function whatWasKnown({ ensembles, observed }: WeatherData, at: Date) {
  const newest = new Map<string, DayEnsemble>();
  for (const ensemble of ensembles) {
    if (ensemble.fetchedAt > at || ensemble.modelRunAt > at || !isUsable(ensemble.membersF)) continue;
    const key = keyOf(ensemble.stationId, ensemble.date);
    const found = newest.get(key);
    if (!found || isNewer(ensemble, found)) newest.set(key, ensemble);
  }
  const highest = new Map<string, ObservedMaximum>();
  for (const observation of observed) {
    const { fetchedAt, observedAt, maximumF } = observation;
    if (fetchedAt > at || observedAt > at || !isPossible(maximumF)) continue;
    const key = keyOf(observation.stationId, observation.date);
    const found = highest.get(key);
    // A later report of the same day is never lower, so the newest is the highest.
    if (!found || observedAt > found.observedAt) highest.set(key, observation);
  }
  return { ensembles: newest, observed: highest };
}

const isPossible = (temperatureF: number): boolean =>
  temperatureF >= POSSIBLE_F.lowest && temperatureF <= POSSIBLE_F.highest;

const isUsable = (membersF: readonly number[]): boolean =>
  membersF.length >= MIN_MEMBERS && membersF.every(isPossible);

const isNewer = (a: DayEnsemble, b: DayEnsemble): boolean =>
  a.modelRunAt.getTime() === b.modelRunAt.getTime() ? a.fetchedAt > b.fetchedAt : a.modelRunAt > b.modelRunAt;

interface Known {
  station: Station;
  ensemble: DayEnsemble;
  observed: ObservedMaximum | undefined;
  event: MarketEvent | undefined;
  at: Date;
}

function forecastDay({ station, ensemble, observed, event, at }: Known): DayForecast {
  const { date, modelRunAt, fetchedAt, membersF } = ensemble;
  const { end } = climateDayOf(station, date);
  const spread = spreadOf(membersF);
  const maximum = givenObservation(spread, observed, at >= end ? end : undefined);
  return {
    date,
    eventTicker: event?.eventTicker ?? null,
    method: 'raw_ensemble',
    isCalibrated: false,
    meanF: spread.mean,
    deviationF: spread.deviation,
    quantiles: quantileLevels.map((probability) => ({
      probability,
      temperatureF: quantileOf(maximum, probability),
    })),
    membersF,
    modelRunAt,
    fetchedAt,
    observed: observed ?? null,
    probabilities: new Map(
      event?.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(maximum, bracket)]),
    ),
  };
}

/** Mean and sample deviation of the members. */
function spreadOf(membersF: readonly number[]): { mean: number; deviation: number } {
  const mean = membersF.reduce((sum, x) => sum + x, 0) / membersF.length;
  const variance = membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (membersF.length - 1);
  return { mean, deviation: Math.max(MIN_DEVIATION_F, Math.sqrt(variance)) };
}

/** @param ended when the day was over; undefined while it is not */
function givenObservation(
  { mean, deviation }: { mean: number; deviation: number },
  observed: ObservedMaximum | undefined,
  ended: Date | undefined,
): MaximumDistribution {
  if (!observed) return { mean, deviation, atLeast: null };
  const atLeast = sureDegree(observed.maximumF);
  const isWhole = ended && observed.observedAt.getTime() >= ended.getTime() - COVERS_DAY_MS;
  return isWhole ? { mean: atLeast, deviation: 0, atLeast } : { mean, deviation, atLeast };
}
