import { DAY_MS } from '../../core/time.js';
import { type MinuteBound, type ObservedExtreme, MAIN_MODEL } from '../weather/weather.js';
import type { DayForecast, StationForecast } from '../learning/forecast.js';
import { biasOf, lineOf } from '../learning/day-ahead.js';
import type { Fit } from '../learning/fits.js';
import { signOf, type HourFit } from '../learning/running-day.js';
import { labelOf, spanOf, type ListedMarket, type TemperatureKind } from '../market/market.js';
import type { VenueNote } from '../market/source.js';
import type { MinuteFeed } from '../weather/minutes.js';
import type { Station } from '../market/stations.js';
import type { Place } from '../market/place.js';

/** `hours` is for the index area of the station's city. */
export interface ForecastToWrite {
  station: Station;
  /** `days` or `hours` is undefined if that forecast is missing. */
  days: StationForecast | undefined;
  hours: StationForecast | undefined;
  /** Names the station's reports that are left out. */
  notes: readonly VenueNote[];
  /** Null without one-minute readings. */
  feed: MinuteFeed | null;
}

const MAX_CHANGES = 500;

export function toForecastJson(forecast: ForecastToWrite, markets: ReadonlyMap<string, ListedMarket>) {
  const { station, days, hours, notes, feed } = forecast;
  const { source } = (days ?? hours)!;
  const ofKind = (kind: TemperatureKind) => days?.days.filter((day) => day.kind === kind) ?? [];
  const setting = { station, source, markets };
  return {
    station: station.id,
    city: station.city,
    name: station.name,
    measure: 'daily_maximum_temperature',
    unit: 'fahrenheit',
    source,
    notes,
    minutes: feed && {
      latestAt: feed.latestAt?.toISOString() ?? null,
      problem: feed.problem,
      changes: feed.changes
        .slice(-MAX_CHANGES)
        .map(({ at, ...change }) => ({ at: at.toISOString(), ...change })),
    },
    days: ofKind('daily_maximum').map((day) => ({
      ...toRunningJson(day, setting),
      observedMaximum: toObservedJson(day.observed),
    })),
    minima: ofKind('daily_minimum').map((day) => ({
      ...toRunningJson(day, setting),
      observedMinimum: toObservedJson(day.observed),
    })),
    hours: hours?.days.map((day) => toHourJson(day, { ...setting, station: hours.station })) ?? [],
  };
}

interface Setting {
  station: Place;
  source: string;
  markets: ReadonlyMap<string, ListedMarket>;
}

const toHourJson = (day: DayForecast, setting: Setting) => ({
  area: setting.station.id,
  hour: day.hour,
  at: spanOf(setting.station, day).end.toISOString(),
  ...toDayJson(day, setting),
  observed: toObservedJson(day.observed),
});

const toObservedJson = (observed: ObservedExtreme | null) =>
  observed && {
    temperatureF: observed.extremeF,
    observedAt: observed.observedAt.toISOString(),
    fetchedAt: observed.fetchedAt.toISOString(),
    minutes: observed.minutes ? toBoundJson(observed.minutes) : null,
  };

const toBoundJson = ({ lowestF, highestF, at }: MinuteBound) => ({ lowestF, highestF, at: at.toISOString() });

const toDayJson = (day: DayForecast, { station, source, markets }: Setting) => ({
  date: day.date,
  eventTicker: day.eventTicker,
  meanF: day.meanF,
  standardDeviationF: day.deviationF,
  distribution: toDistributionJson(day),
  quantiles: day.quantiles.map(({ probability, temperatureF }) => ({ probability, temperatureF })),
  brackets: [...day.probabilities].map(([ticker, probability]) => ({
    ticker,
    label: markets.has(ticker) ? labelOf(markets.get(ticker)!) : null,
    probability,
  })),
  source,
  method: day.method,
  isCalibrated: day.isCalibrated,
  fallback: day.fallback,
  rawMeanF: day.rawMeanF,
  rawStandardDeviationF: day.rawDeviationF,
  fit: day.fit && toFitJson(day.fit, day, station.id),
  seasonalFit: day.seasonalFit ? toFitJson(day.seasonalFit, day, station.id) : null,
  leadHours: day.leadHours,
  modelRunAt: day.isRunUnknown ? null : day.modelRunAt.toISOString(),
  fetchedAt: day.fetchedAt.toISOString(),
  membersF: day.membersF,
  models: toModelsJson(day),
});

const toDistributionJson = ({
  distribution: { mean, deviation, shape = 'normal', stays = null },
}: DayForecast) => ({
  family: deviation === 0 ? 'known' : shape,
  meanF: mean,
  standardDeviationF: deviation,
  stays,
});

const toModelsJson = (day: DayForecast) =>
  (day.models ?? [{ ...day, model: MAIN_MODEL, weight: 1, reason: null }]).map((part) => ({
    model: part.model,
    weight: part.weight,
    meanF: part.meanF,
    standardDeviationF: part.deviationF,
    rawMeanF: part.rawMeanF,
    members: part.membersF.length,
    modelRunAt: part.model === MAIN_MODEL && day.isRunUnknown ? null : part.modelRunAt.toISOString(),
    fetchedAt: part.fetchedAt.toISOString(),
    reason: part.reason,
  }));

const toRunningJson = (day: DayForecast, setting: Setting) => ({
  ...toDayJson(day, setting),
  running: day.running && {
    hour: day.running.hour,
    observedAt: day.observed!.observedAt.toISOString(),
    reachedF: day.distribution.atLeast ?? day.distribution.atMost,
    peakedProbability: day.running.stays,
    fit: day.running.fit && toHourFitJson(day.running.fit, setting.station.id),
    fallback: day.running.fallback,
    dayAheadShare: day.running.dayAheadShare,
  },
  extremeHours: day.extremeHours ?? null,
  isReported: day.observed?.isFinal === true,
  hourlyMeanF: day.curveF ?? null,
});

const toHourFitJson = (fit: HourFit, stationId: string) => ({
  id: fit.id,
  hour: fit.hour,
  coefficients: fit.coefficients,
  stationBiasF: signOf(fit.kind) * (fit.stationBiasF[stationId] ?? 0),
  stationExtremeBiasF: signOf(fit.kind) * (fit.stationExtremeBiasF[stationId] ?? 0),
  ...toTrainingJson(fit),
});

function toFitJson(fit: Fit, { date, hour }: Pick<DayForecast, 'date' | 'hour'>, stationId: string) {
  const target = { day: Date.parse(date) / DAY_MS, hour, group: stationId };
  const line = lineOf(fit.coefficients, target);
  const stationBiasF = biasOf(fit.coefficients, target);
  return {
    id: fit.id,
    station: fit.stationId,
    leadHours: fit.leadHours,
    coefficients: { ...line, a: line.a + line.b * stationBiasF },
    stationBiasF,
    ...toTrainingJson(fit),
  };
}

function toTrainingJson(fit: Fit | HourFit) {
  const { n, firstDate, lastDate, trainingCrps, rawCrps } = fit;
  const [knownThrough, trainedAt] = [fit.knownThrough.toISOString(), fit.trainedAt.toISOString()];
  return { n, firstDate, lastDate, trainingCrps, rawCrps, knownThrough, trainedAt };
}

/** A forecast's age is measured from it. */
export const oldestRun = ({ days, hours }: Pick<ForecastToWrite, 'days' | 'hours'>): number =>
  Math.min(...[...(days?.days ?? []), ...(hours?.days ?? [])].map(({ fetchedAt }) => fetchedAt.getTime()));
