import type { DayEnsemble } from '../../trading/forecast/forecast.js';
import { spanOf, type Target } from '../../trading/market/market.js';
import type { SettledDay } from '../../trading/market/source.js';
import { findPlace } from '../../trading/market/stations.js';

const HOUR_MS = 60 * 60 * 1000;
const MEMBERS = 31;
const MIN_MEMBERS = 10;
/** Hours before the day's end (before the hour) at which it is made anew, from about the opening of its markets on. */
const LEADS = [48, 42, 36, 30, 24];

/**
 * The simplest forecast that looks at nothing but the past: the last 31 reports of the same kind (and hour), as members of an
 * ensemble. It stands in where no forecasts are given, so that recorded days can be gone through at all; nobody should
 * earn by it.
 * @returns none where fewer than ten days were known
 */
export function analogsOf(reports: readonly SettledDay[], target: Target): DayEnsemble[] {
  const { end } = spanOf(findPlace(target.stationId)!, target);
  return LEADS.flatMap((lead) => {
    const at = new Date(end.getTime() - lead * HOUR_MS);
    const membersF = lastReports(reports, target, at);
    if (membersF.length < MIN_MEMBERS) return [];
    return [{ ...target, modelRunAt: at, fetchedAt: at, membersF }];
  });
}

const lastReports = (reports: readonly SettledDay[], { kind, stationId, hour }: Target, at: Date): number[] =>
  reports
    .filter(
      (report) =>
        report.stationId === stationId &&
        report.kind === kind &&
        report.hour === hour &&
        report.knownAt <= at,
    )
    .toSorted((a, b) => (a.date < b.date ? 1 : -1))
    .slice(0, MEMBERS)
    .map(({ temperatureF }) => temperatureF);
