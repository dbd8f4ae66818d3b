import { HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { climateDayOf } from '../market/climate-day.js';
import { findStation } from '../market/stations.js';
import { meanOf, type MinuteLevel, type ObservedExtreme } from './weather.js';

/** As the venue's index lists a member. */
export interface MemberReading {
  stationId: string;
  at: Date;
  /** Null if the station has no reading of this minute, or no longer. */
  temperatureF: number | null;
  /** The venue's verdict: `pending` until its quality control has passed or rejected the reading. */
  code: string;
}

interface Minute {
  /** Whole degrees; NaN if rejected. */
  celsius: number;
  verdict: 'ok' | 'pending' | 'rejected';
}

const rejected: Minute = { celsius: NaN, verdict: 'rejected' };
const KEPT_MS = 48 * HOUR_MS;
/** Readings arrive within three minutes. */
const STOPPED_MS = 20 * MINUTE_MS;
/** °C. A pending reading farther from the minute before or the latest report waits for the quality control. */
const PENDING_C = 2;
/** °C. Rounding and the minutes between a reading and a report explain less. */
const CONTRADICTION_C = 2.5;
/** Hourly reports are made from seven minutes before the hour on. */
const REPORT_MS = { before: 15 * MINUTE_MS, after: 10 * MINUTE_MS };
/** Conversion of whole °C leaves less. */
const WHOLE_C = 0.03;

/** The whole °F that a station rounds to these whole °C: one or two. */
export const degreesOf = (celsius: number): { lowestF: number; highestF: number } => ({
  lowestF: Math.ceil((celsius - 0.5) * 1.8 + 32),
  highestF: Math.floor((celsius + 0.5) * 1.8 + 32),
});

const toCelsius = (temperatureF: number): number => (temperatureF - 32) / 1.8;

/** Undefined if no whole °C is shown as this temperature. */
function wholeCelsius(temperatureF: number | null): number | undefined {
  if (temperatureF === null) return undefined;
  const celsius = Math.round(toCelsius(temperatureF));
  return Math.abs(toCelsius(temperatureF) - celsius) <= WHOLE_C ? celsius : undefined;
}

export type MinuteBook = ReturnType<typeof createMinuteBook>;
export type MinuteFeed = NonNullable<ReturnType<MinuteBook['feedOf']>>;

/** Keeps the one-minute readings of stations for two days. */
export function createMinuteBook() {
  const kept = new Map<string, Map<number, Minute>>();

  /** If two readings of one batch contradict each other, neither counts. */
  function take(readings: readonly MemberReading[], now: number): void {
    const batch = new Map<string, { stationId: string; ms: number; minute: Minute }>();
    for (const { stationId, at, temperatureF, code } of readings) {
      const ms = at.getTime();
      if (ms > now || now - ms > KEPT_MS) continue;
      const key = `${stationId} ${ms}`;
      const celsius = wholeCelsius(temperatureF);
      const isContrary = (batch.get(key)?.minute.celsius ?? celsius) !== celsius;
      const isReading = celsius !== undefined && !isContrary && (code === 'ok' || code === 'pending');
      batch.set(key, { stationId, ms, minute: isReading ? { celsius, verdict: code } : rejected });
    }
    for (const { stationId, ms, minute } of batch.values()) {
      const minutes = kept.get(stationId) ?? new Map<number, Minute>();
      kept.set(stationId, minutes.set(ms, minute));
    }
    for (const minutes of kept.values())
      for (const ms of minutes.keys()) if (now - ms > KEPT_MS) minutes.delete(ms);
  }

  const minutesOf = (stationId: string): [number, Minute][] =>
    [...(kept.get(stationId) ?? [])].sort(([a], [b]) => a - b);

  /** Adds what the minutes prove to the extremes that reports have proven. */
  function addTo(observed: ObservedExtreme, now: number): ObservedExtreme {
    const { kind, stationId, date, isFinal, hoursF } = observed;
    const station = findStation(stationId);
    if (kind === 'hourly' || isFinal || !station || !hoursF || !kept.has(stationId)) return observed;
    const { start, end } = climateDayOf(station, date);
    const report = latestReport(hoursF, start);
    const minutes = minutesOf(stationId).filter(([ms]) => ms >= start.getTime() && ms < end.getTime());
    if (!report || findProblem(minutes, report, Math.min(now, end.getTime())) !== null) return observed;
    const trusted = trustedOf(minutes, report);
    const bound = boundOf(kind, trusted);
    const level = levelOf(trusted, report);
    return bound ? { ...observed, minutes: { ...bound, ...(level && { level }) } } : observed;
  }

  return {
    take,
    addTo,
    /** Forgets stations that have left the index. */
    keepOnly(stationIds: ReadonlySet<string>): void {
      for (const id of kept.keys()) if (!stationIds.has(id)) kept.delete(id);
    },
    feedOf(stationId: string, observed: ObservedExtreme | null, now: number) {
      const station = findStation(stationId);
      if (!station || !kept.has(stationId)) return null;
      const { start } = climateDayOf(station, observed?.date ?? '1970-01-01');
      const report = observed?.hoursF && latestReport(observed.hoursF, start);
      const minutes = minutesOf(stationId).filter(([ms]) => !observed || ms >= start.getTime());
      const shown = minutes.filter(([, { verdict }]) => verdict !== 'rejected');
      const changes = shown.filter(([, { celsius }], i) => shown[i - 1]?.[1].celsius !== celsius);
      const problem = report ? findProblem(minutes, report, now) : 'no report of the day is known yet';
      return {
        /** One for each change of temperature, oldest first. */
        changes: changes.map(([ms, { celsius, verdict }]) => ({
          at: new Date(ms),
          ...degreesOf(celsius),
          isConfirmed: verdict === 'ok',
        })),
        latestAt: shown.length === 0 ? null : new Date(shown.at(-1)![0]),
        /** Why the feed is left out; null if it is used. */
        problem,
      };
    },
  };
}

interface Report {
  at: number;
  celsius: number;
}

function latestReport(hoursF: readonly (number | null)[], dayStart: Date): Report | undefined {
  const hour = hoursF.findLastIndex((temperatureF) => temperatureF !== null);
  if (hour < 0) return undefined;
  return { at: dayStart.getTime() + hour * HOUR_MS, celsius: toCelsius(hoursF[hour]!) };
}

function findProblem(minutes: readonly [number, Minute][], report: Report, now: number): string | null {
  const latest = minutes.findLast(([, { verdict }]) => verdict !== 'rejected')?.[0];
  if (latest === undefined || now - latest > STOPPED_MS)
    return latest === undefined
      ? 'it has no readings of this day'
      : `its last reading is of ${new Date(latest).toISOString()}`;
  const near = minutes.filter(
    ([ms, { verdict }]) =>
      verdict !== 'rejected' && ms >= report.at - REPORT_MS.before && ms <= report.at + REPORT_MS.after,
  );
  const apart = near.map(([, { celsius }]) => Math.abs(celsius - report.celsius));
  return near.length > 0 && Math.min(...apart) > CONTRADICTION_C
    ? `it contradicts the report of ${new Date(report.at).toISOString()}`
    : null;
}

/** A pending reading counts at once if it is near the minute before and near the latest report. */
const trustedOf = (minutes: readonly [number, Minute][], report: Report): [number, number][] =>
  minutes.flatMap(([ms, { celsius, verdict }], i): [number, number][] => {
    const [beforeMs, before] = minutes[i - 1] ?? [];
    const isNear =
      beforeMs === ms - MINUTE_MS &&
      before!.verdict !== 'rejected' &&
      Math.abs(celsius - before!.celsius) <= PENDING_C &&
      Math.abs(celsius - report.celsius) <= PENDING_C;
    return verdict === 'ok' || (verdict === 'pending' && isNear) ? [[ms, celsius]] : [];
  });

/** The first minute with the extreme reading. */
function boundOf(kind: 'daily_maximum' | 'daily_minimum', trusted: readonly [number, number][]) {
  const all = trusted.map(([, celsius]) => celsius);
  const most = (kind === 'daily_maximum' ? Math.max : Math.min)(...all);
  const first = trusted[all.indexOf(most)];
  const count = all.filter((celsius) => celsius === most).length;
  return first && { ...degreesOf(most), at: new Date(first[0]), count };
}

/** After the hour of the latest report: earlier, the report is better (measured); later, the curve is too old. */
const NEWER_MS = { least: -3 * MINUTE_MS, most: 75 * MINUTE_MS };
/** Until then, the line is better this long before its end than at its end (measured). */
const SOON_MS = { until: 8 * MINUTE_MS, beforeEnd: 6 * MINUTE_MS };
/** A line through this many minutes follows the temperature and evens out the whole °C. */
const TREND_MS = 30 * MINUTE_MS;
const ABOUT_MS = 10 * MINUTE_MS;
const LEAST_READINGS = 10;

function levelOf(trusted: readonly [number, number][], report: Report): MinuteLevel | undefined {
  const latest = trusted.at(-1)?.[0] ?? 0;
  const newerMs = latest - report.at;
  if (newerMs < NEWER_MS.least || newerMs > NEWER_MS.most) return undefined;
  // °F, in the middle of the degrees that a station rounds to these whole °C.
  const middleOf = (celsius: number) => meanOf(Object.values(degreesOf(celsius)));
  const points = trusted.map(([ms, celsius]) => ({ ms, temperatureF: middleOf(celsius) }));
  const within = (from: number, to: number) => points.filter(({ ms }) => ms >= from && ms <= to);
  const around = (ms: number) => within(ms - ABOUT_MS, ms + ABOUT_MS);
  const trend = within(latest - TREND_MS + MINUTE_MS, latest);
  const at = newerMs < SOON_MS.until ? latest - SOON_MS.beforeEnd : latest;
  const before = [around(at - 2 * HOUR_MS), around(at - HOUR_MS)] as const;
  if ([...before, trend].some(({ length }) => length < LEAST_READINGS)) return undefined;
  const [first, second] = before.map((part) => meanOf(part.map(({ temperatureF }) => temperatureF)));
  return { afterHours: (at - report.at) / HOUR_MS, recentF: [first!, second!, onLine(trend, at)] };
}

/** By least squares. */
function onLine(points: readonly { ms: number; temperatureF: number }[], at: number): number {
  const meanMs = meanOf(points.map(({ ms }) => ms));
  const meanF = meanOf(points.map(({ temperatureF }) => temperatureF));
  let [product, square] = [0, 0];
  for (const { ms, temperatureF } of points) {
    product += (ms - meanMs) * (temperatureF - meanF);
    square += (ms - meanMs) ** 2;
  }
  return meanF + (product / square) * (at - meanMs);
}
