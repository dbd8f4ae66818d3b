import type { Logger } from 'pino';
import { type Clock, DAY_MS, HOUR_MS, MINUTE_MS } from '../../core/time.js';
import type { VenueNote } from '../market/source.js';
import { stations, type Station } from '../market/stations.js';
import type { DayEnsemble, PlaceHistory } from './weather.js';
import { WeatherUnavailableError } from './read-json.js';

/** A model that a service provides station by station. */
export interface PlaceForecasts {
  readonly model: string;
  readonly history?: PlaceHistory;
  /** Requests at most one station. Never rejects. */
  read: (signal: AbortSignal) => Promise<{ ensembles: DayEnsemble[]; notes: VenueNote[] }>;
}

/** Names a part of a response that cannot be read and is left out; the rest is used. */
export type LeaveOut = (problem: string) => void;

export interface PlaceService {
  baseUrl: string;
  clock: Clock;
  log?: Pick<Logger, 'warn'> | undefined;
}

interface Options extends Omit<PlaceService, 'baseUrl'> {
  model: string;
  /** @throws Error whose message explains why the station has no forecast */
  ask: (station: Station, signal: AbortSignal, leaveOut: LeaveOut) => Promise<DayEnsemble[]>;
  of?: readonly Station[];
}

/** For one station: 24 stations once an hour are 576 requests a day, or twice as many while requests fail. */
const EVERY_MS = HOUR_MS;
const RETRY_MS = 30 * MINUTE_MS;
/** Minimum time between requests, as requested by the Iowa Environmental Mesonet. */
export const APART_MS = 4_000;
const FIRST_PAUSE_MS = 2 * MINUTE_MS;
const LONGEST_PAUSE_MS = 2 * HOUR_MS;
/** Runs older than this are not used by any model. */
const OLDEST_RUN_MS = DAY_MS;

interface Known {
  runs: readonly DayEnsemble[];
  nextMs: number;
  problem: string | null;
  /** Parts that the last response lacked. */
  leftOut: readonly string[];
}

/**
 * Requests one station at a time, choosing the one that has waited longest. After a busy or failed response, no station
 * is requested for a pause, which doubles each time. A station keeps its runs for a day, including runs of earlier
 * cycles that the newest response does not repeat; an invalid response replaces none of them.
 */
export function createPlaceForecasts(options: Options): PlaceForecasts {
  const { model, ask, clock, log, of = stations } = options;
  const pace = { nextMs: -Infinity, pauses: 0 };
  const known = new Map<string, Known>(
    of.map(({ id }) => [
      id,
      { runs: [], nextMs: -Infinity, problem: 'it has not been read yet', leftOut: [] },
    ]),
  );

  async function askNext(signal: AbortSignal): Promise<void> {
    const now = clock.now();
    const [station] = of.toSorted((a, b) => known.get(a.id)!.nextMs - known.get(b.id)!.nextMs);
    const found = station && known.get(station.id)!;
    if (!station || !found || now < pace.nextMs || now < found.nextMs) return;
    pace.nextMs = now + APART_MS;
    try {
      const leftOut: string[] = [];
      const runs = await ask(station, signal, (problem) => leftOut.push(problem.slice(0, 100)));
      if (leftOut.length > 0)
        log?.warn(
          { model, station: station.id, count: leftOut.length, problems: leftOut.slice(0, 10) },
          'parts of a forecast cannot be read and are left out; the others are used',
        );
      known.set(station.id, {
        runs: merge(found.runs, runs),
        nextMs: now + EVERY_MS,
        problem: runs.length > 0 ? null : (leftOut[0] ?? 'it has no forecast for these days'),
        leftOut,
      });
      pace.pauses = 0;
    } catch (error) {
      const problem = error instanceof Error ? error.message : 'it failed';
      known.set(station.id, { ...found, nextMs: now + RETRY_MS, problem });
      if (!(error instanceof WeatherUnavailableError)) return;
      const pauseMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** pace.pauses++);
      pace.nextMs = now + Math.max(pauseMs, error.retryAfterMs ?? 0);
    }
  }

  return {
    model,
    async read(signal) {
      await askNext(signal);
      const oldestMs = clock.now() - OLDEST_RUN_MS;
      const ensembles: DayEnsemble[] = [];
      const missing: string[] = [];
      const inPart: string[] = [];
      for (const [id, { runs, problem, leftOut }] of known) {
        const fresh = runs.filter(({ modelRunAt }) => modelRunAt.getTime() > oldestMs);
        ensembles.push(...fresh);
        if (fresh.length > 0) inPart.push(...leftOut.map((each) => `${id}: ${each}`));
        else missing.push(`${id}: ${problem ?? `its newest run is from ${newestOf(runs)}`}`);
      }
      return {
        ensembles,
        notes: [...notesOfMissing(model, missing), ...notesOfMissing(`${model} in part`, inPart)],
      };
    },
  };
}

/** None if nothing is missing. */
export const notesOfMissing = (name: string, missing: readonly string[]): VenueNote[] =>
  missing.length === 0
    ? []
    : [{ kind: 'missing_model', name, count: missing.length, example: missing.join('; ').slice(0, 300) }];

const keyOf = ({ kind, date, modelRunAt }: DayEnsemble): string => `${kind} ${date} ${modelRunAt.getTime()}`;

function merge(before: readonly DayEnsemble[], found: readonly DayEnsemble[]): DayEnsemble[] {
  const newestMs = Math.max(...found.map(({ modelRunAt }) => modelRunAt.getTime()), -Infinity);
  const all = new Map([...before, ...found].map((run) => [keyOf(run), run]));
  return [...all.values()].filter(({ modelRunAt }) => newestMs - modelRunAt.getTime() < OLDEST_RUN_MS);
}

const newestOf = (runs: readonly DayEnsemble[]): string =>
  new Date(Math.max(...runs.map(({ modelRunAt }) => modelRunAt.getTime()), 0)).toISOString();
