import type { Logger } from 'pino';
import { z } from 'zod';
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { inParallel } from '../../core/steps.js';
import { climateDayAt, dateOf, type ClimateDay } from '../market/climate-day.js';
import { stations, type Station } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { hourlyTemperatures, type ObservedExtreme } from './weather.js';
import { readJson } from './read-json.js';

/** The National Weather Service may block callers without a User-Agent. */
export const NWS_USER_AGENT = 'gauge-weather-markets/1.0';

/** Reports are made up to this long before the hour that they count toward. */
const EARLY_MS = 15 * MINUTE_MS;

/** Extremes of a period in °C; null if the report does not include them. */
interface ReportedRange {
  highestC: number | null;
  lowestC: number | null;
}

/** Temperatures that the daily climate report cannot contradict, at the station's precision of tenths of °C. */
interface ReportedTemperatures {
  temperatureC: number | null;
  /** Extremes of the six hours before the report. */
  sixHours: ReportedRange;
  /** Extremes of the calendar day in local standard time, included in the report made at the end of that day. */
  day: ReportedRange;
}

const unknown: ReportedRange = { highestC: null, lowestC: null };

/**
 * Parses the remarks of a METAR (FMH-1, chapter 12). `T02330150` is 23.3 °C. `10256 20144` is the six-hour maximum of
 * 25.6 °C and minimum of 14.4 °C, in the reports for 00, 06, 12 and 18 UTC. `402890144` is the day's maximum of 28.9 °C
 * and minimum of 14.4 °C, in the report for midnight. The whole degrees of the body are ignored, because converting
 * them to °F is off by up to one degree. A report may end in `=`, or in `$` if the station needs maintenance.
 */
function readMetar(stationId: string, report: string, at: Date): ReportedTemperatures {
  const [body = '', remarks = ''] = report.split(/\sRMK\s/);
  if (!body.split(/\s+/).includes(stationId)) return { temperatureC: null, sixHours: unknown, day: unknown };
  const group = (pattern: string) =>
    new RegExp(`(?:^|\\s)${pattern}(?=[\\s$=]|$)`).exec(remarks)?.slice(1) ?? [];
  const [sign, digits] = group(String.raw`T([01])(\d{3})(?:[01]\d{3}|/{4})?`);
  const isSixHourly = (hourOfReport(at) / HOUR_MS) % 6 === 0;
  const [highSign, high] = isSixHourly ? group(String.raw`1([01])(\d{3})`) : [];
  const [lowSign, low] = isSixHourly ? group(String.raw`2([01])(\d{3})`) : [];
  const [dayHighSign, dayHigh, dayLowSign, dayLow] = group(String.raw`4([01])(\d{3})([01])(\d{3})`);
  return {
    temperatureC: tenths(sign, digits),
    sixHours: { highestC: tenths(highSign, high), lowestC: tenths(lowSign, low) },
    day: { highestC: tenths(dayHighSign, dayHigh), lowestC: tenths(dayLowSign, dayLow) },
  };
}

const hourOfReport = (at: Date): number => Math.floor((at.getTime() + EARLY_MS) / HOUR_MS) * HOUR_MS;

const tenths = (sign: string | undefined, digits: string | undefined): number | null =>
  digits === undefined ? null : ((sign === '1' ? -1 : 1) * Number(digits)) / 10;

const toFahrenheit = (celsius: number): number => celsius * 1.8 + 32;

/** The previous day is still requested for this long after midnight, because its last report arrives late. */
const ASK_BACK_MS = 3 * HOUR_MS;
/** Reports may arrive late and corrections later, so each request reaches back this far before the latest report. */
const OVERLAP_MS = 3 * HOUR_MS;
/**
 * Maximum number of concurrent requests, so that requests for 24 stations are spread over a few seconds instead of sent
 * in one burst.
 */
const AT_ONCE = 4;
/** Time limit for all stations together, so that forecasts do not wait for a slow service. */
const TIMEOUT_MS = 15_000;
/**
 * °C. Rounding alone can make the temperature decoded from the METAR and the one in the response differ by this much; a
 * larger difference means that one of them is wrong.
 */
const SAME_C = 1;
const possibleC = { lowest: -60, highest: 60 };
/** MADIS codes for failed or questionable readings. */
const badQuality = new Set(['X', 'Q', 'B']);

const observationsSchema = z.looseObject({
  features: z
    .array(
      z.looseObject({
        properties: z.looseObject({
          station: z.string().optional(),
          timestamp: z.iso.datetime({ offset: true }),
          rawMessage: z.string().max(2_000).nullish(),
          temperature: z
            .looseObject({
              value: z.number().nullable(),
              unitCode: z.literal('wmoUnit:degC'),
              qualityControl: z.string().nullish(),
            })
            .nullish(),
        }),
      }),
    )
    .max(1_000),
});

type Observation = z.output<typeof observationsSchema>['features'][number]['properties'];

interface Reading {
  at: Date;
  /** Start of the period covered; for a single temperature, the same Date object as `at`. */
  from: Date;
  highestC: number;
  lowestC: number;
}

interface ReaderOptions {
  baseUrl: string;
  clock: Clock;
  log: Logger;
  timeoutMs?: number | undefined;
}

/**
 * Reads station reports from the National Weather Service: the whole climate day at first, then only new reports. A
 * station keeps its last reports while its requests fail; the reader rejects if all stations fail.
 */
