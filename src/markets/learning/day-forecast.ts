import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { MarketEvent } from '../market/event.js';
import { spanOf, targetKey, targetOf, temperatureKinds, type Target } from '../market/market.js';
import { findPlace } from '../market/stations.js';
import { probabilityOf, quantileOf } from '../market/distribution.js';
import { extremeHoursOf } from './extreme-hours.js';
import type { FitBook } from './fits.js';
import {
  EARLIER_RUN,
  groupKnownWeather,
  MAIN_MODEL,
  momentsOf,
  type DayEnsemble,
  type ObservedExtreme,
} from '../weather/weather.js';
import { modelOf, type DayForecast, type ForecastModel, type StationForecast } from './forecast.js';
import {
  boundAt,
  boundBy,
  forecastRunning,
  isFarther,
  reachedDegree,
  withMinutes,
  type HourFits,
} from './running-day.js';

/** °F, for raw ensembles: a grid point is not the station, and hourly values miss the peak. */
const MIN_RAW_DEVIATION_F = 1;
/** Such an observation covers the whole day. */
const COVERS_DAY_MS = 90 * MINUTE_MS;

/** The report may be missing or differ from the station's own readings. */
const MOST_SURE = 1 - 1e-7;
const noHourFits: HourFits = { fits: [], missing: [] };

const quantileLevels = [0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95];

export interface Ensemble extends Pick<
  DayEnsemble,
  keyof Target | 'model' | 'fetchedAt' | 'membersF' | 'spreadF' | 'isNearMidnight'
> {
  modelRunAt: Date;
  end: Date;
  meanF: number;
  varianceF: number;
}

/** Observations are not applied yet. */
export type CorrectedForecast = Pick<
  DayForecast,
  'method' | 'isCalibrated' | 'fallback' | 'fit' | 'seasonalFit' | 'shape' | 'meanF' | 'deviationF' | 'models'
>;

/**
 * Ignores data that was unknown at `at`.
 * @param correct its `further` are runs of other models, and an earlier run of the same model
 */
export const modelWith = (
  correct: (ensemble: Ensemble, fits: FitBook, at: Date, further: readonly Ensemble[]) => CorrectedForecast,
): ForecastModel =>
  modelOf(function* ({ source, weather, events, fits, at }) {
    const known = groupKnownWeather(weather, at);
    const eventOf = new Map(events.map((event) => [targetKey(targetOf(event)), event]));
    const forecasts = new Map<string, StationForecast & { days: DayForecast[] }>();
    for (const [key, ensemble] of known.ensembles) {
      const station = findPlace(ensemble.stationId);
      if (!station) continue;
      const { end } = spanOf(station, ensemble);
      const run = toRun(ensemble, end);
      const further = (known.further.get(key) ?? []).map((each) => toRun(each, end));
      const day = forecastDay({
        ensemble,
        run,
        corrected: correct(run, fits, at, further),
        observed: known.observed.get(key),
        event: eventOf.get(key),
        fits,
        at,
      });
      const found = forecasts.get(station.id);
      if (found) found.days.push(day);
      else forecasts.set(station.id, { station, source, days: [day] });
      yield;
    }
    for (const { days } of forecasts.values()) days.sort(byTarget);
    return forecasts;
  });

function toRun(ensemble: DayEnsemble, end: Date): Ensemble {
  const { mean, variance } = momentsOf(ensemble);
  return { ...ensemble, end, meanF: mean, varianceF: variance };
}

const byTarget = (a: DayForecast, b: DayForecast): number =>
  temperatureKinds.indexOf(a.kind) - temperatureKinds.indexOf(b.kind) ||
  (a.date === b.date ? (a.hour ?? 0) - (b.hour ?? 0) : a.date < b.date ? -1 : 1);

export const uncorrectedForecast = (run: Ensemble, fallback: string | null): CorrectedForecast => ({
  method: 'raw_ensemble',
  isCalibrated: false,
  fallback,
  fit: null,
  shape: 'normal',
  meanF: run.meanF,
  deviationF: rawDeviation(run.varianceF),
});

export const rawDeviation = (varianceF: number): number =>
  Math.max(MIN_RAW_DEVIATION_F, Math.sqrt(varianceF));

interface Known {
  ensemble: DayEnsemble;
  run: Ensemble;
  corrected: CorrectedForecast;
  observed: ObservedExtreme | undefined;
  event: MarketEvent | undefined;
  fits: FitBook;
  at: Date;
}

function forecastDay(known: Known): DayForecast {
  const { ensemble, run, corrected, observed, event, fits } = known;
  const { kind, stationId, date, hour, modelRunAt, isRunUnknown, fetchedAt, membersF, curveF } = ensemble;
  const { distribution, running } = givenObservation(known);
  // A day's value stays uncertain until its final report arrives.
  const isOpen = kind !== 'hourly' && observed?.isFinal !== true;
  const held = (probability: number) => (isOpen ? Math.min(MOST_SURE, probability) : probability);
  return {
    kind,
    date,
    ...(hour === undefined ? {} : { hour }),
    eventTicker: event?.eventTicker ?? null,
    ...corrected,
    ...(running?.fit && { method: 'same_day' as const, isCalibrated: true, fallback: null }),
    leadHours: (run.end.getTime() - modelRunAt.getTime()) / HOUR_MS,
    rawMeanF: run.meanF,
    rawDeviationF: rawDeviation(run.varianceF),
    distribution,
    running,
    quantiles: quantileLevels.map((probability) => ({
      probability,
      temperatureF: quantileOf(distribution, probability),
    })),
    membersF,
    ...(curveF && { curveF }),
    modelRunAt,
    ...(isRunUnknown && { isRunUnknown }),
    fetchedAt,
    observed: observed ?? null,
    ...(kind !== 'hourly' && { extremeHours: extremeHoursOf(fits.hours?.extremes, { kind, stationId }) }),
    probabilities: new Map(
      event?.markets.map(({ ticker, bracket }) => [ticker, held(probabilityOf(distribution, bracket))]),
    ),
  };
}

/** Hourly markets settle on the observed index value; a day's observed extreme only bounds the report. */
function givenObservation({ ensemble, run, corrected, observed, fits, at }: Known) {
  const { meanF, deviationF, shape, models = [] } = corrected;
  const expected = { mean: meanF, deviation: deviationF, shape };
  if (!observed) return { distribution: { ...expected, atLeast: null }, running: null };
  const { kind, extremeF, observedAt, hoursF, isFinal, minutes } = observed;
  if (kind === 'hourly')
    return { distribution: { mean: extremeF, deviation: 0, atLeast: null }, running: null };
  const { stationId, curveF } = ensemble;
  const input = {
    kind,
    stationId,
    extremeF,
    hoursF,
    curveF,
    meanF,
    deviationF,
    shape,
    isMixed: models.some(({ model, weight }) => weight > 0 && model !== MAIN_MODEL && model !== EARLIER_RUN),
    level: minutes?.level,
  };
  const isOver = at >= run.end;
  const reached = reachedDegree(kind, extremeF);
  // Minutes beyond the reports say that the day's value is another one, but not which.
  const isBeyond = minutes !== undefined && isFarther(kind, boundBy(kind, minutes), reached);
  const coversDay = observedAt.getTime() >= run.end.getTime() - COVERS_DAY_MS;
  if (isFinal || (isOver && coversDay && !isBeyond)) {
    return { distribution: { mean: reached, deviation: 0, ...boundAt(kind, reached) }, running: null };
  }
  const forecast = forecastRunning(input, fits.hours ?? noHourFits, at);
  return isBeyond ? withMinutes(kind, forecast, minutes) : forecast;
}
