import type { Orm } from '../../core/db/client.js';
import { DAY_MS } from '../../core/time.js';
import type { Archive } from '../training/forecast-archive.js';
import { listModelDays, readCoverage, type CoverageSources, type DateRange } from '../training/coverage.js';
import { NoHistoryError, type PlaceHistory, type WeatherSource } from '../weather/weather.js';
import { WeatherUnavailableError } from '../weather/read-json.js';
import { climateDayAt, daysBetween, addDays } from '../market/climate-day.js';
import type { MarketSource } from '../market/source.js';
import type { Station } from '../market/stations.js';
import { UnexpectedAnswerError, VenueUnavailableError } from '../venue/kalshi-client.js';
import { CommandError, isDate } from '../../commands/kit/command.js';

export interface BackfillOptions {
  orm: Orm;
  archive: Pick<Archive, 'addRuns' | 'addReports'>;
  weather: Pick<WeatherSource, 'name' | 'history'>;
  markets: Pick<MarketSource, 'name' | 'history'>;
  stations: readonly Station[];
  range: DateRange;
  pauses: Pauses;
  /** Days requested so far, out of all missing days. */
  onDays(done: number, all: number, what: string): void;
  /** The current chunk is finished. */
  stop: AbortSignal;
}

interface Part<C extends Chunk = Chunk> {
  what: string;
  source: string;
  chunks: C[];
  /** Undefined if the source has no history. */
  fill: ((chunk: C) => Promise<number>) | undefined;
}

type StationChunk = Chunk & { station: Station };

/** Stores each answer at once, so that a later run can resume. A failing source does not stop the other. */
export async function backfill(options: BackfillOptions) {
  const { orm, archive, weather, markets, stations, range, stop } = options;
  const names: CoverageSources = {
    forecastSource: weather.name,
    marketSource: markets.name,
    // Every source with a history has these kinds.
    runKinds: ['daily_maximum'],
    reportKinds: ['daily_maximum'],
  };
  const before = await readCoverage(orm, names, stations, range);
  // Requests in flight are completed; `stop` only ends pauses.
  const { signal } = new AbortController();
  const { history: runsOf } = weather;
  const { history: reportsOf } = markets;
  const forecasts: Part = {
    what: 'forecasts',
    source: weather.name,
    chunks: planChunks(range, (date) => before.hasRuns(date)),
    fill: runsOf && (async (asked) => archive.addRuns(await runsOf.readRuns(asked, signal))),
  };
  const reports: Part = {
    what: 'reports',
    source: markets.name,
    chunks: planChunks(range, (date) => before.hasReports(date)),
    fill: reportsOf && (async (asked) => archive.addReports(await reportsOf.readSettledDays(asked, signal))),
  };
  const ofPlaces: Part<StationChunk>[] = [];
  for (const history of runsOf?.byPlace ?? []) ofPlaces.push(await planPlaces(history, options, signal));
  const all = [forecasts, reports, ...ofPlaces]
    .flatMap(({ chunks }) => chunks)
    .reduce((sum, c) => sum + c.missing, 0);
  let done = 0;
  const onChunk = (chunk: Chunk, what: string) => options.onDays((done += chunk.missing), all, what);
  const problems: string[] = [];
  let newRuns = await fillPart(forecasts, { ...options, onChunk }, problems);
  const newReports = await fillPart(reports, { ...options, onChunk }, problems);
  for (const part of ofPlaces) newRuns += await fillPart(part, { ...options, onChunk }, problems);
  return {
    newRuns,
    newReports,
    problems,
    isInterrupted: stop.aborted,
    coverage: await readCoverage(orm, names, stations, range),
  };
}

/** An interrupted run leaves complete stations. Requests, including retries, are at least `apartMs` apart. */
async function planPlaces(
  history: PlaceHistory,
  { orm, archive, weather, stations, range, pauses, stop }: BackfillOptions,
  signal: AbortSignal,
): Promise<Part<StationChunk>> {
  const { model, apartMs } = history;
  const there = await listModelDays(orm, weather.name, model, range);
  let isFirst = true;
  return {
    what: `forecasts of ${model}`,
    source: weather.name,
    chunks: stations.flatMap((station) =>
      planChunks(range, (date) => there.has(`${station.id} ${date}`)).map((chunk) => ({ ...chunk, station })),
    ),
    async fill({ station, from, to }) {
      if (!isFirst) await pauses.sleep(apartMs, stop);
      isFirst = false;
      return archive.addRuns(await history.readRuns(station, { from, to }, signal));
    },
  };
}

