import type { DayEnsemble } from '../../trading/forecast/forecast.js';
import type { SettledDay } from '../../trading/markets/source.js';
import { climateDayOf } from '../../trading/settlement/climate-day.js';
import { findStation } from '../../trading/settlement/stations.js';

const HOUR_MS = 60 * 60 * 1000;
const MEMBERS = 31;
const MIN_MEMBERS = 10;
/** Hours before the day's end at which it is made anew, from about the opening of its markets on. */
const LEADS = [48, 42, 36, 30, 24];

/**
 * The simplest forecast that looks at nothing but the past: the last 31 maxima that had been reported, as members of an
 * ensemble. It stands in where no forecasts are given, so that recorded days can be gone through at all; nobody should
 * earn by it.
 * @returns none where fewer than ten days were known
 */
export function analogsOf(
  reports: readonly SettledDay[],
  { stationId, date }: Pick<DayEnsemble, 'stationId' | 'date'>,
): DayEnsemble[] {
  const { end } = climateDayOf(findStation(stationId)!, date);
  return LEADS.flatMap((lead) => {
    const at = new Date(end.getTime() - lead * HOUR_MS);
    const membersF = lastMaxima(reports, stationId, at);
    if (membersF.length < MIN_MEMBERS) return [];
    return [{ kind: 'daily_maximum' as const, stationId, date, modelRunAt: at, fetchedAt: at, membersF }];
  });
}

const lastMaxima = (reports: readonly SettledDay[], stationId: string, at: Date): number[] =>
  reports
    .filter((day) => day.stationId === stationId && day.knownAt <= at)
    .toSorted((a, b) => (a.date < b.date ? 1 : -1))
    .slice(0, MEMBERS)
    .map(({ temperatureF }) => temperatureF);
