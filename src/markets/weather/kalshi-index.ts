import { z } from 'zod';
import type { WorkContext } from '../../core/http/context.js';
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { clockAt, hourOf } from '../market/climate-day.js';
import { indexAreas, type IndexArea } from '../market/stations.js';
import { UnexpectedAnswerError, type KalshiClient } from '../venue/kalshi-client.js';
import type { ObservedExtreme } from './weather.js';
import type { MemberReading, MinuteBook } from './minutes.js';
import { createPublication, type Receipt } from './publication.js';
import { createPoll, type Poll, type Polled } from './read-json.js';

const MAX_POINTS = 5_000;
const MAX_MEMBERS = 100;

const pointSchema = z.looseObject({
  /** The minute, in milliseconds since 1970. */
  t: z.int(),
  /** °F with two decimals; omitted while the minute has no value. */
  v: z.number().min(-100).max(150).optional(),
  status: z.string(),
  /** Present only on points that were filled in later, which never settle a market. */
  receipt_basis: z.string().optional(),
  stations: z.array(z.unknown()).max(MAX_MEMBERS).nullish().catch(null),
});
/** Without `temp_f`, or with a carried-forward observation, which has its own time, there is no reading of the minute. */
const readingSchema = z.object({
  station_id: z.string().max(50),
  code: z.string(),
  source: z.string().optional(),
  temp_f: z.number().min(-100).max(150).optional(),
  obs_time_ms: z.number().nullish(),
  received_at_ms: z.number().optional().catch(undefined),
});
type IndexPoint = z.output<typeof pointSchema>;

/** `GET /live_data/weather/{city}?detailed=true` (OpenAPI 3.32). */
const indexAnswerSchema = z.looseObject({
  city: z.string(),
  units: z.literal('fahrenheit'),
  timeseries: z.array(z.unknown()).max(MAX_POINTS).nullish(),
});

const calibrationSchema = z.looseObject({
  config_version: z.string().max(200),
  effective_at_ms: z.int(),
  stations: z
    .array(z.looseObject({ station_id: z.string().max(50), weight: z.number(), offset_c: z.number() }))
    .max(MAX_MEMBERS),
});

/** `GET /live_data/weather/{city}/calibrations`: every calibration so far, oldest first. */
const calibrationsAnswerSchema = z.looseObject({
  city: z.string(),
  units: z.literal('celsius'),
  calibrations: z.array(calibrationSchema).max(10_000),
});

/** One for each of the index's cities. Requests beyond wait for a later minute. */
const REQUESTS_A_MINUTE = 13;
const CALIBRATIONS_EVERY_MS = DAY_MS;
const CITIES_EVERY_MS = DAY_MS;
/** The venue had 13 in November 2026. */
const MAX_CITIES = 40;
/** Readings count if they arrive within this time after their minute, so a value younger than this is not final. */
const RECEIPT_MS = 5 * MINUTE_MS;
/** How far back the first request reaches, to include every hour of today. */
const FIRST_WINDOW_MS = 26 * HOUR_MS;
/** How far back later requests reach, to include late values. */
const OVERLAP_MS = 15 * MINUTE_MS;
const HOURS_KEPT_MS = 3 * DAY_MS;
/** `degraded` means that a station was absent or substituted; markets still settle on the value. */
const eligible = new Set(['normal', 'degraded']);

export interface IndexState {
  /** The venue's id of the city. */
  cityId: string;
  /** Null for a city without forecasts here. */
  area: IndexArea | null;
  /** The newest value eligible for settlement; null before the first. */
  latest: { at: Date; temperatureF: number; status: 'normal' | 'degraded' } | null;
  /** The calibration in effect; null until the venue has published one. */
  calibration: ReturnType<typeof calibrationOf>;
  problem: string | null;
}

export type IndexReader = ReturnType<typeof createIndexReader>;

interface IndexOptions extends Pick<WorkContext, 'clock' | 'log'> {
  client: Pick<KalshiClient, 'get'>;
  minutes?: Pick<MinuteBook, 'take' | 'keepOnly'> | undefined;
  /** Stations with markets or positions, whose cities are read each minute. */
  wanted?: (() => ReadonlySet<string>) | undefined;
}

