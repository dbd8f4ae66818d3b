import { climateDayOf } from '../../settlement/climate-day.js';
import type { Station } from '../../settlement/stations.js';
import { fitLeadOf, MAX_LEAD_HOURS } from '../fits.js';
import { MIN_MEMBERS } from '../known-weather.js';
import type { KnownHistory, KnownRun } from './known-history.js';

/** What a run said of a day, and what was reported of it. */
export interface TrainingCase extends KnownRun {
  temperatureF: number;
  /** When the report became known. */
  knownAt: Date;
}

/**
 * Most recent days with data that a fit learns from. Errors of summer are not those of winter, so not many more; the
 * deviation of 60 errors is known to a tenth.
 */
const WINDOW_DAYS = 60;

/** The cases of one station by lead, the latest day first: one for each day. */
export function casesOf(
  history: KnownHistory,
  station: Station,
  runs: readonly KnownRun[],
): Map<number, TrainingCase[]> {
  const byLead = new Map<number, Map<string, KnownRun>>();
  const days = new Map<string, ReportedDay | undefined>();
  for (const run of runs) {
    const { date, modelRunAt } = run;
    if (!days.has(date)) days.set(date, reportedDay(history, station, date));
    const end = days.get(date)?.end;
    if (!end) continue;
    const hours = (end.getTime() - modelRunAt.getTime()) / 3_600_000;
    if (hours <= 0 || hours > MAX_LEAD_HOURS) continue;
    const lead = fitLeadOf(modelRunAt, end);
    const byDate = byLead.get(lead) ?? new Map<string, KnownRun>();
    byLead.set(lead, byDate);
    const found = byDate.get(date);
    if (!found || isBetter(run, found)) byDate.set(date, run);
  }
  const toCase = (run: KnownRun): TrainingCase => ({ ...run, ...days.get(run.date)!.report });
  return new Map([...byLead].map(([lead, byDate]) => [lead, latestDays([...byDate.values()]).map(toCase)]));
}

interface ReportedDay {
  end: Date;
  report: Pick<TrainingCase, 'temperatureF' | 'knownAt'>;
}

/** Looked up once for all runs of a day. */
function reportedDay(history: KnownHistory, station: Station, date: string): ReportedDay | undefined {
  const found = history.reportOf(station.id, date);
  if (!found) return undefined;
  const { temperatureF, knownAt } = found;
  return { end: climateDayOf(station, date).end, report: { temperatureF, knownAt } };
}

/** True for the members of a real ensemble: their spread says something. */
export const hasSpread = ({ members }: KnownRun): boolean => members >= MIN_MEMBERS;

/**
 * Of several runs of one lead a real ensemble counts before a single run; of those the oldest. It had the longest way to go:
 * a fit by it is rather too careful for the others than too sure.
 */
const isBetter = (a: KnownRun, b: KnownRun): boolean =>
  hasSpread(a) === hasSpread(b) ? a.modelRunAt.getTime() < b.modelRunAt.getTime() : hasSpread(a);

const latestDays = (runs: KnownRun[]): KnownRun[] =>
  runs.sort((a, b) => (a.date < b.date ? 1 : -1)).slice(0, WINDOW_DAYS);
