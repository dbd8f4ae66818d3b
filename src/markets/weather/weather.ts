import type { Logger } from 'pino';
import { type Clock, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { groupBy } from '../../core/collections.js';
import { targetKey, type Target } from '../market/market.js';
import type { VenueNote } from '../market/source.js';
import type { Station } from '../market/stations.js';
import { createPoll } from './read-json.js';

export function momentsOf({ membersF, spreadF }: Pick<DayEnsemble, 'membersF' | 'spreadF'>) {
  const { mean, variance } = meanAndVariance(membersF);
  return { mean, variance: spreadF === undefined ? variance : spreadF ** 2 };
}

export const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, x) => sum + x, 0) / values.length;

export function meanAndVariance(membersF: readonly number[]): { mean: number; variance: number } {
  const mean = meanOf(membersF);
  const squares = membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, variance: membersF.length > 1 ? squares / (membersF.length - 1) : 0 };
}

/** Physically possible range. An ensemble with a member outside it is invalid. */
const POSSIBLE_F = { lowest: -100, highest: 150 };

export const isPossible = (temperatureF: number): boolean =>
  temperatureF >= POSSIBLE_F.lowest && temperatureF <= POSSIBLE_F.highest;

/** Minimum number of members; with fewer, the spread is not meaningful. */
export const MIN_MEMBERS = 10;

/** A source's first model, which alone determines whether a forecast exists and how old it is. */
export const MAIN_MODEL = 'main';
/** The first model's latest run that is at least half a day older than its newest. */
export const EARLIER_RUN = 'earlier';
/** The National Weather Service's gridpoint forecast, which gets low weight until its errors are known. */
export const GRIDPOINTS = 'gridpoints';
export const EARLIER_MS = 12 * HOUR_MS;

/** Groups the data known at a time by target: the newest usable ensemble, further models and the observed extreme. */
export function groupKnownWeather({ ensembles, observed }: WeatherData, at: Date) {
  const there = ensembles.filter((ensemble) => ensemble.fetchedAt <= at && ensemble.modelRunAt <= at);
  const newest = newestOf(there.filter(({ model, membersF }) => model === undefined && isUsable(membersF)));
  const isEarlier = (run: DayEnsemble): boolean =>
    run.model === undefined &&
    run.modelRunAt.getTime() + EARLIER_MS <= (newest.get(targetKey(run))?.modelRunAt.getTime() ?? 0) &&
    isUsable(run.membersF);
  const earlier = [...newestOf(there.filter(isEarlier)).values()];
  const models = [...new Set(there.map(({ model }) => model))].filter((name) => name !== undefined);
  const others = models.flatMap((name) => [
    ...newestOf(there.filter(({ model, membersF }) => model === name && isSound(membersF))).values(),
  ]);
  const further = [...earlier.map((run) => ({ ...run, model: EARLIER_RUN })), ...others];
  const extremes = new Map<string, ObservedExtreme>();
  for (const observation of observed) {
    const { fetchedAt, observedAt, extremeF } = observation;
    if (fetchedAt > at || observedAt > at || !isPossible(extremeF)) continue;
    const key = targetKey(observation);
    const found = extremes.get(key);
    extremes.set(key, found ? mergeObservations(found, observation) : observation);
  }
  return { ensembles: newest, further: groupBy(further, targetKey), observed: extremes };
}

function newestOf(runs: readonly DayEnsemble[]): Map<string, DayEnsemble> {
  const newest = new Map<string, DayEnsemble>();
  for (const run of runs) {
    const key = targetKey(run);
    const found = newest.get(key);
    if (!found || isNewer(run, found)) newest.set(key, run);
  }
  return newest;
}

/** Merges two services' observations of one target: the day's final report wins, or else the more extreme value. */
function mergeObservations(a: ObservedExtreme, b: ObservedExtreme): ObservedExtreme {
  const [older, newer] = a.observedAt <= b.observedAt ? [a, b] : [b, a];
  if (a.isFinal || b.isFinal) return older.isFinal ? older : newer;
  if (newer.kind === 'hourly') return newer;
  const most = newer.kind === 'daily_maximum' ? Math.max : Math.min;
  const hoursF = newer.hoursF ?? older.hoursF;
  const minutes = newer.minutes ?? older.minutes;
  return {
    ...newer,
    extremeF: most(a.extremeF, b.extremeF),
    ...(hoursF && { hoursF }),
    ...(minutes && { minutes }),
  };
}

