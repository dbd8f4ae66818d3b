import type { DayForecast, StationForecast } from '../forecast/forecast.js';
import type { Fit } from '../forecast/fits.js';
import { labelOf, type ListedMarket } from '../markets/market.js';
import type { Place } from '../settlement/stations.js';

/**
 * A station's forecast as `/forecast/:station` shows it.
 * @returns the beginning of a JSON object, up to its last field
 */
export function writeForecast(forecast: StationForecast, markets: ReadonlyMap<string, ListedMarket>): string {
  const { station, source, days } = forecast;
  const json = JSON.stringify({
    station: station.id,
    city: station.city,
    name: station.name,
    measure: 'daily_maximum_temperature',
    unit: 'fahrenheit',
    source,
    days: days.map((day) => toDayJson(day, { station, source, markets })),
  });
  return json.slice(0, -1);
}

interface Setting {
  station: Place;
  source: string;
  markets: ReadonlyMap<string, ListedMarket>;
}

const toDayJson = (day: DayForecast, { station, source, markets }: Setting) => ({
  date: day.date,
  eventTicker: day.eventTicker,
  meanF: day.meanF,
  standardDeviationF: day.deviationF,
  quantiles: day.quantiles.map(({ probability, temperatureF }) => ({ probability, temperatureF })),
  brackets: [...day.probabilities].map(([ticker, probability]) => ({
    ticker,
    label: labelOrNull(markets.get(ticker)),
    probability,
  })),
  observedMaximum: day.observed && {
    temperatureF: day.observed.extremeF,
    observedAt: day.observed.observedAt.toISOString(),
    fetchedAt: day.observed.fetchedAt.toISOString(),
  },
  source,
  method: day.method,
  isCalibrated: day.isCalibrated,
  fallback: day.fallback,
  rawMeanF: day.rawMeanF,
  rawStandardDeviationF: day.rawDeviationF,
  fit: day.fit && toFitJson(day.fit, station),
  leadHours: day.leadHours,
  modelRunAt: day.modelRunAt.toISOString(),
  fetchedAt: day.fetchedAt.toISOString(),
  membersF: day.membersF,
});

const toFitJson = (fit: Fit, station: Place) => ({
  id: fit.id,
  station: fit.stationId,
  leadHours: fit.leadHours,
  coefficients: fit.coefficients,
  stationBiasF: fit.stationBiasF?.[station.id] ?? 0,
  n: fit.n,
  firstDate: fit.firstDate,
  lastDate: fit.lastDate,
  trainingCrps: fit.trainingCrps,
  rawCrps: fit.rawCrps,
  knownThrough: fit.knownThrough.toISOString(),
  trainedAt: fit.trainedAt.toISOString(),
});

const labelOrNull = (market: ListedMarket | undefined): string | null => (market ? labelOf(market) : null);

/** The oldest of the runs that the forecast was made from: what its age counts from. */
export const oldestRun = ({ days }: StationForecast): number =>
  Math.min(...days.map(({ fetchedAt }) => fetchedAt.getTime()));
