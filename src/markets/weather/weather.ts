import type { Logger } from 'pino';
import { type Clock, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import { groupBy } from '../../core/collections.js';
import { targetKey, type Target } from '../market/market.js';
import type { VenueNote } from '../market/source.js';
import { createPoll } from './read-json.js';

/** Mean and sample variance of the members; the variance of a single one is 0. */
export function meanAndVariance(membersF: readonly number[]): { mean: number; variance: number } {
  const mean = membersF.reduce((sum, x) => sum + x, 0) / membersF.length;
  const squares = membersF.reduce((sum, x) => sum + (x - mean) ** 2, 0);
  return { mean, variance: membersF.length > 1 ? squares / (membersF.length - 1) : 0 };
}

/** What the air has never been. An ensemble with such a member is broken. */
const POSSIBLE_F = { lowest: -100, highest: 150 };

export const isPossible = (temperatureF: number): boolean =>
  temperatureF >= POSSIBLE_F.lowest && temperatureF <= POSSIBLE_F.highest;

/** A spread of fewer members says nothing. */
export const MIN_MEMBERS = 10;

/** A source's first model: it alone decides whether there is a forecast, and how old that is. */
export const MAIN_MODEL = 'main';
/** The first model's run of half a day before its newest one, or the last before that: another vintage of the same. */
export const EARLIER_RUN = 'earlier';
export const EARLIER_MS = 12 * HOUR_MS;

/** By target: the newest ensemble that can be used, what else there is beside it, and the extreme that was reported. */
export function whatWasKnown({ ensembles, observed }: WeatherData, at: Date) {
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
    extremes.set(key, found ? takeTogether(found, observation) : observation);
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

/** What two services have said of the same: the day's own report is the last word, before it the more extreme counts. */
function takeTogether(a: ObservedExtreme, b: ObservedExtreme): ObservedExtreme {
  const [older, newer] = a.observedAt <= b.observedAt ? [a, b] : [b, a];
  if (a.isFinal || b.isFinal) return older.isFinal ? older : newer;
  if (newer.kind === 'hourly') return newer;
  const most = newer.kind === 'daily_maximum' ? Math.max : Math.min;
  const hoursF = newer.hoursF ?? older.hoursF;
  return { ...newer, extremeF: most(a.extremeF, b.extremeF), ...(hoursF && { hoursF }) };
}

const HOURS = 24;
/** A report this near a whole hour tells of it: most are made some minutes before. */
const NEAR_HOUR_MS = { before: 15 * MINUTE_MS, after: 10 * MINUTE_MS };

/** The temperature at each hour of a climate day, by the report nearest to it; null where there is none. */
export function hourlyTemperatures(
  dayStart: Date,
  reports: readonly { at: Date; temperatureF: number }[],
): (number | null)[] {
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

/** A single run is enough where nothing is made of it uncorrected. */
const isSound = (membersF: readonly number[]): boolean => membersF.length > 0 && membersF.every(isPossible);

const isNewer = (a: DayEnsemble, b: DayEnsemble): boolean =>
  a.modelRunAt.getTime() === b.modelRunAt.getTime() ? a.fetchedAt > b.fetchedAt : a.modelRunAt > b.modelRunAt;

type Observe = (signal: AbortSignal) => Promise<readonly ObservedExtreme[]>;

/** One service that knows what was measured. */
export interface ObservationPart {
  /** For the log. */
  name: string;
  everyMs: number;
  read: Observe;
}

/**
 * What several services have measured, each asked at its own pace. Never rejects: a part that fails keeps what it said last and
 * takes nothing from the others.
 */
export function createObserver(
  parts: readonly ObservationPart[],
  { clock, log }: { clock: Clock; log: Logger },
): Observe {
  const polls = parts.map(({ name, everyMs, read }) => ({ name, poll: createPoll(clock, everyMs, read) }));
  return async (signal) => {
    const polled = await Promise.all(
      polls.map(async ({ name, poll }) => ({ name, ...(await poll(signal)) })),
    );
    for (const { name, problem, isNews } of polled)
      if (isNews) log.warn({ err: problem }, `no new ${name}: the last ones are kept`);
    return polled.flatMap(({ value }) => value ?? []);
  };
}

/** One run of an ensemble for one temperature. */
export interface DayEnsemble extends Target {
  /** Left out: the source's first one. */
  model?: string | undefined;
  /** When the weather model was started: nothing later is in it. */
  modelRunAt: Date;
  /** When we got it. */
  fetchedAt: Date;
  /** What each member says, °F. */
  membersF: readonly number[];
  /** Of a day: the members' mean at its hours 0 to 23 by local standard time, °F; left out where it is not known. */
  curveF?: readonly number[] | undefined;
}

/**
 * The highest (of a minimum: the lowest) temperature that a station has reported within a climate day so far; of an hour what the
 * index says of it, once it does. Only what the day's report cannot be below (above) may stand here: readings that are rounded
 * twice on their way are a degree or two off.
 */
export interface ObservedExtreme extends Target {
  extremeF: number;
  /** When the latest report was made. */
  observedAt: Date;
  fetchedAt: Date;
  /** Of a day: what was reported for its hours 0 to 23 by local standard time, °F; null where nothing was. */
  hoursF?: readonly (number | null)[];
  /** It is the day's own report, after which nothing counts. */
  isFinal?: true;
}

/** What a station had reported when the temperature of an hour became known, see `observedHours`. */
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

/** What was known of the hours of a day as of its observation: its extremes are those of the latest hour. */
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

/** What a weather source knew at one time. */
export interface WeatherData {
  fetchedAt: Date;
  /** Models that are missing, beside those that are there; left out: none. */
  notes?: readonly VenueNote[];
  ensembles: readonly DayEnsemble[];
  observed: readonly ObservedExtreme[];
}

/** Where forecasts and observations come from. */
export interface WeatherSource {
  readonly name: string;
  /** Beside the first model those whose runs it may have, too; left out: none. */
  readonly furtherModels?: readonly string[] | undefined;
  /** How long its data are good for: it is not asked again before. */
  readonly freshMs: number;
  /** Rejects with whatever cannot be trusted; the caller keeps what it had. */
  read(signal: AbortSignal): Promise<WeatherData>;
  /** Left out where it cannot be known any more what was forecast in the past. */
  readonly history?: WeatherHistory;
}

/** It cannot be known any more what was forecast in the past. */
export class NoHistoryError extends Error {
  override readonly name = 'NoHistoryError';
}

/** What was forecast in the past. A forecast that was made of later data has no place here. */
export interface WeatherHistory {
  /**
   * The runs that were made for some climate days and their hours, at most 31 days.
   * @param from the first day; @param to the last one
   * @returns with `fetchedAt` as the time at which each run really came into our hands: for what is asked for afterwards that
   * is now
   * @throws NoHistoryError, or as `read` does
   */
  readRuns(range: { from: string; to: string }, signal: AbortSignal): Promise<DayEnsemble[]>;
  /** What stations had reported hour by hour, as it came into our hands. Left out where that cannot be known any more. */
  readHours?(range: { from: string; to: string }, signal: AbortSignal): Promise<KnownHour[]>;
}