const HOURS = 24;
/** A report this close to a whole hour counts for that hour; most are made a few minutes before it. */
const NEAR_HOUR_MS = { before: 15 * MINUTE_MS, after: 10 * MINUTE_MS };

/** Returns the temperature at each hour of a climate day from the nearest report; null if no report is near it. */
export function hourlyTemperatures(dayStart: Date, reports: readonly { at: Date; temperatureF: number }[]) {
  return Array.from({ length: HOURS }, (_, hour) => {
    const hourMs = dayStart.getTime() + hour * HOUR_MS;
    let nearest: { offMs: number; temperatureF: number } | undefined;
    for (const { at, temperatureF } of reports) {
      const sinceMs = at.getTime() - hourMs;
      if (-sinceMs > NEAR_HOUR_MS.before || sinceMs > NEAR_HOUR_MS.after) continue;
      const offMs = Math.abs(sinceMs);
      if (!nearest || offMs < nearest.offMs) nearest = { offMs, temperatureF };
    }
    return nearest?.temperatureF ?? null;
  });
}

const isUsable = (membersF: readonly number[]): boolean =>
  membersF.length >= MIN_MEMBERS && isSound(membersF);

/** One member is enough for runs that are used only after correction. */
const isSound = (membersF: readonly number[]): boolean => membersF.length > 0 && membersF.every(isPossible);

const isNewer = (a: DayEnsemble, b: DayEnsemble): boolean =>
  a.modelRunAt.getTime() === b.modelRunAt.getTime() ? a.fetchedAt > b.fetchedAt : a.modelRunAt > b.modelRunAt;

/** The venue's index and its one-minute readings, which are read on their own, so that they wait for no other service. */
export interface MinuteFeeds {
  /** As of the last read. */
  readonly values: readonly ObservedExtreme[];
  /** Adds what one-minute readings prove of an extreme. */
  addTo(observed: ObservedExtreme, nowMs: number): ObservedExtreme;
}

export interface ObservationPart {
  name: string;
  everyMs: number;
  read: (signal: AbortSignal) => Promise<readonly ObservedExtreme[]>;
  /** Names what the last read left out. */
  notes?: () => readonly VenueNote[];
}

/** Each service at its own pace. Never rejects: a failing service keeps its data and does not affect the others. */
export function createObserver(
  parts: readonly ObservationPart[],
  { clock, log, minutes }: { clock: Clock; log: Logger; minutes?: MinuteFeeds | undefined },
) {
  const polls = parts.map(({ name, everyMs, read }) => ({ name, poll: createPoll(clock, everyMs, read) }));
  return {
    async read(signal: AbortSignal): Promise<void> {
      const polled = await Promise.all(
        polls.map(async ({ name, poll }) => ({ name, ...(await poll(signal)) })),
      );
      for (const { name, problem, isNews } of polled)
        if (isNews) log.warn({ err: problem }, `no new ${name}; the last ones are kept`);
    },
    /** As of the last answer of each service, and of the newest minute. */
    observed(): readonly ObservedExtreme[] {
      const known = polls.flatMap(({ poll }) => poll.last.value ?? []);
      return minutes ? [...known.map((each) => minutes.addTo(each, clock.now())), ...minutes.values] : known;
    },
    notes: () => parts.flatMap(({ notes }) => notes?.() ?? []),
  };
}

export interface DayEnsemble extends Target {
  /** Omitted for the source's first model. */
  model?: string | undefined;
  /** Start of the model run. The run uses no data from after this time. */
  modelRunAt: Date;
  /** True if the service does not name the run. `modelRunAt` is then the newest that it can be. */
  isRunUnknown?: true | undefined;
  fetchedAt: Date;
  membersF: readonly number[];
  /** Standard deviation in °F, as stated by a model with one member. */
  spreadF?: number | undefined;
  version?: string | undefined;
  /** True if the model's window may miss the day's extreme: the forecast is stored, but neither used nor trained on. */
  isNearMidnight?: true | undefined;
  /** For a day: the members' means at hours 0 to 23 local standard time, in °F; omitted if unknown. */
  curveF?: readonly number[] | undefined;
}