async function fillPart<C extends Chunk & { station?: Station }>(
  { what, source, chunks, fill }: Part<C>,
  { pauses, onChunk, stop }: BackfillOptions & { onChunk: (chunk: Chunk, what: string) => void },
  problems: string[],
): Promise<number> {
  if (!fill) problems.push(`The source ${source} has no history of ${what}.`);
  let added = 0;
  for (const chunk of fill ? chunks : []) {
    if (stop.aborted) break;
    try {
      added += await askAgain(() => fill!(chunk), pauses, stop);
    } catch (error) {
      if (stop.aborted && (error as Error).name === 'AbortError') break;
      const sentence = explain(error);
      if (sentence === undefined) throw error;
      const at = chunk.station ? ` at ${chunk.station.id}` : '';
      problems.push(`The ${what}${at} from ${chunk.from} on could not be fetched: ${sentence}`);
      // A malformed answer for one station does not affect the others.
      if (chunk.station && error instanceof UnexpectedAnswerError) continue;
      break;
    }
    onChunk(chunk, `${what}${chunk.station ? ` at ${chunk.station.id}` : ''} to ${chunk.to}`);
  }
  return added;
}

const expected = [WeatherUnavailableError, VenueUnavailableError, UnexpectedAnswerError, NoHistoryError];

/** Undefined for errors that did not come from a service. */
const explain = (error: unknown): string | undefined =>
  expected.some((kind) => error instanceof kind) ? `${(error as Error).message}.` : undefined;

const ATTEMPTS = 5;
const FIRST_PAUSE_MS = 5_000;
/** The command gives up on a service that asks for more. */
const LONGEST_PAUSE_MS = 15 * 60_000;

export interface Pauses {
  /** Rejects on abort. */
  sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  /** From 0 to 1; several processes must not retry together. */
  random: () => number;
  note: (text: string) => void;
}

/**
 * While a service is busy or failing. Each pause is as long as the service requests, or else longer than the previous
 * one. An abort ends a pause, not a request.
 */
export async function askAgain<T>(ask: () => Promise<T>, { sleep, random, note }: Pauses, stop: AbortSignal) {
  for (let tried = 1; ; tried++) {
    try {
      return await ask();
    } catch (error) {
      const isPassing = error instanceof WeatherUnavailableError || error instanceof VenueUnavailableError;
      if (!isPassing || tried === ATTEMPTS) throw error;
      const grown = FIRST_PAUSE_MS * 2 ** (tried - 1) * (0.75 + 0.5 * random());
      const retryAfterMs = error instanceof WeatherUnavailableError ? error.retryAfterMs : undefined;
      const pauseMs = Math.ceil(retryAfterMs ?? grown);
      if (pauseMs > LONGEST_PAUSE_MS) throw error;
      note(`${error.message}. Retrying in ${Math.ceil(pauseMs / 1000)} s.`);
      await sleep(pauseMs, stop);
    }
  }
}

const CHUNK_DAYS = 31;

interface Chunk extends DateRange {
  missing: number;
}

export const lastDayOver = (stations: readonly Station[], nowMs: number): string =>
  stations.map((station) => climateDayAt(station, new Date(nowMs - DAY_MS)).date).toSorted()[0]!;

/** Each spans at most about 31 days and starts and ends with a missing day. */
export function planChunks({ from, to }: DateRange, isThere: (date: string) => boolean): Chunk[] {
  const chunks: Chunk[] = [];
  for (const date of daysBetween(from, to)) {
    if (isThere(date)) continue;
    const open = chunks.at(-1);
    if (open && date < addDays(open.from, CHUNK_DAYS)) {
      open.to = date;
      open.missing++;
    } else chunks.push({ from: date, to: date, missing: 1 });
  }
  return chunks;
}

/** Training uses no older data. */
export const DEFAULT_DAYS = 90;
/** The service deletes older data. */
export const MAX_DAYS = 400;

export interface RangeFlags {
  days?: string;
  from?: string;
  to?: string;
}

/** The last day must be over at every station. */
export function readRange(flags: RangeFlags, stations: readonly Station[], nowMs: number): DateRange {
  const last = lastDayOver(stations, nowMs);
  const to = readDate('--to', flags.to) ?? last;
  if (to > last) throw new CommandError(`--to ${to} is not over yet: the last completed day is ${last}.`);
  const days = readDays(flags.days);
  if (flags.from !== undefined && days !== undefined)
    throw new CommandError('Give either --days or --from, not both.');
  const from = readDate('--from', flags.from) ?? addDays(to, 1 - (days ?? DEFAULT_DAYS));
  const count = daysBetween(from, to).length;
  if (count === 0) throw new CommandError(`--from ${from} is after ${to}, the last day to fetch.`);
  if (count > MAX_DAYS)
    throw new CommandError(`${from} to ${to} has ${count} days; the most for one run is ${MAX_DAYS}.`);
  return { from, to };
}

function readDate(flag: string, value: string | undefined): string | undefined {
  if (value === undefined) return undefined;
  if (!isDate(value))
    throw new CommandError(`${flag} ${JSON.stringify(value)} is not a date like 2026-01-31.`);
  return value;
}

function readDays(value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  const days = /^\d{1,5}$/.test(value) ? Number(value) : 0;
  if (days < 1 || days > MAX_DAYS)
    throw new CommandError(
      `--days ${JSON.stringify(value)} is not a whole number between 1 and ${MAX_DAYS}.`,
    );
  return days;
}