export function createObservationReader({ baseUrl, clock, log, timeoutMs = TIMEOUT_MS }: ReaderOptions) {
  const readings = new Map<string, Reading[]>();
  let known: ObservedExtreme[] = [];

  async function readStation(station: Station, signal: AbortSignal): Promise<ObservedExtreme[]> {
    const now = clock.now();
    const first = climateDayAt(station, new Date(now - ASK_BACK_MS));
    const before = (readings.get(station.id) ?? []).filter(({ at }) => at >= first.start);
    const latest = before.reduce((last, { at }) => Math.max(last, at.getTime()), -Infinity);
    const since = new Date(Math.max(first.start.getTime(), latest - OVERLAP_MS));
    const reports = await ask(station, since, signal);
    // A repeated request replaces the reports of its period, so that withdrawn reports are dropped.
    const kept = before.filter(({ at }) => at < since);
    const all = [...kept, ...reports.flatMap((report) => toReadings(station, report))];
    readings.set(station.id, all);
    const today = climateDayAt(station, new Date(now));
    const days = first.date === today.date ? [today] : [first, today];
    return days.flatMap((day) => extremesOf(station, day, all, new Date(clock.now())));
  }

  async function ask(station: Station, since: Date, signal: AbortSignal): Promise<Observation[]> {
    const url = `${baseUrl}/stations/${station.id}/observations`;
    const { features } = await readJson({
      url: `${url}?start=${encodeURIComponent(since.toISOString())}&limit=500`,
      headers: { 'user-agent': NWS_USER_AGENT, accept: 'application/geo+json' },
      schema: observationsSchema,
      signal,
    });
    const reports = features.map(({ properties }) => properties);
    const other = reports.find(({ station: of }) => of !== undefined && !of.endsWith(`/${station.id}`));
    if (other) throw new UnexpectedAnswerError(url, `an observation of ${other.station}`);
    return reports;
  }

  return async (signal: AbortSignal): Promise<readonly ObservedExtreme[]> => {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const answers = await inParallel(stations, { width: AT_ONCE, signal }, async (station) => {
      try {
        return { station: station.id, fresh: await readStation(station, limited) };
      } catch (error) {
        return { station: station.id, error };
      }
    });
    const failed = answers.filter((answer) => 'error' in answer);
    if (failed.length === answers.length) throw failed[0]!.error;
    if (failed.length > 0)
      log.warn(
        { err: failed[0]!.error, stations: failed.map(({ station }) => station) },
        'stations have no new observations; their last ones are kept',
      );
    const fresh = answers.flatMap((answer) => answer.fresh ?? []);
    const isFresh = new Set(fresh.map(({ stationId, date }) => `${stationId} ${date}`));
    const oldest = dateOf(clock.now() - 3 * DAY_MS);
    const kept = known.filter(
      ({ stationId, date }) => !isFresh.has(`${stationId} ${date}`) && date >= oldest,
    );
    known = [...kept, ...fresh];
    return known;
  };
}

/** Returns the extremes proven by reports within the day; empty if there are no such reports. */
function extremesOf(
  station: Station,
  { date, start, end }: ClimateDay,
  readings: readonly Reading[],
  fetchedAt: Date,
): ObservedExtreme[] {
  let [highestC, lowestC, latest] = [-Infinity, Infinity, -Infinity];
  const reports: { at: Date; temperatureF: number }[] = [];
  for (const { at, from, ...reading } of readings) {
    if (from < start || at >= end || at > fetchedAt) continue;
    if (from === at) reports.push({ at, temperatureF: toFahrenheit(reading.highestC) });
    highestC = Math.max(highestC, reading.highestC);
    lowestC = Math.min(lowestC, reading.lowestC);
    latest = Math.max(latest, at.getTime());
  }
  if (latest === -Infinity) return [];
  const hoursF = hourlyTemperatures(start, reports);
  const common = { stationId: station.id, date, observedAt: new Date(latest), fetchedAt, hoursF };
  return [
    { ...common, kind: 'daily_maximum', extremeF: toFahrenheit(highestC) },
    { ...common, kind: 'daily_minimum', extremeF: toFahrenheit(lowestC) },
  ];
}

/**
 * Splits a report into its own temperature and the extremes of the preceding periods. A six-hour period that began
 * before the day may have had its extremes on the previous day; calendar-day extremes belong to one day.
 */
function toReadings(station: Station, report: Observation): Reading[] {
  const at = new Date(report.timestamp);
  if (!isTrustworthy(report)) return [];
  const { temperatureC, sixHours, day } = readMetar(station.id, report.rawMessage ?? '', at);
  if (temperatureC === null || !agrees(report, temperatureC)) return [];
  const { start, end } = climateDayAt(station, at);
  const isOfDay = hourOfReport(at) === end.getTime();
  return [
    { from: at, highestC: temperatureC, lowestC: temperatureC },
    { from: new Date(at.getTime() - 6 * HOUR_MS), ...extendRange(temperatureC, sixHours) },
    ...(isOfDay ? [{ from: start, ...extendRange(temperatureC, day) }] : []),
  ]
    .filter(({ highestC, lowestC }) => lowestC >= possibleC.lowest && highestC <= possibleC.highest)
    .map((reading) => ({ at, ...reading }));
}

/** Extends a period's range by the temperature at its end. Without a range, returns that temperature as both bounds. */
const extendRange = (temperatureC: number, { highestC, lowestC }: ReportedRange) => ({
  highestC: Math.max(temperatureC, highestC ?? temperatureC),
  lowestC: Math.min(temperatureC, lowestC ?? temperatureC),
});

const isTrustworthy = ({ temperature }: Observation): boolean =>
  !badQuality.has(temperature?.qualityControl ?? '');

const agrees = ({ temperature }: Observation, temperatureC: number): boolean =>
  typeof temperature?.value !== 'number' || Math.abs(temperature.value - temperatureC) <= SAME_C;