/** Whole °F between which the official extreme so far lies, as whole °C of single minutes prove. */
export interface MinuteBound {
  lowestF: number;
  highestF: number;
  /** The minute that proves it. */
  at: Date;
  /** Number of minutes at the extreme reading. */
  count: number;
  /** Temperatures of recent minutes; absent while the latest report is as recent. */
  level?: MinuteLevel;
}

export interface MinuteLevel {
  /** From the hour of the latest report; negative before it, as reports are made earlier. */
  afterHours: number;
  /** °F: two hours and one hour before that time, and at it. */
  recentF: readonly [number, number, number];
}

/**
 * The highest (for a minimum: lowest) temperature that a station has reported so far within a climate day; for an hour,
 * the index value once published. The daily report cannot be below it (for a minimum: above it), so readings that were
 * rounded twice in transit, which are off by a degree or two, are left out.
 */
export interface ObservedExtreme extends Target {
  extremeF: number;
  observedAt: Date;
  fetchedAt: Date;
  /** For a day: reports for hours 0 to 23 local standard time, in °F; null for hours without a report. */
  hoursF?: readonly (number | null)[];
  /** For a day: what one-minute readings prove besides. They never settle anything. */
  minutes?: MinuteBound;
  /** Set for the day's final report, which overrides all others. */
  isFinal?: true;
}

/** With the day's extremes so far, as known when the temperature became known; see `observedHours`. */
export interface KnownHour {
  stationId: string;
  date: string;
  hour: number;
  temperatureF: number;
  highestF: number | null;
  lowestF: number | null;
  observedAt: Date;
  fetchedAt: Date;
}

/** Returns the hours of a day as known at the time of the observation; the extremes belong to the latest hour. */
export function hoursOf(
  day: Pick<KnownHour, 'stationId' | 'date'>,
  { hoursF = [], extremeF, observedAt, fetchedAt }: ObservedExtreme,
  lowestF: number | null,
): KnownHour[] {
  const latest = hoursF.findLastIndex((temperatureF) => temperatureF !== null);
  return hoursF.flatMap((temperatureF, hour) => {
    if (temperatureF === null) return [];
    const extremes = hour === latest ? { highestF: extremeF, lowestF } : { highestF: null, lowestF: null };
    return [{ ...day, hour, temperatureF, ...extremes, observedAt, fetchedAt }];
  });
}

export interface WeatherData {
  fetchedAt: Date;
  notes?: readonly VenueNote[];
  ensembles: readonly DayEnsemble[];
  observed: readonly ObservedExtreme[];
}

export interface WeatherSource {
  readonly name: string;
  readonly furtherModels?: readonly string[] | undefined;
  readonly freshMs: number;
  /** Reads current data. Rejects if the data cannot be trusted; the caller keeps its last data. */
  read(signal: AbortSignal): Promise<WeatherData>;
  /** Knows newer ones than the last read, without a request. */
  observed?(): readonly ObservedExtreme[];
  /** Omitted if past forecasts can no longer be obtained. */
  readonly history?: WeatherHistory;
}

export class NoHistoryError extends Error {
  override readonly name = 'NoHistoryError';
}

/** Past runs of one model, with one request per station and range. */
export interface PlaceHistory {
  readonly model: string;
  /** Minimum time between requests, in milliseconds. */
  readonly apartMs: number;
  /** @throws the errors of `read` */
  readRuns(
    station: Station,
    range: { from: string; to: string },
    signal: AbortSignal,
  ): Promise<DayEnsemble[]>;
}

/** Past forecasts as they were made; forecasts that used later data are excluded. */
export interface WeatherHistory {
  /**
   * Reads the runs made for climate days and their hours, at most 31 days, both ends inclusive.
   * @returns runs whose `fetchedAt` is when Gauge actually received them, which for past runs is the time of this
   * request
   * @throws NoHistoryError, or the errors of `read`
   */
  readRuns(range: { from: string; to: string }, signal: AbortSignal): Promise<DayEnsemble[]>;
  /** Models that other services provide station by station. */
  readonly byPlace?: readonly PlaceHistory[];
  /** Returns hourly station reports as they were received. Omitted if these can no longer be obtained. */
  readHours?(range: { from: string; to: string }, signal: AbortSignal): Promise<KnownHour[]>;
}
