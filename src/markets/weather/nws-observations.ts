import type { Logger } from 'pino';
import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { DAY_MS, HOUR_MS } from '../../core/time.js';
import { inParallel } from '../../core/steps.js';
import { climateDayAt, dateOf, type ClimateDay } from '../market/climate-day.js';
import type { VenueNote } from '../market/source.js';
import { stations, stationsNear, type Station } from '../market/stations.js';
import { UnexpectedAnswerError } from '../venue/kalshi-client.js';
import { hourlyTemperatures, type ObservedExtreme } from './weather.js';
import { hourOfReport, readMetar, sortByDoubt, withoutReplaced, type Reading } from './metar.js';
import { readJson } from './read-json.js';

/** The National Weather Service may block callers without a User-Agent. */
export const NWS_USER_AGENT = 'gauge-weather-markets/1.0';

const toFahrenheit = (celsius: number): number => celsius * 1.8 + 32;

/** The previous day is still requested for this long after midnight, because its last report arrives late. */
const ASK_BACK_MS = 3 * HOUR_MS;
/** Reports may arrive late and corrections later, so each request reaches back this far before the latest report. */
const OVERLAP_MS = 3 * HOUR_MS;
/** Spreads the requests for 24 stations over a few seconds. */
const AT_ONCE = 4;
/** Time limit for all stations together, so that forecasts do not wait for a slow service. */
const TIMEOUT_MS = 15_000;
/** °C. Rounding explains this much between the METAR and the response; more means that one of them is wrong. */
const SAME_C = 1;
/** Stations this near share most of their weather. */
const NEIGHBOUR_KM = 250;
const possibleC = { lowest: -60, highest: 60 };
/** MADIS codes for failed or questionable readings. */
const badQuality = new Set(['X', 'Q', 'B']);

const observationSchema = z.looseObject({
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
});
const observationsSchema = z.looseObject({ features: z.array(z.unknown()).max(1_000) });

type Observation = z.output<typeof observationSchema>['properties'];

interface ReaderOptions extends Pick<WorkContext, 'clock' | 'log'> {
  baseUrl: string;
  timeoutMs?: number | undefined;
}

/**
 * Reads station reports from the National Weather Service: the whole climate day at first, then only new reports. A
 * station keeps its last reports while its requests fail; `read` rejects if all stations fail. `notes` names the doubtful
 * reports, which are left out.
 */
export function createObservationReader({ baseUrl, clock, log, timeoutMs = TIMEOUT_MS }: ReaderOptions) {
  const readings = new Map<string, Reading[]>();
  const trust = createTrust(log);
  let known: ObservedExtreme[] = [];

  async function readStation(station: Station, signal: AbortSignal): Promise<void> {
    const now = clock.now();
    const first = climateDayAt(station, new Date(now - ASK_BACK_MS));
    const before = (readings.get(station.id) ?? []).filter(({ at }) => at >= first.start);
    const latest = before.reduce((last, { at }) => Math.max(last, at.getTime()), -Infinity);
    const since = new Date(Math.max(first.start.getTime(), latest - OVERLAP_MS));
    const reports = await ask(station, since, signal);
    // A repeated request replaces the reports of its period, so that withdrawn reports are dropped.
    const kept = before.filter(({ at }) => at < since);
    const all = [...kept, ...withoutReplaced(reports).flatMap((report) => toReadings(station, report))];
    readings.set(station.id, all);
  }

  const madeBy = (station: Station): Reading[] =>
    (readings.get(station.id) ?? []).filter(({ at }) => at.getTime() <= clock.now());

  function toExtremes(station: Station): ObservedExtreme[] {
    const now = clock.now();
    const first = climateDayAt(station, new Date(now - ASK_BACK_MS));
    const trusted = trust.sort(station, madeBy(station), stationsNear(station, NEIGHBOUR_KM).flatMap(madeBy));
    const today = climateDayAt(station, new Date(now));
    const days = first.date === today.date ? [today] : [first, today];
    return days.flatMap((day) => extremesOf(station, day, trusted, new Date(now)));
  }

  async function ask(station: Station, since: Date, signal: AbortSignal): Promise<Observation[]> {
    const url = `${baseUrl}/stations/${station.id}/observations`;
    const { features } = await readJson({
      url: `${url}?start=${encodeURIComponent(since.toISOString())}&limit=500`,
      headers: { 'user-agent': NWS_USER_AGENT, accept: 'application/geo+json' },
      schema: observationsSchema,
      signal,
    });
    const read = features.map((feature) => observationSchema.safeParse(feature));
    const reports = read.flatMap(({ data }) =>
      data && (data.properties.station ?? `/${station.id}`).endsWith(`/${station.id}`)
        ? [data.properties]
        : [],
    );
    const leftOut = features.length - reports.length;
    const what = `${leftOut} of ${features.length} reports are unreadable or of another station`;
    if (leftOut > 0 && reports.length === 0) throw new UnexpectedAnswerError(url, what);
    if (leftOut > 0) log.warn({ station: station.id }, `${what}; the others are used`);
    return reports;
  }

  async function read(signal: AbortSignal): Promise<readonly ObservedExtreme[]> {
    const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
    const answers = await inParallel(stations, { width: AT_ONCE, signal }, async (station) => {
      try {
        await readStation(station, limited);
        return { station };
      } catch (error) {
        return { station, error };
      }
    });
    const failed = answers.filter((answer) => 'error' in answer);
    if (failed.length === answers.length) throw failed[0]!.error;
    if (failed.length > 0)
      log.warn(
        { err: failed[0]!.error, stations: failed.map(({ station }) => station.id) },
        'stations have no new observations; their last ones are kept',
      );
    const fresh = answers.flatMap((answer) => ('error' in answer ? [] : toExtremes(answer.station)));
    const isFresh = new Set(fresh.map(({ stationId, date }) => `${stationId} ${date}`));
    const oldest = dateOf(clock.now() - 3 * DAY_MS);
    const kept = known.filter(
      ({ stationId, date }) => !isFresh.has(`${stationId} ${date}`) && date >= oldest,
    );
    known = [...kept, ...fresh];
    return known;
  }

  return { read, notes: trust.notes };
}