/** A weighted and corrected mean of several stations, on which hourly markets settle. */
export function createIndexReader(options: IndexOptions) {
  const { client, clock, log, minutes } = options;
  const pace = createPace(clock);
  const create = (cityId: string, area: IndexArea | null) =>
    createCityReader({ cityId, area }, { ...options, pace });
  const cities = new Map(indexAreas.map((area) => [area.indexId, create(area.indexId, area)]));
  const areas = [...cities.values()];
  let states: readonly IndexState[] = areas.map(({ state }) => state);
  let values: readonly ObservedExtreme[] = [];
  const pollIds = createPoll(clock, CITIES_EVERY_MS, (signal) => readCityIds(client, signal));
  return {
    /** Polls each area at its own pace and never rejects. Returns `values`. */
    async read(signal: AbortSignal): Promise<readonly ObservedExtreme[]> {
      const { value: ids = [], problem, isNews } = await paced(pollIds, pace)(signal);
      if (isNews) log.warn({ err: problem }, "the venue's list of index cities could not be read");
      for (const id of ids) if (!cities.has(id) && cities.size < MAX_CITIES) cities.set(id, create(id, null));
      const hours = await Promise.all([...cities.values()].map((city) => city.read(signal)));
      states = [...cities.values()]
        .map(({ state }) => state)
        .filter(({ area, calibration }) => area !== null || calibration !== null);
      const members = states.flatMap(({ calibration }) => calibration?.members ?? []);
      if (states.every(({ calibration }) => calibration)) minutes?.keepOnly(new Set(members.map(stationOf)));
      return (values = hours.flat());
    },
    /** Whether the readings of another minute should be there by now. */
    isDue: () => pace.isFree() && [...cities.values()].some((city) => city.isDue()),
    /** As of the last read: the cities of `indexAreas` in their order, then the others that the venue lists. */
    get states() {
      return states;
    },
    /** Index values at whole hours, as of the last read. */
    get values() {
      return values;
    },
  };
}

/** The venue names a station's one-minute readings by its ICAO code and `1M`. */
const stationOf = ({ stationId }: { stationId: string }): string => stationId.replace(/1M$/, '');

type Pace = ReturnType<typeof createPace>;

/** Allows a number of requests in any minute. */
function createPace(clock: Clock) {
  let asked: number[] = [];
  const isFree = (): boolean => {
    const now = clock.now();
    asked = asked.filter((at) => Math.abs(now - at) < MINUTE_MS);
    return asked.length < REQUESTS_A_MINUTE;
  };
  return { isFree, take: (): boolean => isFree() && asked.push(clock.now()) > 0 };
}

/** The last answer counts until the next request is allowed. */
const paced =
  <T>(poll: Poll<T>, pace: Pace): ((signal: AbortSignal) => Promise<Polled<T>>) =>
  (signal) =>
    poll.isDue() && !pace.take() ? Promise.resolve(poll.last) : poll(signal);

/** No city has this id, so the venue answers with the ids that it has. */
const NO_CITY = 'none';

/** The venue has no list of cities, but names them when it refuses an unknown one. */
async function readCityIds(client: Pick<KalshiClient, 'get'>, signal: AbortSignal): Promise<string[]> {
  try {
    await client.get(`/live_data/weather/${NO_CITY}`, [], z.unknown(), signal);
    return [];
  } catch (error) {
    if (error instanceof UnexpectedAnswerError && error.httpStatus === 400) return cityIdsIn(error.message);
    throw error;
  }
}

