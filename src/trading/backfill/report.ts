import { count } from '../../send/numbers.js';
import type { BackfillResult } from './backfill.js';
import { daysBetween } from '../market/calendar.js';
import type { FitBook } from '../forecast/fits.js';
import type { TemperatureKind } from '../market/market.js';
import type { Station } from '../market/stations.js';
import type { Range } from './plan.js';

/** What was done and what there is now, for a person. */
export function backfillText(
  { newRuns, newReports, coverage }: BackfillResult,
  { from, to }: Range,
  { forecastSource, marketSource }: { forecastSource: string; marketSource: string },
): string {
  const days = daysBetween(from, to).length;
  const lines = coverage.stations.map(
    ({ kind, station, forecastDays, runs, reports }) =>
      `  ${station.id}${kindWords[kind]}  forecasts of ${count(forecastDays, 'day')} (${count(runs, 'run')}), reports of ${count(reports, 'day')}`,
  );
  return [
    `New: ${count(newRuns, 'run')}, ${count(newReports, 'report')}.`,
    `Of the ${count(days, 'day')} from ${from} to ${to} there are now, forecasts from ${forecastSource} and reports from ${marketSource}:`,
    ...lines,
  ].join('\n');
}

const kindWords: Record<TemperatureKind, string> = {
  daily_maximum: '',
  daily_minimum: ' minima',
  hourly: '',
};

/** What could be learned from it, for a person. */
export function fitsText({ fits }: FitBook, stations: readonly Station[]): string {
  const own = stations.filter(({ id }) => fits.some(({ stationId }) => stationId === id)).length;
  const pooled = fits.some(({ stationId }) => stationId === null);
  if (own === 0 && !pooled)
    return 'It is not enough to correct forecasts by yet: they stay as the model makes them.';
  return `Forecasts are corrected by fits of their own at ${own} of ${count(stations.length, 'station')}${pooled ? ', else by one of all stations together' : ''}.`;
}