/** Logs each doubtful reading once, and notes it for as long as it is doubtful. */
function createTrust(log: Logger) {
  const doubted = new Map<string, ReadonlySet<string>>();
  return {
    /** Returns the trusted readings. */
    sort({ id }: Station, all: readonly Reading[], neighbours: readonly Reading[]): Reading[] {
      const { trusted, doubtful } = sortByDoubt(all, neighbours);
      const before = doubted.get(id) ?? new Set();
      const found = doubtful.map(describe);
      const news = found.filter((each) => !before.has(each));
      doubted.set(id, new Set(found));
      if (news.length > 0)
        log.warn({ station: id, readings: news.slice(0, 10) }, 'doubtful temperatures are left out');
      return trusted;
    },
    notes: (): VenueNote[] =>
      [...doubted].flatMap(([name, { size }]) => {
        const example = [...doubted.get(name)!].slice(0, 5).join('; ');
        return size === 0 ? [] : [{ kind: 'doubtful_report', name, count: size, example }];
      }),
  };
}

function describe({ at, from, highestC, lowestC }: Reading): string {
  const time = at.toISOString().slice(0, 16);
  const values = [highestC, lowestC].map((each) => (each === null ? '?' : toFahrenheit(each).toFixed(1)));
  if (from === at) return `${time}Z: ${values[0]} °F`;
  const hours = (at.getTime() - from.getTime()) / HOUR_MS;
  return `${time}Z: extremes of ${Math.round(hours)} hours, ${values.join(' and ')} °F`;
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
    if (from < start || at >= end) continue;
    if (from === at) reports.push({ at, temperatureF: toFahrenheit(reading.highestC!) });
    highestC = Math.max(highestC, reading.highestC ?? -Infinity);
    lowestC = Math.min(lowestC, reading.lowestC ?? Infinity);
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
  if (badQuality.has(report.temperature?.qualityControl ?? '')) return [];
  const { temperatureC, sixHours, day } = readMetar(station.id, report.rawMessage ?? '', at);
  if (temperatureC === null || !agrees(report, temperatureC)) return [];
  const { start, end } = climateDayAt(station, at);
  const isOfDay = hourOfReport(at) === end.getTime();
  return [
    { from: at, highestC: temperatureC, lowestC: temperatureC },
    { from: new Date(at.getTime() - 6 * HOUR_MS), ...sixHours },
    ...(isOfDay ? [{ from: start, ...day }] : []),
  ]
    .filter((reading) => [reading.highestC, reading.lowestC].some((each) => each !== null))
    .filter(({ highestC, lowestC }) =>
      [highestC, lowestC].every(
        (each) => each === null || (each >= possibleC.lowest && each <= possibleC.highest),
      ),
    )
    .map((reading) => ({ at, ...reading }));
}

const agrees = ({ temperature }: Observation, temperatureC: number): boolean =>
  typeof temperature?.value !== 'number' || Math.abs(temperature.value - temperatureC) <= SAME_C;
