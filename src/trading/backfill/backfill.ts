import type { Orm } from '../../core/db/client.js';
import type { Archive } from '../archive/archive.js';
import { NoHistoryError, type WeatherSource } from '../forecast/forecast.js';
import { WeatherUnavailableError } from '../forecast/read-json.js';
import { UnexpectedAnswerError, VenueUnavailableError } from '../venue/kalshi-client.js';
import type { MarketSource } from '../market/source.js';
import type { Station } from '../market/stations.js';
import { kindsOf, readCoverage, type Coverage } from './coverage.js';
import { askPatiently, type Patience } from './patience.js';
import { planChunks, type Chunk, type Range } from './plan.js';

export interface BackfillProgress {
  /** Days that are missing, of forecasts and of reports together. */
  start(total: number): void;
  /** Days that have been asked for. */
  advance(days: number, what: string): void;
}

export interface BackfillOptions {
  orm: Orm;
  archive: Pick<Archive, 'addRuns' | 'addReports'>;
  weather: Pick<WeatherSource, 'name' | 'history'>;
  markets: Pick<MarketSource, 'name' | 'history'>;
  /** Whose days count. */
  stations: readonly Station[];
  range: Range;
  patience: Patience;
  progress: BackfillProgress;
  /** Once it aborts, the present chunk is the last one. */
  stop: AbortSignal;
}

export interface BackfillResult {
  newRuns: number;
  newReports: number;
  /** Why something could not be filled, in sentences. */
  problems: string[];
  isInterrupted: boolean;
  /** What there is now. */
  coverage: Coverage;
}

/** One of the two histories, in the terms that both have. */
interface Part {
  what: 'forecasts' | 'reports';
  source: string;
  chunks: Chunk[];
  /** Left out where the source has no history. */
  fill: ((range: Range) => Promise<number>) | undefined;
}

/**
 * Asks the sources for the days of a range that are not there, and writes each answer down as soon as it has come: an
 * answer is there whole or not at all, so another run goes on where this one ended. A source that fails does not keep the
 * other one from being asked.
 */
export async function backfill(options: BackfillOptions): Promise<BackfillResult> {
  const { orm, archive, weather, markets, stations, range, progress, stop } = options;
  const names = {
    forecastSource: weather.name,
    marketSource: markets.name,
    runKinds: kindsOf(weather.history),
    reportKinds: kindsOf(markets.history),
  };
  const before = await readCoverage(orm, names, stations, range);
  // What has been asked is waited for: only pauses end early.
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
  progress.start([forecasts, reports].flatMap(({ chunks }) => chunks).reduce((sum, c) => sum + c.missing, 0));
  const problems: string[] = [];
  const newRuns = await fillPart(forecasts, options, problems);
  const newReports = await fillPart(reports, options, problems);
  return {
    newRuns,
    newReports,
    problems,
    isInterrupted: stop.aborted,
    coverage: await readCoverage(orm, names, stations, range),
  };
}

async function fillPart(
  { what, source, chunks, fill }: Part,
  { patience, progress, stop }: BackfillOptions,
  problems: string[],
): Promise<number> {
  if (!fill) problems.push(`The source ${source} cannot say what its past ${what} were.`);
  let added = 0;
  for (const chunk of fill ? chunks : []) {
    if (stop.aborted) break;
    try {
      added += await askPatiently(() => fill!(chunk), patience, stop);
    } catch (error) {
      if (stop.aborted && (error as Error).name === 'AbortError') break;
      const sentence = explain(error);
      if (sentence === undefined) throw error;
      problems.push(`The ${what} from ${chunk.from} on could not be filled: ${sentence}`);
      break;
    }
    progress.advance(chunk.missing, `${what} to ${chunk.to}`);
  }
  return added;
}

const expected = [WeatherUnavailableError, VenueUnavailableError, UnexpectedAnswerError, NoHistoryError];

/** Undefined for what is no fault of a service. */
const explain = (error: unknown): string | undefined =>
  expected.some((kind) => error instanceof kind) ? `${(error as Error).message}.` : undefined;
