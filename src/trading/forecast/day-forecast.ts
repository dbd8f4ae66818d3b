import type { MarketEvent } from '../market/event.js';
import { spanOf, targetKey, targetOf, temperatureKinds, type Target } from '../market/market.js';
import { findPlace } from '../market/stations.js';
import {
  probabilityOf,
  quantileOf,
  sureDegree,
  sureMinimum,
  type TemperatureDistribution,
} from '../market/distribution.js';
import type { FitBook } from './fits.js';
import type {
  DayEnsemble,
  DayForecast,
  ForecastModel,
  ObservedExtreme,
  StationForecast,
} from './forecast.js';
import { whatWasKnown } from './known-weather.js';
import { momentsOf } from './moments.js';

/**
 * °F. Members that agree to a tenth are not that sure: the model's grid is not the station, and its hours are not the
 * day's peak.
 */
const MIN_RAW_DEVIATION_F = 1;
/** An observation this shortly before the day's end, or later, tells of the whole day. */
const COVERS_DAY_MS = 90 * 60 * 1000;

const quantileLevels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

/** A run of an ensemble as a correction sees it. */
export interface Ensemble extends Target {
  modelRunAt: Date;
  /** Of the climate day, or the hour itself. */
  end: Date;
  meanF: number;
  /** Sample variance of the members, °F². */
  varianceF: number;
}

/** What an ensemble is taken to say. */
export type Corrected = Pick<
  DayForecast,
  'method' | 'isCalibrated' | 'fallback' | 'fit' | 'meanF' | 'deviationF'
>;

/** How what an ensemble says is made of its mean and spread, by what had been learned at a time. */
export type Correction = (ensemble: Ensemble, fits: FitBook, at: Date) => Corrected;

/**
 * A model: the newest run of each day and hour, corrected, and bounded by what was observed. What was not known at the time
 * `at` does not exist for it.
 */
export const modelWith =
  (correct: Correction): ForecastModel =>
  ({ source, weather, events, fits, at }) => {
    const known = whatWasKnown(weather, at);
    const eventOf = new Map(events.map((event) => [targetKey(targetOf(event)), event]));
    const forecasts = new Map<string, StationForecast & { days: DayForecast[] }>();
    for (const [key, ensemble] of known.ensembles) {
      const station = findPlace(ensemble.stationId);
      if (!station) continue;
      const { end } = spanOf(station, ensemble);
      const { mean, variance } = momentsOf(ensemble.membersF);
      const { kind, stationId, date, hour, modelRunAt } = ensemble;
      const run = { kind, stationId, date, hour, modelRunAt, end, meanF: mean, varianceF: variance };
      const day = forecastDay({
        ensemble,
        run,
        corrected: correct(run, fits, at),
        observed: known.observed.get(key),
        event: eventOf.get(key),
        at,
      });
      const found = forecasts.get(station.id);
      if (found) found.days.push(day);
      else forecasts.set(station.id, { station, source, days: [day] });
    }
    for (const { days } of forecasts.values()) days.sort(byTarget);
    return forecasts;
  };

const byTarget = (a: DayForecast, b: DayForecast): number =>
  temperatureKinds.indexOf(a.kind) - temperatureKinds.indexOf(b.kind) ||
  (a.date === b.date ? (a.hour ?? 0) - (b.hour ?? 0) : a.date < b.date ? -1 : 1);

/** The ensemble as it is: the members' own mean and spread. */
export const asItIs = ({ meanF, varianceF }: Ensemble, fallback: string | null): Corrected => ({
  method: 'raw_ensemble',
  isCalibrated: false,
  fallback,
  fit: null,
  meanF,
  deviationF: rawDeviation(varianceF),
});

/** The deviation that members of this variance are taken to have as they are, °F. */
export const rawDeviation = (varianceF: number): number =>
  Math.max(MIN_RAW_DEVIATION_F, Math.sqrt(varianceF));

interface Known {
  ensemble: DayEnsemble;
  run: Ensemble;
  corrected: Corrected;
  observed: ObservedExtreme | undefined;
  event: MarketEvent | undefined;
  at: Date;
}

function forecastDay({ ensemble, run, corrected, observed, event, at }: Known): DayForecast {
  const { kind, date, hour, modelRunAt, fetchedAt, membersF } = ensemble;
  const distribution = givenObservation(corrected, observed, at >= run.end ? run.end : undefined);
  return {
    kind,
    date,
    ...(hour === undefined ? {} : { hour }),
    eventTicker: event?.eventTicker ?? null,
    ...corrected,
    leadHours: (run.end.getTime() - modelRunAt.getTime()) / 3_600_000,
    rawMeanF: run.meanF,
    rawDeviationF: rawDeviation(run.varianceF),
    atLeastF: distribution.atLeast,
    atMostF: distribution.atMost ?? null,
    quantiles: quantileLevels.map((probability) => ({
      probability,
      temperatureF: quantileOf(distribution, probability),
    })),
    membersF,
    modelRunAt,
    fetchedAt,
    observed: observed ?? null,
    probabilities: new Map(
      event?.markets.map(({ ticker, bracket }) => [ticker, probabilityOf(distribution, bracket)]),
    ),
  };
}

/**
 * What an index has said of an hour is what its markets settle on; a day's extreme bounds what the report can say.
 * @param ended when the day was over; undefined while it is not
 */
function givenObservation(
  { meanF: mean, deviationF: deviation }: Corrected,
  observed: ObservedExtreme | undefined,
  ended: Date | undefined,
): TemperatureDistribution {
  if (!observed) return { mean, deviation, atLeast: null };
  const { kind, extremeF, observedAt } = observed;
  if (kind === 'hourly') return { mean: extremeF, deviation: 0, atLeast: null };
  const isWhole = ended && observedAt.getTime() >= ended.getTime() - COVERS_DAY_MS;
  const reached = kind === 'daily_maximum' ? sureDegree(extremeF) : sureMinimum(extremeF);
  const bound = kind === 'daily_maximum' ? { atLeast: reached } : { atLeast: null, atMost: reached };
  return isWhole ? { mean: reached, deviation: 0, ...bound } : { mean, deviation, ...bound };
}