/** The words of the longest list in a text. A word that is no city has no calibrations, and is not shown. */
function cityIdsIn(text: string): string[] {
  const lists = text.match(/[a-z][a-z-]*(?:[\\"'’]*[, ] ?[\\"'‘]*[a-z][a-z-]*)+/g) ?? [];
  const commas = (list: string) => list.split(',').length;
  const longest = lists.toSorted((a, b) => commas(b) - commas(a))[0] ?? '';
  return [...new Set(longest.match(/[a-z][a-z-]+/g))].filter((word) => word !== 'and' && word !== 'or');
}

function createCityReader(
  { cityId, area }: Pick<IndexState, 'cityId' | 'area'>,
  { client, clock, log, minutes, wanted, pace }: IndexOptions & { pace: Pace },
) {
  const path = `/live_data/weather/${cityId}`;
  const hours = area && createHours(area);
  let state: IndexState = { cityId, area, latest: null, calibration: null, problem: null };
  let readAt = -Infinity;
  const publication = createPublication();

  const pollIndex = createPoll(clock, publication.nextAfter, async (signal) => {
    const windowMs = Math.min(FIRST_WINDOW_MS, clock.now() - readAt + OVERLAP_MS);
    const answer = await client.get(
      path,
      [
        ['last_sec', Math.ceil(windowMs / 1000)],
        ...(minutes ? [['detailed', 'true'] satisfies [string, string]] : []),
      ],
      indexAnswerSchema,
      signal,
    );
    expectArea(answer.city);
    const now = clock.now();
    readAt = now;
    const given = answer.timeseries ?? [];
    const read = given.flatMap((point) => pointSchema.safeParse(point).data ?? []);
    if (read.length === 0 && given.length > 0)
      throw new UnexpectedAnswerError(path, `none of ${given.length} points can be read`);
    if (read.length < given.length)
      log.warn({ city: cityId }, `${given.length - read.length} of ${given.length} points are left out`);
    const points = read.filter(({ t }) => t <= now).flatMap(toValue);
    hours?.keep(points, now);
    const readings = read.flatMap(readingsOf);
    minutes?.take(readings, now);
    publication.learn(readings.flatMap(toReceipt), now);
    const newest = points.toSorted((a, b) => a.at.getTime() - b.at.getTime()).at(-1);
    if (newest && (!state.latest || newest.at >= state.latest.at)) state = { ...state, latest: newest };
  });

  const pollCalibrations = createPoll(clock, CALIBRATIONS_EVERY_MS, async (signal) => {
    const { city, calibrations } = await client.get(
      `${path}/calibrations`,
      [],
      calibrationsAnswerSchema,
      signal,
    );
    expectArea(city);
    return calibrations;
  });

  function expectArea(city: string): void {
    if (city !== cityId) throw new UnexpectedAnswerError(path, `the index of ${city}`);
  }

  function isWanted(): boolean {
    const stations = wanted?.() ?? new Set();
    return area !== null || state.calibration?.members.some((one) => stations.has(stationOf(one))) === true;
  }

  const readCalibrations = (signal: AbortSignal) => paced(pollCalibrations, pace)(signal);

  return {
    get state() {
      return state;
    },
    isDue: () => isWanted() && pollIndex.isDue(),
    async read(signal: AbortSignal): Promise<ObservedExtreme[]> {
      // Once a day, the minutes wait for the calibrations; otherwise 13 cities would leave no request for these.
      const renewed = state.calibration && (await readCalibrations(signal));
      const index = isWanted() ? await paced(pollIndex, pace)(signal) : undefined;
      const calibrations = renewed ?? (await readCalibrations(signal));
      const problem = index?.problem ?? calibrations.problem;
      const message = problem === undefined ? null : problem instanceof Error ? problem.message : 'it failed';
      if (message !== null && message !== state.problem)
        log.warn({ err: problem, city: cityId }, 'a city of the index has no new values');
      state = { ...state, calibration: calibrationOf(calibrations.value, clock.now()), problem: message };
      return hours?.list() ?? [];
    },
  };
}

/** The values of an area's whole hours. */
function createHours(area: IndexArea) {
  const hours = new Map<number, ObservedExtreme>();

  function keepHour(at: Date, extremeF: number, now: number): void {
    if (at.getTime() % HOUR_MS !== 0 || now - at.getTime() < RECEIPT_MS) return;
    const { date, hour } = clockAt(area, at);
    // When clocks are set back, an hour occurs twice; markets refer to the first.
    if (hourOf(area, date, hour).getTime() !== at.getTime()) return;
    if (hours.get(at.getTime())?.extremeF === extremeF) return;
    const fetchedAt = new Date(now);
    hours.set(at.getTime(), {
      kind: 'hourly',
      stationId: area.id,
      date,
      hour,
      extremeF,
      observedAt: at,
      fetchedAt,
    });
  }

  return {
    keep(points: readonly { at: Date; temperatureF: number }[], now: number): void {
      for (const { at, temperatureF } of points) keepHour(at, temperatureF, now);
      for (const ms of hours.keys()) if (now - ms > HOURS_KEPT_MS) hours.delete(ms);
    },
    list: (): ObservedExtreme[] => [...hours.values()],
  };
}

/** Returns the calibration in effect; weekly calibrations are published in advance. */
function calibrationOf(calibrations: readonly z.output<typeof calibrationSchema>[] | undefined, now: number) {
  const present = calibrations?.findLast(({ effective_at_ms: from }) => from <= now);
  if (!present) return null;
  return {
    version: present.config_version,
    effectiveAt: new Date(present.effective_at_ms),
    members: present.stations.map(({ station_id: stationId, weight, offset_c: offsetC }) => ({
      stationId,
      /** Share of the index; all weights add up to 1. */
      weight,
      /** Assumed bias of the station relative to the other stations, in °C; positive if too warm. */
      offsetC,
    })),
  };
}

/** Returns an empty list for missing, doubtful or backfilled points, which never settle a market. */
function toValue({ t, v, status, receipt_basis: basis }: IndexPoint): NonNullable<IndexState['latest']>[] {
  if (v === undefined || basis !== undefined || !eligible.has(status)) return [];
  return [{ at: new Date(t), temperatureF: v, status: status as 'normal' | 'degraded' }];
}

type Reading = MemberReading & { receivedMs: number | undefined };

/** Backfilled points are left out, as they are for the index. */
const readingsOf = ({ t, stations, receipt_basis: basis }: IndexPoint): Reading[] =>
  basis !== undefined
    ? []
    : (stations ?? []).flatMap((value) => {
        const { data } = readingSchema.safeParse(value);
        if (!data) return [];
        const { source, temp_f: temperatureF = null, obs_time_ms: ownTime, code } = data;
        const isOfMinute = source === 'hf_asos' && ownTime == null;
        const stationId = stationOf({ stationId: data.station_id });
        const reading = { stationId, at: new Date(t), temperatureF: isOfMinute ? temperatureF : null, code };
        return [{ ...reading, receivedMs: data.received_at_ms }];
      });

/** A late reading says nothing of its batch. */
const toReceipt = ({ at, temperatureF, code, receivedMs }: Reading): Receipt[] =>
  receivedMs === undefined || temperatureF === null || code === 'late'
    ? []
    : [{ minuteMs: at.getTime(), receivedMs }];
