import { spanOf, type TemperatureKind } from '../market/market.js';
import type { Place } from '../market/stations.js';
import { fitLeadOf, MAX_LEAD_HOURS } from '../forecast/fits.js';
import { MIN_MEMBERS } from '../forecast/known-weather.js';
import type { KnownHistory, KnownRun } from './known-history.js';

/** What a run said of a day or an hour, and what was reported of it. */
export interface TrainingCase extends KnownRun {
  temperatureF: number;
  /** When the report became known. */
  knownAt: Date;
}

/**
 * Most recent days with data that a fit learns from. Errors of summer are not those of winter, so not many more; the
 * deviation of 60 errors is known to a tenth. A day has many hours.
 */
const WINDOW_DAYS: Readonly<Record<TemperatureKind, number>> = {
  daily_maximum: 60,
  daily_minimum: 60,
  hourly: 45,
};

/**
 * The cases of one station by lead, the latest first: one for each day or hour.
 * @param runs of one kind
 */
export function casesOf(
  history: KnownHistory,
  station: Place,
  runs: readonly KnownRun[],
): Map<number, TrainingCase[]> {
  const byLead = new Map<number, Map<string, KnownRun>>();
  const reported = new Map<string, Reported | undefined>();
  for (const run of runs) {
    const { kind, modelRunAt } = run;
    const key = keyOf(run);
    if (!reported.has(key)) reported.set(key, whatWasReported(history, station, run));
    const end = reported.get(key)?.end;
    if (!end) continue;
    const hours = (end.getTime() - modelRunAt.getTime()) / 3_600_000;
    if (hours <= 0 || hours > MAX_LEAD_HOURS[kind]) continue;
    const lead = fitLeadOf(kind, modelRunAt, end);
    const ofLead = byLead.get(lead) ?? new Map<string, KnownRun>();
    byLead.set(lead, ofLead);
    const found = ofLead.get(key);
    if (!found || isBetter(run, found)) ofLead.set(key, run);
  }
  const toCase = (run: KnownRun): TrainingCase => ({ ...run, ...reported.get(keyOf(run))!.report });
  return new Map([...byLead].map(([lead, ofLead]) => [lead, latestDays([...ofLead.values()]).map(toCase)]));
}

const keyOf = ({ date, hour }: KnownRun): string => (hour === undefined ? date : `${date} ${hour}`);

interface Reported {
  end: Date;
  report: Pick<TrainingCase, 'temperatureF' | 'knownAt'>;
}

/** Looked up once for all runs of a day or an hour. */
function whatWasReported(history: KnownHistory, station: Place, run: KnownRun): Reported | undefined {
  const found = history.reportOf(run);
  if (!found) return undefined;
  const { temperatureF, knownAt } = found;
  return { end: spanOf(station, run).end, report: { temperatureF, knownAt } };
}

/** Hours of one day have their errors in common: what is known is counted in days. */
export const daysIn = (cases: readonly Pick<KnownRun, 'stationId' | 'date'>[]): number =>
  new Set(cases.map(({ stationId, date }) => `${stationId} ${date}`)).size;

/** True for the members of a real ensemble: their spread says something. */
export const hasSpread = ({ members }: KnownRun): boolean => members >= MIN_MEMBERS;

/**
 * Of several runs of one lead a real ensemble counts before a single run; of those the oldest. It had the longest way to go:
 * a fit by it is rather too careful for the others than too sure.
 */
const isBetter = (a: KnownRun, b: KnownRun): boolean =>
  hasSpread(a) === hasSpread(b) ? a.modelRunAt.getTime() < b.modelRunAt.getTime() : hasSpread(a);

function latestDays(runs: KnownRun[]): KnownRun[] {
  runs.sort(latestFirst);
  const dates = [...new Set(runs.map(({ date }) => date))];
  const first = dates[WINDOW_DAYS[runs[0]!.kind] - 1] ?? '';
  return runs.filter(({ date }) => date >= first);
}

export const latestFirst = (a: KnownRun, b: KnownRun): number =>
  a.date === b.date ? (b.hour ?? 0) - (a.hour ?? 0) : a.date < b.date ? 1 : -1;
